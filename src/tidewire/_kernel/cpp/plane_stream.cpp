// Streams that come: what is known of them goes on to neighbours as it comes, and to local subscribers in its order.
#include <algorithm>

#include "plane.hpp"

namespace tidewire {

Stream& Plane::stream_at(u64 pubend) {
  auto& found = knowledge_[pubend];
  if (found == nullptr) found = std::make_unique<Stream>(pubend, false);
  return *found;
}

Stream* Plane::find_stream(u64 pubend) const {
  const auto found = knowledge_.find(pubend);
  return found == knowledge_.end() ? nullptr : found->second.get();
}

bool Plane::is_hosted(u64 pubend) const {
  const Stream* stream = find_stream(pubend);
  return stream != nullptr && stream->is_hosted;
}

// --- what a machine says

void Plane::distrust(u64 tree) {
  std::erase_if(trusted_, [tree](const auto& one) { return one.first.first == tree; });
}

void Plane::trust(u64 tree, const std::vector<std::pair<u64, u64>>& places, bool is_all) {
  for (const auto& [pubend, tick] : places) {
    Stream& stream = stream_at(pubend);
    if (stream.is_hosted) continue;
    trusted_.try_emplace({tree, pubend}, tick);
    if (!stream.has_tree || stream.tree != tree) stream.sound = kNever;
    if (is_all && stream.sound == kNever) stream.sound = tick;
    stream.has_tree = true;
    stream.tree = tree;
    if (stream.heard == 0) {
      stream.heard = tick;
      stream.begin(tick);
    } else if (tick > stream.heard) {
      stream.heard = tick;
      doubt(stream);
    }
  }
}

void Plane::widen(u64 tree) {
  for (const auto& [pubend, stream] : knowledge_)
    if (stream->has_tree && stream->tree == tree) stream->sound = kNever;
}

const Outcome& Plane::attend(u64 pubend, std::optional<u64> place) {
  outcome_.clear();
  Stream& stream = stream_at(pubend);
  if (stream.is_hosted) return finish();
  stream.is_attended = place.has_value();
  stream.horizon = place.value_or(0);
  stream.ignored = 0;
  if (place) {
    stream.begin(*place);
    advance(stream);
    doubt(stream);
    deliver_due();
  }
  return finish();
}

std::vector<StreamState> Plane::streams() const {
  std::vector<StreamState> found;
  for (const bool is_hosted : {true, false})
    for (const auto& [pubend, stream] : knowledge_) {
      if (stream->is_hosted != is_hosted) continue;
      StreamState& state = found.emplace_back();
      state = {pubend,          stream->has_tree, stream->tree,     stream->heard, is_hosted || stream->is_attended,
               stream->horizon, stream->cached(), stream->ignored, 0,             false, 0, stream->bytes};
      if (is_hosted) {
        state.events = hosted_.at(pubend).events;
        state.is_awaited = std::any_of(waits_.begin(), waits_.end(), [&](const auto& one) { return one.second == pubend; });
        state.released = log_->released_tick(pubend);
      }
    }
  return found;
}

std::vector<TickSpan> Plane::doubts(u64 pubend, u64 end, u32 count_max) const {
  const Stream* stream = find_stream(pubend);
  if (stream == nullptr || !stream->is_attended) return {};
  std::vector<TickSpan> found = stream->known.gaps(stream->horizon, std::min(end, stream->most_heard()));
  if (found.size() > count_max) found.resize(count_max);
  return found;
}

void Plane::doubt(Stream& stream) {
  if (!stream.is_attended || stream.horizon >= stream.most_heard() || stream.is_doubtful) return;
  stream.is_doubtful = true;
  news_.doubtful.push_back(stream.pubend);
}

// --- followers

void Plane::follow(u32 conn, u32 number) {
  client(conn);
  auto& follower = followers_[{conn, number}];
  if (follower != nullptr) return;
  const auto free = std::find(follower_ids_.begin(), follower_ids_.end(), nullptr);
  const u32 id = static_cast<u32>(free - follower_ids_.begin());
  if (free == follower_ids_.end()) follower_ids_.push_back(nullptr);
  follower = std::make_unique<Follower>(Follower{conn, number, id, nullptr, {}});
  follower_ids_[id] = follower.get();
  ++at(conn).followers;
}

// What is between `settled` and `place` it has got, here or elsewhere, and is not done with.
void Plane::owe(u32 conn, u32 number, u64 pubend, u64 place, u64 sound, u64 settled) {
  Follower* follower = find_follower(conn, number);
  if (follower == nullptr) throw KernelError("usage", "this subscription does not follow");
  Place& owed = follower->places[pubend] = Place{place, sound};
  if (settled < place) owed.sent = place, owed.taken = settled;
}

Follower* Plane::find_follower(u32 conn, u32 number) const {
  const auto found = followers_.find({conn, number});
  return found == followers_.end() ? nullptr : found->second.get();
}

void Plane::follow_routes(u32 conn, const std::vector<u32>& numbers, const std::vector<std::string_view>& filters) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Follower* follower = find_follower(conn, numbers[i]);
    if (follower == nullptr) continue;
    follower->wanted = std::make_shared<Permit>(Permit::Of::kIdentity, std::span(&filters[i], 1), options_.seed, *simd_);
    followed_.add(follower->id, {0}, {filters[i]});
  }
}

void Plane::unfollow(u32 conn, u32 number) {
  Follower* follower = find_follower(conn, number);
  if (follower == nullptr) return;
  followed_.forget(follower->id);
  follower_ids_[follower->id] = nullptr;
  --at(conn).followers;
  std::erase_if(jobs_, [&](const Job& job) { return job.conn == conn && job.number == number && !job.is_answer; });
  followers_.erase({conn, number});
}

std::vector<Plane::TakenPlace> Plane::taken() {
  std::vector<TakenPlace> found;
  for (const auto& [key, follower] : followers_)
    for (auto& [pubend, place] : follower->places) {
      const u64 settled = place.settled(find_stream(pubend));
      if (settled <= place.told) continue;
      place.told = settled;
      found.push_back({key.first, key.second, pubend, settled});
    }
  return found;
}

const char* Plane::take_taken(const Connection& from, std::string_view payload) {
  if (from.is_link || payload.size() != kTakenBytes) return "a frame that this side may not send, or that ends too early";
  Follower* follower = find_follower(from.number, load<u32>(payload.data()));
  if (follower == nullptr) return nullptr;
  const auto found = follower->places.find(load<u64>(payload.data() + 4));
  if (found == follower->places.end()) return nullptr;
  Place& place = found->second;
  const u64 tick = load<u64>(payload.data() + 12);
  place.taken = std::max(place.taken, tick < place.sent ? tick + 1 : place.sent);
  return nullptr;
}

// --- what comes

// So many frames from there, all STREAM: their events are matched together, and then each one is learned.
const char* Plane::take_stream(Connection& from, std::span<const std::string_view> payloads, i64 now) {
  if (!from.is_link) return "a client has no streams";
  stream_items_.clear();
  ++batch_;
  batch_trees_.clear();
  for (const std::string_view payload : payloads) {
    if (payload.size() < kStreamHead + kSpanBytes) return "a frame of a stream ends too early";
    StreamItem& item = stream_items_.emplace_back();
    item.head.tree = load<u64>(payload.data());
    item.head.pubend = load<u64>(payload.data() + 8);
    item.head.what = static_cast<Span>(payload[16]);
    load_span(payload.data() + kStreamHead, item.head);
    item.event = payload.substr(kStreamHead + kSpanBytes);
    item.tree = find_tree(item.head.tree);
    ++from.traffic.events_in;
    if (item.tree == nullptr || item.tree->parent != from.number || is_hosted(item.head.pubend) || !item.head.is_streamed(!item.event.empty())) {
      item.tree = nullptr;
      ++from.traffic.stray;
    } else if (!item.event.empty() && inspector_.inspect(item.event, view_) != nullptr) {
      item.tree = nullptr;
      ++from.traffic.damaged;
    } else {
      item.stream = &stream_at(item.head.pubend);
      if (!item.event.empty()) gather_for(*item.tree, item.event, item.tree_row);
    }
  }
  match_trees();
  for (const StreamItem& item : stream_items_)
    if (item.tree != nullptr) came(from, item, now);
  deliver_due();
  return nullptr;
}

void Plane::gather_for(Tree& tree, std::string_view event, u32& row) {
  if (tree.routes.empty()) return;
  if (tree.gathered != batch_) {
    tree.gathered = batch_;
    tree.events.clear();
    batch_trees_.push_back(&tree);
  }
  row = static_cast<u32>(tree.events.size());
  tree.events.push_back(event);
}

void Plane::match_trees() {
  for (Tree* tree : batch_trees_) {
    tree->found.clear();
    tree->routes.index().match(tree->events, {0, 1}, tree->found);
    work_.matches += tree->found.entries_matched;
  }
}

void Plane::came(Connection& from, const StreamItem& item, i64 now) {
  ++work_.events;
  StreamHead head = item.head;
  Told told;
  if (!item.event.empty()) {
    const Hop hop = hop_here(from, {head.born_ns, head.error_us, 0}, now);
    told = {item.event, hop.born_ns, hop.error_us};
  }
  if (head.what == Span::kPlain) {
    const auto found = trusted_.find({head.tree, head.pubend});
    const u64 trusted = found == trusted_.end() ? kNever : found->second;
    head.first = std::min(std::max(head.first, trusted), told.event.empty() ? kNever : head.tick);
  }
  if (head.first > head.tick) return;
  Stream& stream = *item.stream;
  const bool is_new = head.tick >= stream.heard;
  if (is_new) {
    stream.heard = head.tick + 1;
    stream.has_tree = true;
    stream.tree = head.tree;
  }
  note(stream, head, told);
  tell_children(stream, *item.tree, head, told, item.tree_row, is_new);
  advance(stream);
  doubt(stream);
}

// Into what we know, as far as the window reaches.
void Plane::note(Stream& stream, const StreamHead& head, const Told& told) {
  const u64 first = std::max(head.first, stream.low);
  u64 end = head.tick + 1, reach = kNever;
  if (stream.is_attended && first > stream.horizon) {  // what goes on from it need not wait for anything
    const bool is_full = stream.bytes >= options_.cache_bytes_max;
    reach = is_full ? first : stream.horizon + options_.window_ticks_max;
  }
  if (end > reach) {
    stream.ignored = std::max(stream.ignored, end);
    end = reach;
  }
  if (first >= end) return;
  if (!told.event.empty() && head.tick < end && !stream.known.has(head.tick)) stream.keep(head.tick, told);
  if (head.what == Span::kLost)
    for (const TickSpan& gap : stream.known.gaps(first, end)) stream.lost.add(gap.first, gap.end);
  stream.known.add(first, end);
  if (!stream.is_attended) stream.forget(options_.cache_bytes_max);
}

// --- what goes on

void Plane::tell_children(Stream& stream, Tree& tree, const StreamHead& head, const Told& told, u32 row, bool is_new) {
  if (tree.children.empty()) return;
  const u32* wanting = nullptr;
  const u32* wanting_end = nullptr;
  if (!told.event.empty()) {
    wanting = tree.found.destination.data() + tree.found.event_first[row];
    wanting_end = tree.found.destination.data() + tree.found.event_first[row + 1];
  }
  const u64 end = head.tick + 1;
  StreamHead out{tree.id, stream.pubend, Span::kPlain, head.first, head.tick, told.born_ns, told.error_us};
  for (const u32 conn : tree.children) {
    StreamChild& child = stream.children[conn];
    const bool is_wanted = std::find(wanting, wanting_end, conn) != wanting_end;
    if (!is_new) {
      if (!child.curious.touches(head.first, end)) continue;
      child.curious.remove(head.first, end);
      out.first = head.first;
      out.what = head.what == Span::kLost ? Span::kLost : Span::kAnswer;
      answered(*connections_[conn], out, is_wanted ? told : Told{});
      continue;
    }
    if (child.end < head.first) child.first = head.first;
    child.end = end;
    child.curious.remove(head.first, end);
    if (head.what == Span::kLost) {
      out.first = head.first;
      out.what = Span::kLost;
      tell(*connections_[conn], out, {}, false);
    } else if (is_wanted || told.event.empty()) {
      out.first = child.first;
      out.what = Span::kPlain;
      tell(*connections_[conn], out, told, false);
    } else {
      continue;
    }
    child.first = child.end;
  }
}

bool Plane::tell(Connection& to, const StreamHead& head, const Told& told, bool is_again) {
  const std::size_t size = kFrameHead + kStreamHead + kSpanBytes + told.event.size();
  if (!told.event.empty() && !to.takes(size)) {  // it can never have it, and hears so
    ++to.traffic.dropped;
    StreamHead before = head, lost = head;
    before.tick = head.tick - 1;
    lost.what = Span::kLost;
    lost.first = head.tick;
    return (head.first >= head.tick || tell(to, before, {}, is_again)) && tell(to, lost, {}, is_again);
  }
  char* at = room_in(to, flow_of(head.pubend, is_again), size, !told.event.empty());
  if (at == nullptr) return false;
  store(at, static_cast<u32>(size - 4));
  at[4] = static_cast<char>(FrameKind::kStream);
  store(at + 5, head.tree);
  store(at + 13, head.pubend);
  at[21] = static_cast<char>(head.what);
  StreamHead span = head;
  span.born_ns = told.event.empty() ? 0 : told.born_ns;
  span.error_us = told.event.empty() ? 0 : told.error_us;
  store_span(at + kFrameHead + kStreamHead, span);
  if (!told.event.empty()) std::memcpy(at + size - told.event.size(), told.event.data(), told.event.size());
  return true;
}

// Memory for a frame in the queue of a stream; nullptr: there is no room, and it counts as thrown away.
char* Plane::room_in(Connection& to, FlowName flow, std::size_t size, bool is_event) {
  if (to.takes_events && to.fd >= 0 && !to.is_stalled && !to.out.fits(flow, size, to.queue_bytes_max)) send_some(to);
  if (!to.takes_events || !to.out.fits(flow, size, to.queue_bytes_max)) {
    to.traffic.dropped += is_event;
    return nullptr;
  }
  touch(to);
  to.traffic.events_out += is_event;
  count_out(to, size);
  work_.forwards += is_event;
  return to.out.push(flow, size);
}

// --- local subscribers

// What is no longer in doubt is due.
void Plane::advance(Stream& stream) {
  if (!stream.is_attended || stream.is_hosted) return;
  const u64 before = stream.horizon;
  stream.horizon = stream.known.end_of(before);
  if (stream.horizon == before) return;
  stream.is_doubtful = false;
  if (!stream.lost.empty())
    for (const TickSpan& lost : stream.lost.within(before, stream.horizon)) lack(stream.pubend, lost);
  const auto end = stream.events.lower_bound(stream.horizon);
  for (auto at = stream.events.lower_bound(before); at != end; ++at) deliverable_.push_back({&stream, at->first, at->second.told()});
  trimmed_.push_back(&stream);
}

void Plane::lack(u64 pubend, const TickSpan& lost) {
  for (const auto& [key, follower] : followers_) {
    const auto found = follower->places.find(pubend);
    if (found == follower->places.end() || !found->second.is_joined || found->second.next >= lost.end) continue;
    news_.lacks.push_back({key.first, key.second, pubend, std::max(lost.first, found->second.next), lost.end - 1});
  }
}

// Matched together, delivered one behind the other.
void Plane::deliver_due() {
  for (std::size_t i = 0; samples_left_ > 0 && i < deliverable_.size(); ++i) keep_sample(deliverable_[i].told.event);
  if (!deliverable_.empty() && !(clients_.empty() && followed_.empty())) {
    events_.clear();
    for (const Due& due : deliverable_) events_.push_back(due.told.event);
    found_.clear();
    if (!clients_.empty()) clients_.index().match(events_, {0, kNumbersMax}, found_);
    found_followed_.clear();
    if (!followed_.empty()) followed_.index().match(events_, {0, 1}, found_followed_);
    for (u32 i = 0; i < deliverable_.size(); ++i) deliver(deliverable_[i], i);
    work_.matches += found_.entries_matched + found_followed_.entries_matched;
  }
  deliverable_.clear();
  for (Stream* stream : trimmed_) stream->forget(options_.cache_bytes_max);
  trimmed_.clear();
}

void Plane::deliver(const Due& due, u32 row) {
  const std::size_t room = Departure::room(due.told.event.size());
  if (stamped_.size() < room) stamped_.resize(room);
  Departure departure;
  departure.begin(stamped_.data(), due.told.event, nullptr, {due.told.born_ns, due.told.error_us, due.tick});
  for (u32 i = clients_.empty() ? 0 : found_.event_first[row], end = clients_.empty() ? 0 : found_.event_first[row + 1]; i < end; ++i) {
    Connection& to = *connections_[found_.destination[i]];
    u32* numbers = found_.numbers.data() + found_.number_first[i];
    u32 count = found_.number_first[i + 1] - found_.number_first[i];
    if (to.followers > 0)
      count = static_cast<u32>(std::remove_if(numbers, numbers + count, [&](u32 n) { return find_follower(to.number, n) != nullptr; }) - numbers);
    if (count == 0 && !found_.more[i]) continue;
    std::sort(numbers, numbers + count);
    work_.deliveries += put(to, departure.deliver(numbers, count, found_.more[i]), has_deadline(due.told.event));
  }
  if (followed_.empty()) return;
  for (u32 i = found_followed_.event_first[row]; i < found_followed_.event_first[row + 1]; ++i) {
    Follower& follower = *follower_ids_[found_followed_.destination[i]];
    const auto found = follower.places.find(due.stream->pubend);
    if (found == follower.places.end()) continue;
    Place& place = found->second;
    if (!place.is_joined || due.tick < place.next || deliver_to(follower, place, due.tick, due.told)) continue;
    place.is_joined = false;
    place.next = due.tick;
    news_.fallen.push_back({follower.conn, follower.number, due.stream->pubend, due.tick});
  }
}

// False: there is no room.
bool Plane::deliver_to(const Follower& follower, Place& place, u64 tick, const Told& told) {
  Connection& to = *connections_[follower.conn];
  const std::size_t size = Departure::deliver_size(told.event.size(), 1);
  if (to.takes_events && !to.has_room(size) && to.fd >= 0 && !to.is_stalled) send_some(to);
  if (!to.takes_events || !to.has_room(size)) return false;
  FrameQueue& queue = queue_of(to);
  write_delivery(queue.room(size), told.event, {told.born_ns, told.error_us, tick}, follower.number);
  queue.grow(size);
  to.out.has_deadlines |= has_deadline(told.event);
  ++to.traffic.events_out;
  count_out(to, size);
  ++work_.deliveries;
  place.sent = tick + 1;
  return true;
}

}  // namespace tidewire

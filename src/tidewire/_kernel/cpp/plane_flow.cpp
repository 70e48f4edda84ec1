// The way of events: collected from one connection, matched together, put into the queues in the order they came.
#include <algorithm>
#include <chrono>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr u32 kEventsMax = 256;        // that are worked on together
constexpr u32 kRefusedListed = 64;     // sequences that a refusal names
constexpr u32 kDeliveriesPerLook = 2048;  // at the clock, while they are put into queues
constexpr u32 kTreeBit = 4;

u64 now_ns() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Publisher, sequence, pubend and tick are ahead of it, if they are there.
u64 tree_of(const EventView& event) {
  return load<u64>(event.envelope.data() + 8 * std::popcount(event.envelope_bits & ((1u << kTreeBit) - 1)));
}

}  // namespace

const Outcome& Plane::receive(u32 conn, std::string_view data, i64 now) {
  Connection& from = at(conn);
  outcome_.clear();
  from.bytes_in += data.size();
  work_on(from, data, now);
  return finish();
}

const Outcome& Plane::resume(u32 conn, i64 now) {
  Connection& from = at(conn);
  outcome_.clear();
  unblock(from);
  work_on(from, {}, now);
  return finish();
}

u32 Plane::events_at_once() const {
  if (options_.budget_ns == 0) return kEventsMax;
  return static_cast<u32>(std::clamp<u64>(options_.budget_ns / 2 / ns_per_event_, 1, kEventsMax));
}

void Plane::learn_cost(u64 spent_ns, std::size_t events) {
  work_.busy_ns += spent_ns;
  if (events > 0) ns_per_event_ = (3 * ns_per_event_ + spent_ns / events) / 4 + 1;
}

void Plane::work_on(Connection& from, std::string_view data, i64 now) {
  if (from.state != State::kBroken) from.intake.offer(data);
  const u64 start = now_ns();
  u64 turn = start;
  while (from.state != State::kBroken && from.state != State::kBlocked) {
    Batch batch = collect(from, events_at_once(), now);
    if (!items_.empty()) match_batch(from);
    const std::size_t handled = emit(from, options_.budget_ns == 0 ? 0 : start + 2 * options_.budget_ns);
    if (handled > 0) from.intake.consume(items_[handled - 1].end);
    const u64 spent_until = now_ns();
    learn_cost(spent_until - turn, handled);
    turn = spent_until;
    if (from.state == State::kBlocked) break;
    from.state = State::kBusy;
    if (handled < items_.size()) break;
    if (batch.stop == Stop::kBroken) {
      from.state = State::kBroken;
      from.reason = std::move(batch.reason);
    } else if (batch.stop == Stop::kMessage) {
      outcome_.has_message = true;
      outcome_.message = batch.message.substr(kFrameHead);
      from.intake.consume(batch.message.size());
      break;
    } else if (batch.stop == Stop::kEmpty) {
      from.state = State::kIdle;
      break;
    }
    if (options_.budget_ns > 0 && spent_until - start >= options_.budget_ns) break;
  }
  outcome_.state = from.state;
  if (from.state == State::kBroken) {
    from.intake.forget();
    outcome_.reason = from.reason;
  }
  from.intake.keep();
}

Plane::Batch Plane::collect(Connection& from, u32 events_max, i64 now) {
  items_.clear();
  ++batch_;
  Batch batch;
  std::size_t at = 0;
  std::string_view frame;
  while (items_.size() < events_max) {
    const Intake::Cut cut = from.intake.cut(at, frame);
    if (cut == Intake::Cut::kIncomplete) return batch;
    batch.stop = Stop::kBroken;
    if (cut == Intake::Cut::kBadLength) {
      batch.reason = "a frame's length is 0 or beyond " + std::to_string(options_.frame_bytes_max);
      return batch;
    }
    const std::string_view payload = frame.substr(kFrameHead);
    const char* wrong = nullptr;
    switch (frame_kind(frame.data())) {
      case FrameKind::kMessage:
        batch.stop = Stop::kMessage;
        batch.message = frame;
        return batch;
      case FrameKind::kPublish: wrong = collect_publish(from, payload, now); break;
      case FrameKind::kForward: wrong = collect_forward(from, payload, now); break;
      case FrameKind::kDeliver: wrong = "only a broker delivers"; break;
      default: wrong = "a frame is of an unknown kind";
    }
    if (wrong != nullptr) {
      batch.reason = wrong;
      return batch;
    }
    at += frame.size();
    items_.back().end = at;
    batch.stop = Stop::kEmpty;
  }
  batch.stop = Stop::kFull;
  return batch;
}

// On our clock. As long as the sender's is not known, the event counts as born now, and who knows when it was.
Hop Plane::hop_here(const Connection& from, Hop hop, i64 now) const {
  constexpr u32 kUnknown = std::numeric_limits<u32>::max();
  if (!from.has_clock) return {now, kUnknown, hop.position};
  const u64 born = static_cast<u64>(hop.born_ns) + static_cast<u64>(from.offset_ns);  // wraps, if they lie
  const u32 error = hop.error_us > kUnknown - from.error_us ? kUnknown : hop.error_us + from.error_us;
  return {static_cast<i64>(born), error, hop.position};
}

const char* Plane::collect_publish(Connection& from, std::string_view payload, i64 now) {
  if (from.is_link) return "a neighbour does not publish";
  if (!from.may_publish) return "this client has not said that it would publish";
  if (payload.size() < kBornBytes) return "a publication ends too early";
  Item& item = items_.emplace_back();
  item.event = payload.substr(kBornBytes);
  item.hop = hop_here(from, {load<i64>(payload.data()), 0, 0}, now);
  item.tree = own_;
  item.verdict = Verdict::kRefused;
  item.code = "event-damaged";
  EventView view;
  if ((item.reason = inspector_.inspect(item.event, view)) != nullptr) return nullptr;
  if (view.envelope_bits & kReservedBits) {
    item.reason = "its envelope has fields that only a broker writes";
  } else if (item.event.size() + kStampBytes + kDeliverMax - 4 > options_.frame_bytes_max) {
    item.code = "event-too-large";
    item.reason = "it does not fit into a frame";
  } else {
    item.verdict = Verdict::kTaken;
  }
  return nullptr;
}

const char* Plane::collect_forward(Connection& from, std::string_view payload, i64 now) {
  if (!from.is_link) return "a client does not forward";
  if (payload.size() < kHopBytes) return "a forwarded event ends too early";
  Item& item = items_.emplace_back();
  item.event = payload.substr(kHopBytes);
  item.hop = hop_here(from, load_hop(payload.data()), now);
  item.verdict = Verdict::kDamaged;
  EventView view;
  if (inspector_.inspect(item.event, view) != nullptr || !(view.envelope_bits >> kTreeBit & 1)) return nullptr;
  item.verdict = Verdict::kStray;
  Tree* tree = item.tree = find_tree(tree_of(view));
  if (tree == nullptr || tree->parent != from.number) return nullptr;
  if (tree->batch != batch_) {
    tree->batch = batch_;
    tree->last_in_batch = tree->last;
  }
  if (item.hop.position <= tree->last_in_batch) return nullptr;
  tree->last_in_batch = item.hop.position;
  item.verdict = Verdict::kTaken;
  return nullptr;
}

// Local subscribers are asked about all events at once, and the routes of each tree about the events of that tree.
void Plane::match_batch(Connection& from) {
  const auto gather = [&] {
    events_.clear();
    for (Item& item : items_) {
      if (item.verdict != Verdict::kTaken) continue;
      item.row = static_cast<u32>(events_.size());
      events_.push_back(item.event);
    }
  };
  gather();
  if (from.allowed != nullptr) {
    allowed_.clear();
    from.allowed->match(events_, {0, 1}, allowed_);
    bool refused = false;
    for (Item& item : items_) {
      if (item.verdict != Verdict::kTaken || allowed_.event_first[item.row] < allowed_.event_first[item.row + 1]) continue;
      item.verdict = Verdict::kRefused;
      item.code = "event-not-advertised";
      item.reason = "it is outside of what was advertised";
      refused = true;
    }
    if (refused) gather();
  }
  found_.clear();
  if (!clients_.empty()) clients_.index().match(events_, {0, kNumbersMax}, found_);
  batch_trees_.clear();
  for (Item& item : items_) {
    if (item.verdict != Verdict::kTaken || item.tree->routes.empty()) continue;
    Tree& tree = *item.tree;
    if (tree.gathered != batch_) {
      tree.gathered = batch_;
      tree.events.clear();
      batch_trees_.push_back(&tree);
    }
    item.tree_row = static_cast<u32>(tree.events.size());
    tree.events.push_back(item.event);
  }
  for (Tree* tree : batch_trees_) {
    tree->found.clear();
    tree->routes.index().match(tree->events, {0, 1}, tree->found);
    work_.matches += tree->found.entries_matched;
  }
  work_.matches += found_.entries_matched;
}

// How many of the events were handled? All, unless one finds no room, or the time is long over.
std::size_t Plane::emit(Connection& from, u64 deadline_ns) {
  u64 next_look = work_.deliveries + work_.forwards + kDeliveriesPerLook;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.verdict == Verdict::kTaken) {
      if (waiting_connections_ > 0 && !is_free(from, item)) return i;
      take(from, item);
    } else if (item.verdict == Verdict::kRefused) {
      refuse(from, item);
    } else {
      ++(item.verdict == Verdict::kStray ? from.stray : from.damaged);
    }
    ++from.events_in;
    if (deadline_ns == 0 || work_.deliveries + work_.forwards < next_look) continue;
    next_look = work_.deliveries + work_.forwards + kDeliveriesPerLook;
    if (now_ns() >= deadline_ns) return i + 1;
  }
  return items_.size();
}

// Has every connection that makes us wait room for this event? If not, its source is blocked.
bool Plane::is_free(const Connection& from, const Item& item) {
  const std::size_t event = item.event.size() + (from.is_link ? 0 : kStampBytes);
  const auto has_room = [&](u32 conn, std::size_t frame) {
    Connection& to = *connections_[conn];
    if (to.when_full != WhenFull::kWait || !to.takes_events || to.has_room(frame)) return true;
    if (to.fd >= 0 && !to.is_stalled) send_some(to);
    if (!to.takes_events || to.has_room(frame)) return true;
    Connection& source = *connections_[from.number];
    source.state = State::kBlocked;
    source.blocked_by = conn;
    source.blocked_frame = frame;
    blocked_.push_back(from.number);
    return false;
  };
  if (!clients_.empty())
    for (u32 i = found_.event_first[item.row]; i < found_.event_first[item.row + 1]; ++i) {
      const u32 numbers = found_.more[i] ? 0 : found_.number_first[i + 1] - found_.number_first[i];
      if (!has_room(found_.destination[i], Departure::deliver_size(event, numbers))) return false;
    }
  if (!item.tree->routes.empty()) {
    const Matches& routes = item.tree->found;
    for (u32 i = routes.event_first[item.tree_row]; i < routes.event_first[item.tree_row + 1]; ++i)
      if (routes.destination[i] != from.number && !has_room(routes.destination[i], Departure::forward_size(event)))
        return false;
  }
  return true;
}

void Plane::take(Connection& from, const Item& item) {
  ++work_.events;
  Hop hop = item.hop;
  Stamp stamp;
  if (from.is_link) {
    item.tree->last = hop.position;
  } else {
    hop.position = ++item.tree->last;
    stamp = {from.publisher, from.next_sequence++, item.tree->id};
  }
  const bool has_clients = !clients_.empty(), has_routes = !item.tree->routes.empty();
  const u32 first = has_clients ? found_.event_first[item.row] : 0;
  const u32 end = has_clients ? found_.event_first[item.row + 1] : 0;
  const Matches& routes = item.tree->found;
  const u32 route_first = has_routes ? routes.event_first[item.tree_row] : 0;
  const u32 route_end = has_routes ? routes.event_first[item.tree_row + 1] : 0;
  if (first == end && route_first == route_end) return;
  departure_.begin(item.event, from.is_link ? nullptr : &stamp, hop);
  for (u32 i = first; i < end; ++i) {
    u32* numbers = found_.numbers.data() + found_.number_first[i];
    const u32 count = found_.number_first[i + 1] - found_.number_first[i];
    if (count > 1) std::sort(numbers, numbers + count);
    work_.deliveries += put(*connections_[found_.destination[i]], departure_.deliver(numbers, count, found_.more[i]));
  }
  for (u32 i = route_first; i < route_end; ++i)
    if (routes.destination[i] != from.number)
      work_.forwards += put(*connections_[routes.destination[i]], departure_.forward());
}

void Plane::refuse(Connection& from, const Item& item) {
  ++work_.refused;
  const u64 sequence = from.next_sequence++;
  const auto is_same = [&](const Outcome::Refusal& one) { return std::string_view(one.code) == item.code; };
  auto found = std::find_if(outcome_.refusals.begin(), outcome_.refusals.end(), is_same);
  if (found == outcome_.refusals.end()) found = outcome_.refusals.insert(found, {item.code, item.reason, {}, 0});
  if (found->sequences.size() < kRefusedListed) found->sequences.push_back(sequence);
  else ++found->further;
}

inline void Plane::touch(Connection& to) {
  if (to.is_touched) return;
  to.is_touched = true;
  to.was_empty = to.out.empty();
  touched_.push_back(to.number);
}

// True if the event is in the queue.
inline bool Plane::put(Connection& to, std::string_view frame) {
  if (!to.takes_events || (!to.has_room(frame.size()) && !make_room(to, frame.size()))) [[unlikely]] {
    ++to.dropped;
    return false;
  }
  touch(to);
  to.out.data.push(frame);
  ++to.events_out;
  to.bytes_out += frame.size();
  return true;
}

bool Plane::make_room(Connection& to, std::size_t frame) {
  if (to.fd >= 0 && !to.is_stalled) send_some(to);
  if (to.takes_events && to.has_room(frame)) return true;
  if (to.when_full == WhenFull::kEnd) overrun(to);
  if (!to.takes_events || to.when_full != WhenFull::kDrop) return false;
  touch(to);
  // A quarter of the queue at a time, so that it is not done again for the next event.
  const std::size_t left = to.queue_bytes_max - to.queue_bytes_max / 4;
  to.dropped += to.out.data.drop_events(left > frame ? left - frame : 0);
  return to.has_room(frame);
}

// What was written is sent, or the caller is told to send it.
const Outcome& Plane::finish() {
  for (const u32 conn : touched_) {
    Connection& to = *connections_[conn];
    to.is_touched = false;
    if (to.fd >= 0) {
      if (!to.is_stalled) send_some(to);
    } else if (to.was_empty && !to.out.empty()) {
      outcome_.ready.push_back(conn);
    }
  }
  touched_.clear();
  outcome_.overrun.insert(outcome_.overrun.end(), overrun_.begin(), overrun_.end());
  overrun_.clear();
  return outcome_;
}

}  // namespace tidewire

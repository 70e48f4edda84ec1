// Telling again: to neighbours that lack some of a stream, to followers that are behind; here, or on the way.
#include <algorithm>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr u32 kPieceEvents = 256;
constexpr std::size_t kPieceBytes = 16u << 10;  // what a job sends in its turn: as long as that takes, others wait
constexpr std::size_t kAheadBytes = 64u << 10;  // what waits for a full socket: as long as writing it takes, others wait
constexpr u64 kServeShare = 8;                  // of the time of a call: what is new never waits for all who are behind
constexpr std::size_t kReadBytes = 32u << 10;   // what is read of the log at once: a block

}  // namespace

std::vector<TickSpan> Plane::answer(u32 conn, u64 tree, u64 pubend, const std::vector<TickSpan>& ranges) {
  at(conn);
  Stream& stream = stream_at(pubend);
  StreamChild& child = stream.children[conn];
  std::vector<TickSpan> unknown;
  for (const TickSpan& range : ranges) {
    const u64 end = std::min(range.end, stream.heard);
    u64 rest = range.first;
    if (rest >= end) continue;
    std::vector<TickSpan> known{{rest, end}};
    if (!stream.is_hosted) known = stream.known.within(std::max(rest, std::min(stream.sound, end)), end);
    for (const TickSpan& one : known) {
      if (rest < one.first) unknown.push_back({rest, one.first});
      rest = one.end;
      if (goes_on(conn, tree, pubend, one)) continue;
      Job& job = jobs_.emplace_back(Job{0, conn, 0, pubend, one.first, one.first});
      job.end = one.end;
      job.is_answer = true;
      job.tree = tree;
    }
    if (rest < end) unknown.push_back({rest, end});
  }
  for (const TickSpan& gap : unknown) child.curious.add(gap.first, gap.end);
  return unknown;
}

// Is it part of an answer that is still to be told, or behind one? Then it is told in its order, and once.
bool Plane::goes_on(u32 conn, u64 tree, u64 pubend, const TickSpan& asked) {
  for (Job& job : jobs_) {
    if (!job.is_answer || job.is_late || job.conn != conn || job.tree != tree || job.pubend != pubend) continue;
    if (asked.first < job.place || asked.first > job.end) continue;
    job.end = std::max(job.end, asked.end);
    return true;
  }
  return false;
}

void Plane::replay(u64 replay, u32 conn, u32 number, u64 pubend, u64 place, std::string_view wanted, i64 bytes_max) {
  at(conn);
  place = std::max(place, kTickMin);
  Job& job = jobs_.emplace_back(Job{replay, conn, number, pubend, place, place});
  job.wanted = std::make_shared<Permit>(Permit::Of::kIdentity, std::span(&wanted, 1), options_.seed, *simd_);
  job.bytes_left = bytes_max;
}

void Plane::catch_up(u64 replay, u32 conn, u32 number, u64 pubend) {
  Follower* follower = find_follower(conn, number);
  if (follower == nullptr || !follower->places.contains(pubend)) throw KernelError("usage", "nothing is owed there");
  const u64 place = std::max(follower->places[pubend].next, kTickMin);
  Job& job = jobs_.emplace_back(Job{replay, conn, number, pubend, place, place});
  job.wanted = follower->wanted;
}

void Plane::relay(u32 link, u64 replay, u32 conn, u32 number, u64 pubend) {
  at(link);
  at(conn);
  relays_[{link, replay}] = {conn, number, pubend};
}

void Plane::end_replay(u64 replay) {
  std::erase_if(jobs_, [replay](const Job& job) { return !job.is_answer && job.replay == replay; });
  std::erase_if(relays_, [replay](const auto& one) { return one.first.second == replay; });
}

// From whom, and by which name, if it comes by us.
std::optional<std::pair<u32, u64>> Plane::stop_replay(u32 conn, u32 number) {
  std::erase_if(jobs_, [&](const Job& job) { return !job.is_answer && job.conn == conn && job.number == number; });
  const auto is_same = [&](const auto& one) { return one.second.conn == conn && one.second.number == number; };
  const auto found = std::find_if(relays_.begin(), relays_.end(), is_same);
  if (found == relays_.end()) return std::nullopt;
  const std::pair<u32, u64> from = found->first;
  relays_.erase(found);
  return from;
}

bool Plane::has_place(const Job& job) {
  Connection& to = *connections_[job.conn];
  if (!to.takes_events) return false;
  if (to.is_link) return to.out.fits(flow_of(job.pubend, true), kPieceBytes, to.queue_bytes_max);
  const std::size_t half = to.queue_bytes_max / 2;
  return to.waiting_bytes() <= (to.fd < 0 ? half : std::min(half, kAheadBytes)) && to.has_room(job.frame);
}

// Is anything told again there?
bool Plane::is_behind(const Connection& to) const {
  const auto is_there = [&](const Job& job) { return job.conn == to.number; };
  return to.takes_events && std::any_of(jobs_.begin(), jobs_.end(), is_there);
}

bool Plane::is_serving() {
  return std::any_of(jobs_.begin(), jobs_.end(), [this](const Job& job) { return has_place(job); });
}

// Each one in turn, a piece at a time. Without a clock that is the budget: whoever has virtual time says what it took.
const Outcome& Plane::serve(i64 now) {
  now_ns_ = now;
  (void)now;
  outcome_.clear();
  const u64 start = clock_ns();
  for (std::size_t left = jobs_.size(); left > 0; --left) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const bool is_served = has_place(job);
    if (!is_served || !serve_piece(job)) jobs_.push_back(std::move(job));
    if (is_served && (options_.budget_ns == 0 || clock_ns() - start >= options_.budget_ns / kServeShare)) break;
  }
  if (jobs_.empty()) piece_.clear();  // it holds what the log would use again
  return finish();
}

// Is the next tick known here, for whoever wants it?
bool Plane::is_here(const Job& job, const Stream& stream, const Follower* follower) const {
  if (stream.is_hosted) return job.place < stream.heard;
  u64 sound = stream.sound;
  if (follower != nullptr) sound = std::min(sound, follower->places.at(job.pubend).sound);
  return stream.known.has(job.place) && job.place >= sound;
}

// From what was read last, if that has the next tick: the log gives more at a time than is sent in a turn.
u64 Plane::read_log(const Job& job, u64 end) {
  if (job.place >= end) return job.place;
  if (piece_of_ != job.pubend || job.place < piece_first_ || job.place >= piece_.next) {
    log_->read(job.pubend, job.place, end, kReadBytes, piece_);
    piece_of_ = job.pubend;
    piece_first_ = job.place;
  }
  u64 known_to = std::min(end, piece_.next);
  if (piece_.next > log_->durable_tick(job.pubend)) known_to = end;
  const auto is_before = [](const LogRecord& record, u64 tick) { return record.tick < tick; };
  auto at = std::lower_bound(piece_.records.begin(), piece_.records.end(), job.place, is_before);
  for (std::size_t bytes = 0; at != piece_.records.end() && at->tick < known_to; ++at) {
    if (bytes >= kPieceBytes) {
      known_to = at->tick;
      break;
    }
    again_.emplace_back(at->tick, Told{at->event, at->born_ns - unix_offset_ns_, at->error_us});
    bytes += at->event.size();
  }
  for (const TickRange& range : piece_.lost) {
    const TickSpan lost{std::max(range.first, job.place), std::min(range.end, known_to)};
    if (lost.first < lost.end) again_lost_.push_back(lost);
  }
  return known_to;
}

// Events from its place on, what is lost among them; up to where that is all.
u64 Plane::read_piece(const Job& job, const Stream& stream, const Follower* follower) {
  again_.clear();
  again_lost_.clear();
  if (stream.is_hosted) return read_log(job, std::min(job.end, stream.heard));
  if (!is_here(job, stream, follower)) return job.place;
  u64 end = std::min(job.end, stream.known.end_of(job.place));
  for (auto at = stream.events.lower_bound(job.place); at != stream.events.end() && at->first < end; ++at) {
    if (again_.size() == kPieceEvents) {
      end = at->first;
      break;
    }
    again_.emplace_back(at->first, at->second.told());
  }
  for (const TickSpan& lost : stream.lost.within(job.place, end)) again_lost_.push_back(lost);
  return end;
}

// Which of the events are wanted there?
void Plane::match_again(const Job& job) {
  is_wanted_.assign(again_.size(), 0);
  if (!job.is_answer) {
    for (std::size_t i = 0; i < again_.size(); ++i)
      is_wanted_[i] = inspector_.inspect(again_[i].second.event, view_) == nullptr && job.wanted->allows(view_, inspector_.shape());
    return;
  }
  Tree* tree = find_tree(job.tree);
  if (again_.empty() || tree == nullptr || tree->routes.empty()) return;
  events_.clear();
  for (const auto& [tick, told] : again_) events_.push_back(told.event);
  found_again_.clear();
  tree->routes.index().match(events_, {0, 1}, found_again_);
  for (std::size_t i = 0; i < events_.size(); ++i)
    for (u32 row = found_again_.event_first[i]; row < found_again_.event_first[i + 1]; ++row)
      is_wanted_[i] |= found_again_.destination[row] == job.conn;
}

// True if the job is done.
bool Plane::serve_piece(Job& job) {
  Stream& stream = stream_at(job.pubend);
  Follower* follower = connections_[job.conn]->is_link ? nullptr : find_follower(job.conn, job.number);
  u64 known_to = read_piece(job, stream, follower);
  match_again(job);
  std::size_t lost = 0;
  i64 bytes_left = std::min<i64>(job.bytes_left, kPieceBytes);
  for (std::size_t i = 0; i <= again_.size(); ++i) {
    const u64 next = i < again_.size() ? again_[i].first : known_to;
    if (!say_lost(job, lost, next, follower)) {
      known_to = again_lost_[lost].first;
      break;
    }
    if (i == again_.size()) break;
    const auto& [tick, told] = again_[i];
    if (bytes_left <= 0) {
      known_to = tick;
      break;
    }
    if (!is_wanted_[i]) continue;
    if (!say(job, tick, told, follower)) {
      known_to = tick;
      job.frame = Departure::deliver_size(told.event.size(), 1);
      break;
    }
    bytes_left -= static_cast<i64>(told.event.size());
    job.bytes_left -= static_cast<i64>(told.event.size());
  }
  const bool is_stuck = known_to == job.place && !is_here(job, stream, follower);
  job.place = known_to;
  return is_done(job, stream, follower, is_stuck);
}

bool Plane::say(Job& job, u64 tick, const Told& told, Follower* follower) {
  if (follower != nullptr) return deliver_to(*follower, follower->places.at(job.pubend), tick, told);
  const bool is_told = job.is_answer
                           ? tell(*connections_[job.conn], {job.tree, job.pubend, Span::kAnswer, job.told, tick, 0, 0}, told, true)
                           : recover(job, tick, Span::kPlain, told);
  if (is_told) job.told = tick + 1;
  return is_told;
}

// What is lost before this tick is said where it belongs: what follows would else make it silence. False: there is no room.
bool Plane::say_lost(Job& job, std::size_t& at, u64 before, const Follower* follower) {
  for (; at < again_lost_.size() && again_lost_[at].first < before; ++at) {
    const TickSpan& lost = again_lost_[at];
    if (follower != nullptr) {
      news_.lacks.push_back({job.conn, job.number, job.pubend, lost.first, lost.end - 1});
    } else if (!say_none(job, job.is_answer ? Span::kAnswer : Span::kPlain, lost.first) || !say_none(job, Span::kLost, lost.end)) {
      return false;
    }
  }
  return true;
}

// There is nothing to tell up to this tick: it is silence, or lost.
bool Plane::say_none(Job& job, Span what, u64 end) {
  if (job.told >= end) return true;
  const bool is_told = job.is_answer ? tell(*connections_[job.conn], {job.tree, job.pubend, what, job.told, end - 1, 0, 0}, {}, true)
                                     : recover(job, end - 1, what, {});
  if (is_told) job.told = end;
  return is_told;
}

bool Plane::recover(const Job& job, u64 tick, Span what, const Told& told) {
  return recover_to(*connections_[job.conn], job.number, job.pubend, {0, 0, what, job.told, tick, told.born_ns, told.error_us}, told.event);
}

bool Plane::recover_to(Connection& to, u32 number, u64 pubend, const StreamHead& span, std::string_view event) {
  const std::size_t size = kFrameHead + kRecoverHead + kSpanBytes + event.size();
  if (!event.empty() && !to.takes(size)) {
    ++to.traffic.dropped;
    const bool is_told = span.first >= span.tick || recover_to(to, number, pubend, {0, 0, Span::kPlain, span.first, span.tick - 1, 0, 0}, {});
    return is_told && recover_to(to, number, pubend, {0, 0, Span::kLost, span.tick, span.tick, 0, 0}, {});
  }
  char* at = room_in(to, flow_of(pubend, true), size, !event.empty());
  if (at == nullptr) return false;
  write_recover(at, number, span, event);
  return true;
}

void Plane::write_recover(char* at, u32 number, const StreamHead& span, std::string_view event) {
  const std::size_t size = kFrameHead + kRecoverHead + kSpanBytes + event.size();
  store(at, static_cast<u32>(size - 4));
  at[4] = static_cast<char>(FrameKind::kRecover);
  store(at + 5, number);
  at[9] = static_cast<char>(span.what);
  store_span(at + kFrameHead + kRecoverHead, span);
  if (!event.empty()) std::memcpy(at + size - event.size(), event.data(), event.size());
}

void Plane::tell_replayed(u64 replay, u64 place, bool is_over, bool is_joined) {
  for (StreamNews::Replayed& one : news_.replayed)
    if (one.replay == replay) {
      one = {replay, place, is_over, is_joined};
      return;
    }
  news_.replayed.push_back({replay, place, is_over, is_joined});
}

bool Plane::is_done(Job& job, const Stream& stream, Follower* follower, bool is_stuck) {
  if (follower != nullptr) {
    Place& place = follower->places.at(job.pubend);
    place.next = job.place;
    const bool has_horizon = stream.is_hosted || stream.is_attended;
    place.is_joined = has_horizon && job.place >= stream.horizon && job.place >= place.sound;
    const bool is_over = place.is_joined || is_stuck;
    tell_replayed(job.replay, job.place, is_over, place.is_joined);
    return is_over;
  }
  if (job.is_answer) {
    if (job.place < job.end && !is_stuck) return false;
    if (!say_none(job, Span::kAnswer, job.place)) return false;
    ask_again(job);
    return true;
  }
  if (job.bytes_left > 0 && !is_stuck) return false;
  if (!recover(job, job.place - 1, Span::kLast, {})) return false;
  tell_replayed(job.replay, job.place, true, false);
  return true;
}

// The rest of an answer is not known here any more: now that there is room for it, it may come once more.
void Plane::ask_again(const Job& job) {
  Stream& stream = stream_at(job.pubend);
  if (job.place >= job.end || stream.is_hosted) return;
  stream.children[job.conn].curious.add(job.place, job.end);
  news_.unknown.push_back({job.tree, job.pubend, job.place, job.end});
}

// --- what comes from others who tell again

// What a neighbour has asked for has come. Without room for it, it is told later, and what follows behind it.
void Plane::answered(Connection& to, const StreamHead& answer, const Told& told) {
  for (Job& job : jobs_) {
    if (!job.is_late || job.conn != to.number || job.pubend != answer.pubend || job.tree != answer.tree) continue;
    if (job.end != answer.first) continue;
    job.end = answer.tick + 1;
    return;
  }
  if (tell(to, answer, told, true)) return;
  Job& job = jobs_.emplace_back(Job{0, to.number, 0, answer.pubend, answer.first, answer.first});
  job.end = answer.tick + 1;
  job.is_answer = job.is_late = true;
  job.tree = answer.tree;
}

// There is no room for what comes next: who waits for it hears so at once, and asks again from here on.
void Plane::break_off(u32 from, u32 replay, const Relay& relay, u64 place) {
  relays_.erase({from, replay});
  Connection& to = *connections_[relay.conn];
  if (!to.takes_events) return;
  touch(to);
  const std::size_t size = kFrameHead + kRecoverHead + kSpanBytes;
  count_out(to, size);
  write_recover(to.out.push(flow_of(relay.pubend, true), size), relay.number, {0, 0, Span::kLast, place, place - 1, 0, 0}, {});
}

const char* Plane::take_recover(Connection& from, std::string_view payload, i64 now) {
  if (!from.is_link || payload.size() < kRecoverHead + kSpanBytes) return "a frame that this side may not send, or that ends too early";
  const u32 number = load<u32>(payload.data());
  StreamHead span;
  span.what = static_cast<Span>(payload[4]);
  load_span(payload.data() + kRecoverHead, span);
  const std::string_view event = payload.substr(kRecoverHead + kSpanBytes);
  ++from.traffic.events_in;
  const auto found = relays_.find({from.number, number});
  if (found == relays_.end() || !span.is_recovered(!event.empty())) {
    ++from.traffic.stray;
    return nullptr;
  }
  const Relay to = found->second;
  if (!event.empty()) {
    if (inspector_.inspect(event, view_) != nullptr) {
      ++from.traffic.damaged;
      return nullptr;
    }
    const Hop hop = hop_here(from, {span.born_ns, span.error_us, 0}, now);
    span.born_ns = hop.born_ns;
    span.error_us = hop.error_us;
  }
  ++work_.events;
  if (span.what == Span::kLast) relays_.erase(found);
  if (connections_[to.conn]->is_link) {
    if (!recover_to(*connections_[to.conn], to.number, to.pubend, span, event))
      break_off(from.number, number, to, std::max(span.first, kTickMin));
  } else if (Follower* follower = find_follower(to.conn, to.number)) {
    caught(number, *follower, to.pubend, span, event);
  }
  return nullptr;
}

// A piece of what a follower lacks has come, from far away.
void Plane::caught(u64 replay, Follower& follower, u64 pubend, const StreamHead& span, std::string_view event) {
  const auto found = follower.places.find(pubend);
  if (found == follower.places.end() || found->second.is_joined) return;
  Place& place = found->second;
  if (span.first <= place.next && place.next <= span.tick) {
    if (span.what == Span::kLost) {
      news_.lacks.push_back({follower.conn, follower.number, pubend, std::max(span.first, place.next), span.tick});
    } else if (!event.empty() && !deliver_to(follower, place, span.tick, {event, span.born_ns, span.error_us})) {
      end_replay(replay);
      tell_replayed(replay, place.next, true, false);
      return;
    }
    place.next = span.tick + 1;
  }
  tell_replayed(replay, place.next, span.what == Span::kLast, false);
}

}  // namespace tidewire

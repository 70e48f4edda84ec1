// The way of events: collected from one connection, matched together, put into the queues in the order they came.
#include <algorithm>

#include "ping.hpp"
#include "plane.hpp"

namespace tidewire {

namespace {

constexpr std::size_t kBatchBytes = 96u << 10;  // that are worked on together: they are read more than once

}  // namespace

const Outcome& Plane::receive(u32 conn, std::string_view data, i64 now) {
  Connection& from = at(conn);
  outcome_.clear();
  from.traffic.bytes_in += data.size();
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
  cpu_.use(static_cast<double>(spent_ns));
  if (events > 0) ns_per_event_ = (3 * ns_per_event_ + spent_ns / events) / 4 + 1;
}

void Plane::work_on(Connection& from, std::string_view data, i64 now) {
  now_ns_ = now;
  if (from.state != State::kBroken) from.intake.offer(data);
  const u64 start = clock_ns();
  const auto work_clock = [&] { return cpu_.is_limited() ? thread_cpu_ns() : clock_ns(); };
  const auto is_over = [&](u64 spent_until) {
    return options_.budget_ns > 0 && (cpu_.is_limited() ? clock_ns() : spent_until) - start >= options_.budget_ns;
  };
  u64 turn = cpu_.is_limited() ? thread_cpu_ns() : start;
  while (from.state != State::kBroken && from.state != State::kBlocked) {
    std::string_view first;
    const bool is_whole = from.intake.cut(0, first) == Intake::Cut::kFrame;
    if (is_whole && is_limited() && has_to_rest(from, first)) break;
    if (is_whole && frame_kind(first.data()) > FrameKind::kDeliver) {
      const Batch batch = take_streams(from, events_at_once(), now);
      const u64 spent_until = work_clock();
      learn_cost(spent_until - turn, 0);
      turn = spent_until;
      if (from.state == State::kBlocked) break;
      from.state = State::kBusy;
      if (batch.stop == Stop::kBroken) {
        from.state = State::kBroken;
        from.reason = batch.reason;
      }
      if (is_over(spent_until)) break;
      continue;
    }
    Batch batch = collect(from, events_at_once(), now);
    if (!items_.empty()) match_batch();
    const std::size_t handled = emit(from, options_.budget_ns == 0 ? 0 : start + 2 * options_.budget_ns);
    if (handled > 0) from.intake.consume(items_[handled - 1].end);
    const u64 spent_until = work_clock();
    // Load is made of events: messages are no part of it, and what clients say when they come must not stop those.
    if (!items_.empty()) learn_cost(spent_until - turn, handled);
    turn = spent_until;
    if (from.state == State::kBlocked) break;
    from.state = State::kBusy;
    if (handled < items_.size()) break;
    if (batch.stop == Stop::kBroken) {
      from.state = State::kBroken;
      from.reason = std::move(batch.reason);
    } else if (batch.stop == Stop::kMessage && answer_ping(from, batch.message, now)) {
      from.intake.consume(batch.message.size());
    } else if (batch.stop == Stop::kMessage) {
      outcome_.has_message = true;
      outcome_.message = batch.message.substr(kFrameHead);
      from.intake.consume(batch.message.size());
      break;
    } else if (batch.stop == Stop::kEmpty) {
      from.state = State::kIdle;
      break;
    }
    if (is_over(spent_until)) break;
  }
  outcome_.state = from.state;
  if (from.state == State::kBroken) {
    from.intake.forget();
    outcome_.reason = from.reason;
  }
  from.intake.keep();
  if (from.state == State::kIdle && from.tls != nullptr && from.tls->over()) fail(from, *from.tls->over());
}

// On a socket, many who say nothing else must cost little. True if it was one.
bool Plane::answer_ping(Connection& from, std::string_view frame, i64 now) {
  std::string pong;
  if (from.fd < 0 || !pong_of(frame, now, pong)) return false;
  touch(from);
  send(from.number, pong, true);
  return true;
}

// Frames of one kind, one behind the other, as many as are worked on together.
Plane::Batch Plane::take_streams(Connection& from, u32 events_max, i64 now) {
  Batch batch;
  payloads_.clear();
  std::vector<std::size_t> ends;
  std::size_t at = 0, handled = 0;
  std::string_view frame;
  FrameKind kind = FrameKind::kMessage;
  while (payloads_.size() < events_max && at < kBatchBytes && from.intake.cut(at, frame) == Intake::Cut::kFrame) {
    if (!payloads_.empty() && frame_kind(frame.data()) != kind) break;
    kind = frame_kind(frame.data());
    payloads_.push_back(frame.substr(kFrameHead));
    ends.push_back(at += frame.size());
  }
  handled = payloads_.size();
  const char* wrong = nullptr;
  switch (kind) {
    case FrameKind::kGuarantee: wrong = take_guarantee(from, payloads_, now, handled); break;
    case FrameKind::kStream: wrong = take_stream(from, payloads_, now); break;
    case FrameKind::kRecover:
      for (std::size_t i = 0; i < payloads_.size() && wrong == nullptr; ++i) wrong = take_recover(from, payloads_[i], now);
      break;
    case FrameKind::kTaken:
      for (std::size_t i = 0; i < payloads_.size() && wrong == nullptr; ++i) wrong = take_taken(from, payloads_[i]);
      break;
    default: wrong = "a frame is of an unknown kind, or this side may not send it";
  }
  if (wrong != nullptr) {
    batch.stop = Stop::kBroken;
    batch.reason = wrong;
  } else if (handled > 0) {
    from.intake.consume(ends[handled - 1]);
  }
  return batch;
}

Plane::Batch Plane::collect(Connection& from, u32 events_max, i64 now) {
  items_ = {item_memory_.data(), 0};
  has_expired_ = false;
  classes_.begin();
  ++batch_;
  Batch batch;
  std::size_t at = 0;
  std::string_view frame;
  while (items_.size() < events_max && at < kBatchBytes) {
    const Intake::Cut cut = from.intake.cut(at, frame);
    if (cut == Intake::Cut::kIncomplete) return batch;
    batch.stop = Stop::kBroken;
    if (cut == Intake::Cut::kBadLength) {
      batch.reason = "a frame's length is 0 or beyond " + std::to_string(from.intake.frame_bytes_max());
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
      default:
        if (frame_kind(frame.data()) > FrameKind::kDeliver) {  // of a stream: when these are done
          batch.stop = Stop::kFull;
          return batch;
        }
        wrong = "a frame is of an unknown kind";
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
  Item& item = next_item();
  item.event = payload.substr(kBornBytes);
  item.hop = hop_here(from, {load<i64>(payload.data()), 0, 0}, now);
  item.tree = own_;
  inspect_published(from, item, kStampBytes);
  return nullptr;
}

void Plane::note_deadline(Item& item, const EventView& view) {
  item.has_deadline = has_field(view, kTtlField);
  if (!item.has_deadline) return;
  item.is_expired = deadline_of(item.hop.born_ns, static_cast<i64>(field_of(view, kTtlField))) < now_ns_;
  has_expired_ |= item.is_expired;
}

void Plane::inspect_published(const Connection& from, Item& item, u32 stamp) {
  item.verdict = Verdict::kRefused;
  item.has_deadline = item.is_expired = false;
  item.code = "event-damaged";
  EventView& view = view_;
  if ((item.reason = inspector_.inspect(item.event, view)) != nullptr) return;
  if (view.envelope_bits & kReservedBits) {
    item.reason = "its envelope has fields that only a broker writes";
  } else if (item.event.size() + stamp + kDeliverMax - 4 > options_.frame_bytes_max) {
    item.code = "event-too-large";
    item.reason = "it does not fit into a frame";
  } else if (inspector_.is_reserved(view)) {
    item.code = "class-reserved";
    item.reason = "its class is reserved for brokers: choose another one";
  } else if (from.permitted != nullptr && !from.permitted->allows(view, inspector_.shape())) {
    item.code = "not-permitted";
    item.reason = "its publisher may not publish this";
  } else if (from.advertised != nullptr && !from.advertised->allows(view, inspector_.shape())) {
    item.code = "event-not-advertised";
    item.reason = "it is outside of what was advertised";
  } else {
    item.verdict = Verdict::kTaken;
    if (!classes_.empty()) complete(item, stamp);
    if (item.verdict == Verdict::kTaken) note_deadline(item, view);
  }
}

// What it gets from its traffic class.
void Plane::complete(Item& item, u32 stamp) {
  const std::string_view before = item.event;
  item.event = classes_.completed(item.event, view_, inspector_.shape());
  if (item.event.data() == before.data()) return;
  view_event(item.event, view_);
  if (item.event.size() + stamp + kDeliverMax - 4 <= options_.frame_bytes_max) return;
  item.verdict = Verdict::kRefused;
  item.code = "event-too-large";
  item.reason = "it does not fit into a frame";
}

const char* Plane::collect_forward(Connection& from, std::string_view payload, i64 now) {
  if (!from.is_link) return "a client does not forward";
  if (payload.size() < kHopBytes) return "a forwarded event ends too early";
  Item& item = next_item();
  item.event = payload.substr(kHopBytes);
  item.hop = hop_here(from, load_hop(payload.data()), now);
  item.verdict = Verdict::kDamaged;
  item.has_deadline = item.is_expired = false;
  EventView& view = view_;
  if (inspector_.inspect(item.event, view) != nullptr || !has_field(view, kTreeField)) return nullptr;
  item.verdict = Verdict::kStray;
  Tree* tree = item.tree = find_tree(field_of(view, kTreeField));
  if (tree == nullptr || tree->parent != from.number || item.hop.position <= tree->floor) return nullptr;
  item.verdict = Verdict::kTaken;
  note_deadline(item, view);
  return nullptr;
}

void Plane::gather_taken() {
  events_.clear();
  for (Item& item : items_) {
    if (item.verdict != Verdict::kTaken) continue;
    item.row = static_cast<u32>(events_.size());
    events_.push_back(item.event);
  }
}

// Local subscribers are asked about all events at once, and the routes of each tree about the events of that tree.
void Plane::match_batch() {
  gather_taken();
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

}  // namespace tidewire

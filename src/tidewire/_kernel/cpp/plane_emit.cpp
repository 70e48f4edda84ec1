// Into the queues: what each connection gets of a batch, in the order it came, within the bounds of the queues.
#include <algorithm>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr u32 kRefusedListed = 64;        // sequences that a refusal names
constexpr u32 kDeliveriesPerLook = 2048;  // at the clock, while they are put into queues

}  // namespace

inline std::string_view Plane::delivery(Departure& departure, u32 row) {
  u32* numbers = found_.numbers.data() + found_.number_first[row];
  const u32 count = found_.number_first[row + 1] - found_.number_first[row];
  if (count > 1) std::sort(numbers, numbers + count);
  return departure.deliver(numbers, count, found_.more[row]);
}

// How many of the events were handled? All, unless one finds no room, or the time is long over.
std::size_t Plane::emit(Connection& from, u64 deadline_ns) {
  if (survey(from)) {
    share_out(from);
    return items_.size();
  }
  u64 next_look = work_.deliveries + work_.forwards + kDeliveriesPerLook;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.verdict != Verdict::kTaken) {
      turn_away(from, item);
    } else {
      if (item.is_expired) {
        expire(from, item);
      } else {
        if (waiting_connections_ > 0 && !is_free(from, item)) return i;
        take(from, item);
      }
    }
    if (deadline_ns == 0 || work_.deliveries + work_.forwards < next_look) continue;
    next_look = work_.deliveries + work_.forwards + kDeliveriesPerLook;
    if (clock_ns() >= deadline_ns) return i + 1;
  }
  return items_.size();
}

// Has every connection that makes us wait room for this event? If not, its source is blocked, by the first of them:
// subscribers before neighbours, the smallest number of each, whatever the order in which the index found them.
bool Plane::is_free(const Connection& from, const Item& item) {
  u32 full = kNobody;
  std::size_t frame_for_full = 0;
  do {
    full = kNobody;
    find_full(from, item, full, frame_for_full);
  } while (full != kNobody && has_room_once_expired(*connections_[full], frame_for_full));
  if (full == kNobody) return true;
  Connection& source = *connections_[from.number];
  source.state = State::kBlocked;
  source.blocked_by = full;
  source.blocked_frame = frame_for_full;
  blocked_.push_back(from.number);
  return false;
}

void Plane::find_full(const Connection& from, const Item& item, u32& full, std::size_t& frame_for_full) {
  const std::size_t event = item.event.size() + (from.is_link ? 0 : kStampBytes);
  const auto look = [&](u32 conn, std::size_t frame) {
    Connection& to = *connections_[conn];
    if (conn >= full || to.when_full != WhenFull::kWait || !to.takes_events || !to.takes(frame) || to.has_room(frame)) return;
    if (to.fd >= 0 && !to.is_stalled) send_some(to);
    if (!to.takes_events || to.has_room(frame)) return;
    full = conn;
    frame_for_full = frame;
  };
  const Rows rows = rows_of(item);
  for (u32 i = rows.first; i < rows.end; ++i) {
    const u32 numbers = found_.number_first[i + 1] - found_.number_first[i];
    look(found_.destination[i], Departure::deliver_size(event, numbers));
  }
  const std::vector<u32>& routes = item.tree->found.destination;
  const bool is_full_here = full != kNobody;
  for (u32 i = rows.route_first; !is_full_here && i < rows.route_end; ++i)
    if (routes[i] != from.number) look(routes[i], Departure::forward_size(event));
}

// Who gets it: its rows among the local subscribers and among the routes of its tree.
Plane::Rows Plane::rows_of(const Item& item) const {
  Rows rows;
  if (!clients_.empty()) {
    rows.first = found_.event_first[item.row];
    rows.end = found_.event_first[item.row + 1];
  }
  if (!item.tree->routes.empty()) {
    rows.route_first = item.tree->found.event_first[item.tree_row];
    rows.route_end = item.tree->found.event_first[item.tree_row + 1];
  }
  return rows;
}

// The event is ours: it has its place in its tree, and its frames can be made.
void Plane::depart(Connection& from, const Item& item, Departure& departure, char* memory) {
  ++work_.events;
  ++from.traffic.events_in;
  if (samples_left_ > 0) keep_sample(item.event);
  Hop hop = item.hop;
  if (from.is_link) {
    item.tree->last = std::max(item.tree->last, hop.position);
    departure.begin(memory, item.event, nullptr, hop);
  } else {
    hop.position = ++item.tree->last;
    const Stamp stamp{from.publisher, from.next_sequence++, item.tree->id};
    departure.begin(memory, item.event, &stamp, hop);
  }
}

void Plane::take(Connection& from, const Item& item) {
  const std::size_t room = Departure::room(item.event.size() + kStampBytes);
  if (stamped_.size() < room) stamped_.resize(room);
  Departure departure;
  depart(from, item, departure, stamped_.data());
  const Rows rows = rows_of(item);
  for (u32 i = rows.first; i < rows.end; ++i)
    work_.deliveries += put(*connections_[found_.destination[i]], delivery(departure, i), item.has_deadline);
  const std::vector<u32>& routes = item.tree->found.destination;
  for (u32 i = rows.route_first; i < rows.route_end; ++i)
    if (routes[i] != from.number) work_.forwards += put(*connections_[routes[i]], departure.forward(), item.has_deadline);
}

// It has its place, but nobody gets it any more.
void Plane::expire(Connection& from, const Item& item) {
  const std::size_t room = Departure::room(item.event.size() + kStampBytes);
  if (stamped_.size() < room) stamped_.resize(room);
  Departure departure;
  depart(from, item, departure, stamped_.data());
  const Rows rows = rows_of(item);
  for (u32 i = rows.first; i < rows.end; ++i) ++connections_[found_.destination[i]]->out.expired;
  const std::vector<u32>& routes = item.tree->found.destination;
  for (u32 i = rows.route_first; i < rows.route_end; ++i)
    if (routes[i] != from.number) ++connections_[routes[i]]->out.expired;
}

void Plane::turn_away(Connection& from, const Item& item) {
  ++from.traffic.events_in;
  if (item.verdict == Verdict::kRefused) refuse(from, item);
  else ++(item.verdict == Verdict::kStray ? from.traffic.stray : from.traffic.damaged);
}

void Plane::refuse(Connection& from, const Item& item) {
  ++work_.refused;
  const u64 sequence = from.next_sequence++;
  const auto is_same = [&](const Outcome::Refusal& one) { return !one.is_guaranteed && std::string_view(one.code) == item.code; };
  auto found = std::find_if(outcome_.refusals.begin(), outcome_.refusals.end(), is_same);
  if (found == outcome_.refusals.end()) found = outcome_.refusals.insert(found, {item.code, item.reason, {}, 0});
  if (found->sequences.size() < kRefusedListed) found->sequences.push_back(sequence);
  else ++found->further;
}

// What is past its deadline gives way first.
bool Plane::has_room_once_expired(Connection& to, std::size_t frame) {
  if (to.has_room(frame)) return true;
  if (!to.out.is_scheduled()) return false;
  queue_of(to);  // with what was to be sent from elsewhere
  to.out.expire(now_ns_);
  return to.has_room(frame);
}

bool Plane::make_room(Connection& to, std::size_t frame) {
  if (to.fd >= 0 && !to.is_stalled) send_some(to);
  if (to.takes_events && has_room_once_expired(to, frame)) return true;
  if (to.followers > 0) return false;  // what is queued for them is never thrown away: the new event is
  if (to.when_full == WhenFull::kEnd) overrun(to);
  if (!to.takes_events || to.when_full != WhenFull::kDrop) return false;
  // A quarter of the queue at a time, so that it is not done again for the next event.
  const std::size_t left = to.queue_bytes_max - to.queue_bytes_max / 4;
  queue_of(to);  // with what was to be sent from elsewhere
  to.traffic.dropped += to.out.drop_events(left > frame ? left - frame : 0);
  return to.has_room(frame);
}

// What was written is sent, or the caller is told to send it.
const Outcome& Plane::finish() {
  for (const u32 conn : touched_) {
    if (connections_[conn] == nullptr) continue;  // a call before this one ended in an exception
    Connection& to = *connections_[conn];
    to.is_touched = false;
    if (to.fd >= 0) {
      if (!to.is_stalled && !gather(to)) send_some(to);
    } else if (to.was_empty && !to.out.empty()) {
      outcome_.ready.push_back(conn);
    }
  }
  touched_.clear();
  streams_.clear();
  outcome_.overrun.insert(outcome_.overrun.end(), overrun_.begin(), overrun_.end());
  overrun_.clear();
  std::swap(outcome_.news, news_);
  news_.clear();
  return outcome_;
}

}  // namespace tidewire

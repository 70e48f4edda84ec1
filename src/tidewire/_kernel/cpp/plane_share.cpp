// A batch for whose frames every queue has room: what goes to many connections alike is written once, and sent from there.
#include <algorithm>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr std::size_t kStreamsMax = 256u << 10;  // bytes that a call keeps to send them to several

}  // namespace

// Do these two events go to the same connections, under the same numbers?
inline bool Plane::is_alike(const Item& a, const Item& b) const {
  if (a.tree != b.tree) return false;
  const Rows one = rows_of(a), other = rows_of(b);
  const u32 rows = one.end - one.first, routes = one.route_end - one.route_first;
  if (rows != other.end - other.first || routes != other.route_end - other.route_first) return false;
  const auto is_same = [](const auto& part, u32 i, u32 j, u32 count) {
    return count == 0 || std::memcmp(part.data() + i, part.data() + j, count * sizeof part[0]) == 0;
  };
  if (!is_same(a.tree->found.destination, one.route_first, other.route_first, routes)) return false;
  if (rows == 0) return true;
  if (!is_same(found_.destination, one.first, other.first, rows)) return false;
  if (!is_same(found_.more, one.first, other.first, rows)) return false;
  const u32 *ends = found_.number_first.data() + one.first, *other_ends = found_.number_first.data() + other.first;
  const u32 numbers = ends[rows] - ends[0];
  if (numbers != other_ends[rows] - other_ends[0]) return false;
  u32 differ = 0;
  for (u32 i = 1; i < rows; ++i) differ |= (ends[i] - ends[0]) ^ (other_ends[i] - other_ends[0]);
  return differ == 0 && is_same(found_.numbers, ends[0], other_ends[0], numbers);
}

// Events that go the same way are of one kind. All that is worked out below is worked out once for each kind.
void Plane::sort_out(const Connection& from) {
  kinds_.clear();
  kind_seen_.fill(kNobody);
  stamped_bytes_ = longest_ = 0;
  for (u32 number = 0; number < items_.size(); ++number) {
    Item& item = items_[number];
    if (item.verdict != Verdict::kTaken) continue;
    const std::size_t event = item.event.size() + (from.is_link ? 0 : kStampBytes);
    stamped_bytes_ += Departure::room(event);
    longest_ = std::max(longest_, event);
    const Rows rows = rows_of(item);
    u64 key = rows.end - rows.first;
    if (key > 0) key = hash_u64(found_.destination[rows.first], key);
    if (rows.route_first < rows.route_end) key = hash_u64(item.tree->found.destination[rows.route_first], key);
    u32& seen = kind_seen_[key % kind_seen_.size()];
    if (seen == kNobody || !is_alike(items_[kinds_[seen].first], item)) {
      seen = static_cast<u32>(kinds_.size());
      kinds_.push_back({number, number, 0, 0, false});
    } else {
      items_[kinds_[seen].last].next_alike = number;
      kinds_[seen].last = number;
    }
    item.next_alike = kNobody;
    kinds_[seen].has_deadlines |= item.has_deadline;
    ++kinds_[seen].events;
    kinds_[seen].bytes += event;
  }
}

// What each connection gets of this batch. True if every queue has room for its whole share: then the order in which
// queues are filled makes no difference.
bool Plane::survey(Connection& from) {
  if (has_expired_) return false;
  sort_out(from);
  shares_.clear();
  parts_.clear();
  for (u32 kind = 0; kind < kinds_.size(); ++kind) {
    const Kind& events = kinds_[kind];
    const Item& item = items_[events.first];
    const auto add = [&](u32 conn, u32 row, std::size_t ahead) {
      Connection& to = *connections_[conn];
      if (to.share == kNobody) {
        to.share = static_cast<u32>(shares_.size());
        shares_.push_back({conn, 0, 0, 0, 0, kNobody, 0});
      }
      Share& share = shares_[to.share];
      ++share.parts;
      share.frames += events.events;
      share.bytes += events.events * ahead + events.bytes;
      share.has_deadlines |= events.has_deadlines;
      share.hash = hash_u64(u64{kind} << 32 | ahead, share.hash);
      parts_.push_back({to.share, kind, row});
    };
    const Rows rows = rows_of(item);
    for (u32 i = rows.first; i < rows.end; ++i) {
      u32* numbers = found_.numbers.data() + found_.number_first[i];
      const u32 count = found_.number_first[i + 1] - found_.number_first[i];
      if (count > 1) std::sort(numbers, numbers + count);
      add(found_.destination[i], i, Departure::deliver_size(0, count));
      Share& share = shares_[parts_.back().share];
      for (u32 n = 0; n < count; ++n) share.hash = hash_u64(numbers[n], share.hash);
    }
    const std::vector<u32>& routes = item.tree->found.destination;
    for (u32 i = rows.route_first; i < rows.route_end; ++i)
      if (routes[i] != from.number) add(routes[i], kNobody, Departure::forward_size(0));
  }
  bool has_room = true;
  for (const Share& share : shares_) {
    Connection& to = *connections_[share.conn];
    to.share = kNobody;
    has_room &= to.takes_events && to.takes(Departure::forward_size(longest_)) && to.waiting_bytes() + share.bytes <= to.queue_bytes_max;
  }
  return has_room;
}

void Plane::share_out(Connection& from) {
  if (stamped_.size() < stamped_bytes_) stamped_.resize(stamped_bytes_);
  if (departures_.size() < items_.size()) departures_.resize(items_.size());
  char* memory = stamped_.data();
  for (u32 number = 0; number < items_.size(); ++number) {
    const Item& item = items_[number];
    if (item.verdict != Verdict::kTaken) {
      turn_away(from, item);
      continue;
    }
    depart(from, item, departures_[number], memory);
    memory += Departure::room(item.event.size() + (from.is_link ? 0 : kStampBytes));
  }
  order_parts();
  find_equal_shares();
  for (u32 s = 0; s < shares_.size(); ++s) {
    Share& share = shares_[s];
    Connection& to = *connections_[share.conn];
    to.traffic.events_out += share.frames;
    count_out(to, share.bytes);
    (to.is_link ? work_.forwards : work_.deliveries) += share.frames;
    to.out.has_deadlines |= share.has_deadlines;
    if (share.leader == kNobody) write(share, queue_of(to));
    else give(to, shares_[share.leader]);
  }
}

// The parts of a share one behind the other, in the order of the kinds.
void Plane::order_parts() {
  u32 next = 0;
  for (Share& share : shares_) {
    share.first_part = next;
    next += share.parts;
    share.parts = 0;
  }
  if (ordered_.size() < next) ordered_.resize(next);
  for (const Part& part : parts_) {
    Share& share = shares_[part.share];
    ordered_[share.first_part + share.parts++] = {part.kind, part.row};
  }
}

inline bool Plane::is_equal(const Share& a, const Share& b) const {
  if (a.hash != b.hash || a.bytes != b.bytes || a.parts != b.parts) return false;
  for (u32 p = 0; p < a.parts; ++p) {
    const Way &one = ordered_[a.first_part + p], &other = ordered_[b.first_part + p];
    if (one.kind != other.kind || (one.row == kNobody) != (other.row == kNobody)) return false;
    if (one.row == kNobody) continue;
    const u32 *ends = found_.number_first.data() + one.row, *other_ends = found_.number_first.data() + other.row;
    const u32 count = ends[1] - ends[0];
    if (count != other_ends[1] - other_ends[0] || found_.more[one.row] != found_.more[other.row]) return false;
    const u32* numbers = found_.numbers.data();
    if (!std::equal(numbers + ends[0], numbers + ends[1], numbers + other_ends[0])) return false;
  }
  return true;
}

// The first of several equal shares leads them, itself too: its frames are written once, as a stream of this call.
void Plane::find_equal_shares() {
  const std::size_t places = std::bit_ceil(2 * shares_.size() + 1);
  leaders_.assign(places, kNobody);
  for (u32 s = 0; s < shares_.size(); ++s) {
    Share& share = shares_[s];
    std::size_t at = hash_u64(share.bytes, share.hash) & (places - 1);
    while (leaders_[at] != kNobody && !is_equal(shares_[leaders_[at]], share)) at = (at + 1) & (places - 1);
    if (leaders_[at] == kNobody) {
      leaders_[at] = s;
      continue;
    }
    Share& leader = shares_[leaders_[at]];
    if (leader.leader == kNobody) {
      if (streams_.size() + leader.bytes > kStreamsMax) continue;
      if (streams_.empty()) streams_.room(kStreamsMax);
      leader.leader = leaders_[at];
      leader.stream = streams_.size();
      write(leader, streams_);
    }
    share.leader = leaders_[at];
  }
}

void Plane::write(const Share& share, ByteQueue& to) {
  to.room(share.bytes);
  const auto put = [&](u32 number, u32 row) {
    Departure& departure = departures_[number];
    if (row == kNobody) return to.push(departure.forward());
    const u32 first = found_.number_first[row];
    to.push(departure.deliver(found_.numbers.data() + first, found_.number_first[row + 1] - first, found_.more[row]));
  };
  const Way* ways = ordered_.data() + share.first_part;
  if (share.parts == share.frames) {  // an event for each part
    for (u32 p = 0; p < share.parts; ++p) put(kinds_[ways[p].kind].first, ways[p].row);
    return;
  }
  if (share.parts == 1) {
    for (u32 n = kinds_[ways->kind].first; n != kNobody; n = items_[n].next_alike) put(n, ways->row);
    return;
  }
  leaving_.clear();
  for (u32 p = 0; p < share.parts; ++p)
    for (u32 n = kinds_[ways[p].kind].first; n != kNobody; n = items_[n].next_alike) leaving_.emplace_back(n, ways[p].row);
  std::sort(leaving_.begin(), leaving_.end());
  for (const auto& [number, row] : leaving_) put(number, row);
}

// A socket that has taken everything so far can be written from the stream itself.
void Plane::give(Connection& to, const Share& leader) {
  if (to.fd >= 0 && !to.is_stalled && to.out.empty()) {
    touch(to);
    to.shared.push_back({leader.stream, leader.bytes});
    to.shared_bytes += leader.bytes;
  } else {
    queue_of(to).push(streams_.data() + leader.stream, leader.bytes);
  }
}

// What was to be sent from streams goes into the queue after all.
void Plane::keep(Connection& to) {
  for (const Shared& piece : to.shared) to.out.data.push(streams_.data() + piece.at, piece.bytes);
  to.shared.clear();
  to.shared_bytes = 0;
}

}  // namespace tidewire

// What a machine installs: connections, routes, trees; and the queues of the connections.
#include "plane.hpp"

#include <algorithm>

namespace tidewire {

namespace {

constexpr u64 kFirstGuessNs = 30'000;  // of an event's cost: few at first, more when they prove cheap

void add(Traffic& sum, const Traffic& part) {
  sum.events_in += part.events_in;
  sum.bytes_in += part.bytes_in;
  sum.events_out += part.events_out;
  sum.bytes_out += part.bytes_out;
  sum.dropped += part.dropped;
  sum.queued_bytes += part.queued_bytes;
  sum.stray += part.stray;
  sum.damaged += part.damaged;
  sum.expired += part.expired;
}

}  // namespace

void Outcome::clear() {
  state = State::kIdle;
  has_message = false;
  reason.clear();
  refusals.clear();
  for (std::vector<u32>* part : {&ready, &overrun, &stalled}) part->clear();
  ended.clear();
  news.clear();
}

Plane::Plane(const Options& options, const SimdOps& simd)
    : options_(options),
      simd_(&simd),
      clients_(options.seed, simd),
      inspector_(options.seed),
      ns_per_event_(kFirstGuessNs),
      item_memory_(kEventsMax),
      followed_(options.seed, simd) {}

Connection& Plane::at(u32 conn) const {
  if (conn >= connections_.size() || connections_[conn] == nullptr)
    throw KernelError("usage", "there is no connection " + std::to_string(conn));
  return *connections_[conn];
}

Connection& Plane::client(u32 conn) const {
  Connection& found = at(conn);
  if (found.is_link) throw KernelError("usage", "connection " + std::to_string(conn) + " is a neighbour's, not a client's");
  return found;
}

void Plane::open(u32 conn, bool is_link, WhenFull when_full, u64 queue_bytes_max) {
  if (conn > kDestinationMax) throw KernelError("value-range", "a connection's number is at most 1048575");
  if (conn < connections_.size() && connections_[conn] != nullptr)
    throw KernelError("usage", "connection " + std::to_string(conn) + " is open already");
  if (conn >= connections_.size()) connections_.resize(conn + 1);
  connections_[conn] = std::make_unique<Connection>(conn, is_link, when_full, queue_bytes_max, options_.frame_bytes_max);
  if (is_link) connections_[conn]->intake.widen(kLinkFrameBytes);
  waiting_connections_ += when_full == WhenFull::kWait;
}

void Plane::make_link(u32 conn, u64 queue_bytes_max, u64 frame_bytes_max) {
  Connection& link = client(conn);
  waiting_connections_ += link.when_full != WhenFull::kWait;
  link.is_link = true;
  link.when_full = WhenFull::kWait;
  link.queue_bytes_max = queue_bytes_max;
  link.frame_bytes_max = frame_bytes_max;
  link.intake.widen(kLinkFrameBytes);
}

void Plane::close(u32 conn) {
  Connection& closed = at(conn);
  for (auto one = followers_.lower_bound({conn, 0}); closed.followers > 0; one = followers_.lower_bound({conn, 0}))
    unfollow(conn, one->first.second);
  for (const auto& [pubend, stream] : knowledge_) stream->children.erase(conn);
  std::erase_if(seats_, [conn](const auto& seat) { return seat.second == conn; });
  std::erase_if(jobs_, [conn](const Job& job) { return job.conn == conn; });
  std::erase_if(relays_, [conn](const auto& one) { return one.first.first == conn || one.second.conn == conn; });
  waits_.erase(conn);
  if (!closed.is_link) clients_.forget(conn);
  for (const auto& [id, tree] : trees_) {
    if (closed.is_link) {
      tree->routes.forget(conn);
      std::erase(tree->children, conn);
    }
    if (tree->parent != conn) continue;
    tree->parent = kNobody;
    tree->floor = tree->last;
  }
  std::erase(blocked_, conn);
  std::erase(resting_, conn);
  std::erase(overrun_, conn);
  waiting_connections_ -= closed.when_full == WhenFull::kWait;
  closed.traffic.expired = closed.out.expired;
  add(closed_, closed.traffic);
  if (closed.tls != nullptr) closed.tls->say_goodbye();
  connections_[conn].reset();
}

void Plane::may_publish(u32 conn, u64 publisher, u64 next_sequence) {
  Connection& from = client(conn);
  if (own_ == nullptr) throw KernelError("usage", "nobody can publish at a broker that has no tree of its own");
  from.may_publish = true;
  seats_[publisher] = conn;
  from.publisher = publisher;
  from.next_sequence = next_sequence;
}

void Plane::allow(u32 conn, const std::vector<std::string_view>* filters) {
  Connection& from = client(conn);
  std::unique_ptr<Permit> advertised;
  if (filters != nullptr) {
    advertised = std::make_unique<Permit>(Permit::Of::kAdvertisement, *filters, options_.seed, *simd_);
  }
  from.advertised = std::move(advertised);
}

void Plane::permit(u32 conn, const std::vector<std::string_view>* filters) {
  Connection& from = client(conn);
  if (filters == nullptr) return from.permitted.reset();
  std::erase_if(permits_, [](const auto& known) { return known.second.expired(); });
  std::string key;
  for (const std::string_view filter : *filters) key.append(std::to_string(filter.size())).append(":").append(filter);
  std::weak_ptr<Permit>& known = permits_[key];
  std::shared_ptr<Permit> permitted = known.lock();
  if (permitted == nullptr) {
    permitted = std::make_shared<Permit>(Permit::Of::kIdentity, *filters, options_.seed, *simd_);
    known = permitted;
  }
  from.permitted = std::move(permitted);
}

void Plane::set_clock(u32 conn, i64 offset_ns, u32 error_us) {
  Connection& from = at(conn);
  from.has_clock = true;
  from.offset_ns = offset_ns;
  from.error_us = error_us;
}

Plane::Tree* Plane::find_tree(u64 tree) const {
  if (last_tree_ != nullptr && last_tree_->id == tree) return last_tree_;
  const auto found = trees_.find(tree);
  return found == trees_.end() ? nullptr : last_tree_ = found->second.get();
}

Plane::Tree& Plane::tree_at(u64 tree) {
  auto& found = trees_[tree];
  if (found == nullptr) found = std::make_unique<Tree>(tree, options_.seed, *simd_);
  return *found;
}

void Plane::own_tree(u64 tree) {
  own_ = &tree_at(tree);
  own_->parent = kNobody;
}

void Plane::set_parent(u64 tree, std::optional<u32> parent) {
  if (own_ != nullptr && own_->id == tree) throw KernelError("usage", "a broker's own tree has no parent");
  if (parent && !at(*parent).is_link) throw KernelError("usage", "a parent is a neighbour, not a client");
  Tree& at = tree_at(tree);
  if (at.parent != parent.value_or(kNobody)) at.floor = at.last;
  at.parent = parent.value_or(kNobody);
  distrust(tree);
  widen(tree);
}

void Plane::forget_tree(u64 tree) {
  if (own_ != nullptr && own_->id == tree) throw KernelError("usage", "a broker's own tree cannot be forgotten");
  last_tree_ = nullptr;
  trees_.erase(tree);
  distrust(tree);
}

RouteTable& Plane::table_of(const Connection& conn, std::optional<u64> tree) {
  if (conn.is_link != tree.has_value())
    throw KernelError("usage", conn.is_link ? "a neighbour's routes are those of a tree" : "a client's routes have no tree");
  return tree ? tree_at(*tree).routes : clients_;
}

void Plane::add_routes(u32 conn, const std::vector<u32>& numbers, const std::vector<std::string_view>& filters,
                       std::optional<u64> tree) {
  table_of(at(conn), tree).add(conn, numbers, filters);
  if (!tree) return follow_routes(conn, numbers, filters);
  std::vector<u32>& children = tree_at(*tree).children;
  const auto place = std::lower_bound(children.begin(), children.end(), conn);
  if (!numbers.empty() && (place == children.end() || *place != conn)) children.insert(place, conn);
}

void Plane::remove_routes(u32 conn, const std::vector<u32>& numbers, std::optional<u64> tree) {
  if (at(conn).is_link && tree && find_tree(*tree) == nullptr) {
    if (numbers.empty()) return;
    throw KernelError("subscription-unknown", "there are no routes of this tree");
  }
  RouteTable& table = table_of(at(conn), tree);
  table.remove(conn, numbers);
  if (!tree)
    for (const u32 number : numbers) unfollow(conn, number);
  else if (table.index().numbers_of(conn).empty())
    std::erase(tree_at(*tree).children, conn);
}

bool Plane::send(u32 conn, std::string_view frame, bool is_control) {
  Connection& to = at(conn);
  if (frame.size() < kFrameHead || frame_size(frame.data()) != frame.size() || frame_kind(frame.data()) != FrameKind::kMessage)
    throw KernelError("usage", "a node sends whole frames, with messages in them");
  const bool was_empty = to.out.empty();
  (is_control ? to.out.control : to.out.data).push(frame);
  count_out(to, frame.size());
  // Events alone never fill a queue twice over: these are messages that nobody reads.
  if (to.out.control.size() > to.queue_bytes_max || to.out.data_bytes() / 2 > to.queue_bytes_max) overrun(to);
  return was_empty;
}

void Plane::overrun(Connection& conn) {
  if (!conn.takes_events) return;
  conn.takes_events = false;
  overrun_.push_back(conn.number);
}

std::size_t Plane::output(u32 conn, char* to, std::size_t count, std::optional<i64> now) {
  Outbox& out = at(conn).out;
  const std::size_t most = count;
  if (now) now_ns_ = *now;
  while (count > 0 && !out.empty()) {
    const Outbox::Pieces pieces = out.next(count, now_ns_);
    const std::size_t before = count;
    for (u32 i = 0; i < pieces.count && count > 0; ++i) {
      const std::size_t size = std::min(count, pieces.piece[i].size());
      std::memcpy(to, pieces.piece[i].data(), size);
      to += size;
      count -= size;
    }
    out.sent(before - count);
  }
  return most - count;
}

void Plane::unblock(Connection& conn) {
  if (conn.state == State::kBlocked) conn.state = State::kBusy;
  std::erase(blocked_, conn.number);
  std::erase(resting_, conn.number);
}

std::vector<u32> Plane::unblocked() {
  std::vector<u32> found;
  for (const auto& [conn, pubend] : waits_)
    if (has_room_for(pubend)) found.push_back(conn);
  for (const u32 conn : found) waits_.erase(conn);
  if (rest_ns() == 0u) found.insert(found.end(), resting_.begin(), resting_.end());
  for (const u32 conn : blocked_) {
    const u32 by = at(conn).blocked_by;
    const Connection* full = by < connections_.size() ? connections_[by].get() : nullptr;
    const bool has_drained = full == nullptr || !full->takes_events ||
                             (full->out.data_bytes() <= full->queue_bytes_max / 2 && full->has_room(at(conn).blocked_frame));
    if (has_drained) found.push_back(conn);
  }
  for (const u32 conn : found) unblock(at(conn));
  return found;
}

Traffic Plane::traffic(u32 conn) const {
  Traffic found = at(conn).traffic;
  found.queued_bytes = at(conn).queued_bytes();
  found.expired = at(conn).out.expired;
  return found;
}

// Whoever asks does so now and then: a good time to give back what connections no longer need.
Traffic Plane::totals() {
  Traffic sum = closed_;
  for (const auto& one : connections_) {
    if (one == nullptr) continue;
    add(sum, traffic(one->number));
    const u64 events = one->traffic.events_in + one->traffic.events_out;
    if (events == one->events_before) {
      one->out.data.release();
      one->out.control.release();
      one->intake.release();
      if (one->tls != nullptr) one->tls->unsent.release();
    }
    one->events_before = events;
  }
  return sum;
}

std::vector<u32> Plane::lossy() {
  std::vector<u32> found;
  for (const auto& one : connections_) {
    if (one == nullptr || one->traffic.dropped == one->dropped_before) continue;
    one->dropped_before = one->traffic.dropped;
    found.push_back(one->number);
  }
  return found;
}

u64 Plane::subscriptions() const {
  u64 count = clients_.subscriptions();
  for (const auto& [id, tree] : trees_) count += tree->routes.subscriptions();
  return count;
}

std::size_t Plane::bytes() const {
  std::size_t total = clients_.bytes() + read_buffer_.capacity() + clear_buffer_.capacity() + sealed_.bytes();
  for (const auto& [id, tree] : trees_) total += tree->routes.bytes();
  for (const auto& conn : connections_) {
    if (conn == nullptr) continue;
    total += sizeof(Connection) + conn->out.bytes() + conn->intake.bytes() + (conn->advertised ? conn->advertised->bytes() : 0);
    if (conn->tls != nullptr) total += sizeof(TlsLine) + conn->tls->unsent.bytes();
  }
  for (const auto& [filters, known] : permits_)
    if (const auto permit = known.lock()) total += permit->bytes();
  return total;
}

}  // namespace tidewire

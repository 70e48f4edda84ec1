// Sockets: read from one connection, and write to all that got something, inside one call.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr u32 kReadMax = 256u << 10, kReadMin = 16u << 10;
constexpr u32 kSharedMax = 13, kPiecesMax = kSharedMax + 3;  // of one call to send

}  // namespace

void Plane::attach(u32 conn, int fd) {
  Connection& attached = at(conn);
  attached.fd = fd;
  attached.is_stalled = false;
  const std::size_t place = static_cast<std::size_t>(fd);
  if (conn_of_fd_.size() <= place) conn_of_fd_.resize(place + 1, kNobody);
  conn_of_fd_[place] = conn;
}

// A socket that was closed since may be another's now: the connection must agree.
Connection* Plane::connection_of(int fd) const {
  const std::size_t place = static_cast<std::size_t>(fd);
  const u32 conn = place < conn_of_fd_.size() ? conn_of_fd_[place] : kNobody;
  Connection* found = conn < connections_.size() ? connections_[conn].get() : nullptr;
  return found != nullptr && found->fd == fd ? found : nullptr;
}

// What was not looked at is still ready, and will be told again by the next call.
const Plane::Woken& Plane::wait(int epoll, int timeout_ms) {
  constexpr int kAtOnce = 64;
  epoll_event ready[kAtOnce];
  woken_.others.clear();
  woken_.conn = kNobody;
  const u64 start = clock_ns();
  int left_ms = timeout_ms;
  while (true) {
    const int count = epoll_wait(epoll, ready, kAtOnce, left_ms);
    if (count <= 0) return woken_;
    const u64 now = clock_ns();
    for (int i = 0; i < count; ++i) {
      const int fd = ready[i].data.fd;
      const u32 events = ready[i].events;
      Connection* from = events == EPOLLIN ? connection_of(fd) : nullptr;
      if (from == nullptr) {
        woken_.others.emplace_back(fd, events);
        continue;
      }
      const u32 conn = from->number;
      const Outcome& outcome = pump(conn, static_cast<i64>(i == 0 ? now : clock_ns()));
      if (outcome.is_quiet()) continue;
      woken_.conn = conn;
      woken_.outcome = &outcome;
      return woken_;
    }
    if (!woken_.others.empty()) return woken_;
    if (timeout_ms < 0) continue;
    const u64 spent_ms = (clock_ns() - start) / 1'000'000;
    if (spent_ms >= static_cast<u64>(timeout_ms)) return woken_;
    left_ms = timeout_ms - static_cast<int>(spent_ms);
  }
}

const Outcome& Plane::pump(u32 conn, i64 now) {
  Connection& from = at(conn);
  if (from.fd < 0) throw KernelError("usage", "connection " + std::to_string(conn) + " has no socket");
  outcome_.clear();
  if (from.state != State::kIdle) {  // what has come before goes first
    work_on(from, {}, now);
    return finish();
  }
  if (read_buffer_.empty()) read_buffer_.resize(kReadMax);
  const ssize_t count = recv(from.fd, read_buffer_.data(), from.read_bytes, MSG_DONTWAIT);
  if (count <= 0) {
    if (count == 0) fail(from, 0);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) fail(from, errno);
    return finish();
  }
  from.bytes_in += static_cast<u64>(count);
  work_on(from, {read_buffer_.data(), static_cast<std::size_t>(count)}, now);
  // As much as one call can handle, so that little has to be copied to wait for the next.
  if (from.state == State::kBusy && !outcome_.has_message) from.read_bytes = std::max(from.read_bytes / 2, kReadMin);
  else if (count == from.read_bytes) from.read_bytes = std::min(from.read_bytes * 2, kReadMax);
  return finish();
}

const Outcome& Plane::flush(u32 conn) {
  Connection& to = at(conn);
  if (to.fd < 0) throw KernelError("usage", "connection " + std::to_string(conn) + " has no socket");
  outcome_.clear();
  to.is_stalled = false;
  send_some(to);
  return outcome_;
}

// A socket that did not take everything is full: the caller hears of it once, and flushes when it can be written.
void Plane::send_some(Connection& to) {
  if (to.shared.size() > kSharedMax) keep(to);
  while (to.shared_bytes > 0 || !to.out.empty()) {
    iovec pieces[kPiecesMax];
    msghdr head{};
    head.msg_iov = pieces;
    const auto add = [&](const char* at, std::size_t bytes) { pieces[head.msg_iovlen++] = {const_cast<char*>(at), bytes}; };
    const Outbox::Pieces waiting = to.out.next();
    for (u32 i = 0; i < waiting.count; ++i) add(waiting.piece[i].data(), waiting.piece[i].size());
    for (const Shared& piece : to.shared) add(streams_.data() + piece.at, piece.bytes);
    const ssize_t count = sendmsg(to.fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return fail(to, errno);
    const std::size_t sent = count < 0 ? 0 : static_cast<std::size_t>(count);
    if (sent == to.out.size() + to.shared_bytes) return to.sent_all();
    keep(to);
    to.out.sent(sent);
    to.is_stalled = true;
    outcome_.stalled.push_back(to.number);
    return;
  }
}

void Plane::fail(Connection& conn, int error) {
  outcome_.ended.emplace_back(conn.number, error);
  if (error == 0) return;
  conn.takes_events = false;
  conn.sent_all();
}

}  // namespace tidewire

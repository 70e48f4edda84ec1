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

const Outcome& Plane::pump(u32 conn, i64 now) {
  Connection& from = at(conn);
  if (from.fd < 0) throw KernelError("usage", "connection " + std::to_string(conn) + " has no socket");
  outcome_.clear();
  if (from.state != State::kIdle) {  // what has come before goes first
    work_on(from, {}, now);
    has_more_ = is_busy(from) || from.has_read_all_it_may;
    return finish();
  }
  if (read_buffer_.empty()) read_buffer_.resize(kReadMax);
  const ssize_t count = recv(from.fd, read_buffer_.data(), from.read_bytes, MSG_DONTWAIT);
  has_more_ = from.has_read_all_it_may = count == from.read_bytes;
  if (count <= 0) {
    if (count == 0) fail(from, 0);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) fail(from, errno);
    return finish();
  }
  from.traffic.bytes_in += static_cast<u64>(count);
  work_on(from, {read_buffer_.data(), static_cast<std::size_t>(count)}, now);
  // As much as one call can handle, so that little has to be copied to wait for the next.
  if (is_busy(from)) from.read_bytes = std::max(from.read_bytes / 2, kReadMin);
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

// More has come from there than was handled: it goes on without being told anything.
bool Plane::is_busy(const Connection& from) const { return from.state == State::kBusy && !outcome_.has_message; }

void Plane::ignore(u32 conn) {
  Connection& from = at(conn);
  from.state = State::kBroken;
  from.intake.forget();
}

void Plane::fail(Connection& conn, int error) {
  outcome_.ended.emplace_back(conn.number, error);
  if (error == 0) return;
  conn.takes_events = false;
  conn.sent_all();
}

}  // namespace tidewire

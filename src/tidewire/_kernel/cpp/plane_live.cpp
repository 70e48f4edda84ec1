// Sockets: read from one connection, and write to all that got something, inside one call.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr u32 kReadMax = 256u << 10, kReadMin = 16u << 10;
constexpr u32 kSharedMax = 13, kPiecesMax = kSharedMax + 3;  // of one call to send
constexpr std::size_t kSealedMax = 64u << 10;                // that leave together
constexpr int kUnsentBytes = 16 << 10;                       // that the system keeps ahead of what goes out, if it is asked to

// What is to be sent to a connection, in order.
struct Outgoing {
  Outgoing(Connection& to, const ByteQueue& streams) {
    const bool is_urgent = to.has_waited && to.out.is_scheduled();
    const std::optional<i64> now = is_urgent ? std::optional(static_cast<i64>(clock_ns())) : std::nullopt;
    const Outbox::Pieces waiting = to.out.next(is_urgent ? Outbox::kUrgentBytes : Outbox::kStagedBytes, now);
    for (u32 i = 0; i < waiting.count; ++i) add(waiting.piece[i].data(), waiting.piece[i].size());
    bytes = waiting.bytes();
    if (bytes < to.out.size()) return;  // what is shared comes behind all that waits
    for (const Shared& piece : to.shared) add(streams.data() + piece.at, piece.bytes);
    bytes += to.shared_bytes;
  }
  void add(const char* at, std::size_t bytes) { pieces[count++] = {const_cast<char*>(at), bytes}; }

  // The next bytes, as many as a record takes: copied only if they lie in several pieces. Empty: there are no more.
  std::string_view next_record(std::vector<char>& memory) {
    if (first < count && (pieces[first].iov_len >= kRecordBytes || first + 1 == count)) return take(kRecordBytes);
    memory.clear();
    while (first < count && memory.size() < kRecordBytes) {
      const std::string_view part = take(kRecordBytes - memory.size());
      memory.insert(memory.end(), part.begin(), part.end());
    }
    return {memory.data(), memory.size()};
  }

  iovec pieces[kPiecesMax];
  u32 count = 0, first = 0;
  std::size_t bytes = 0;

 private:
  std::string_view take(std::size_t most) {
    iovec& piece = pieces[first];
    const std::string_view taken(static_cast<const char*>(piece.iov_base), std::min(most, piece.iov_len));
    piece.iov_base = static_cast<char*>(piece.iov_base) + taken.size();
    piece.iov_len -= taken.size();
    if (piece.iov_len == 0) ++first;
    return taken;
  }
};

}  // namespace

void Plane::attach(u32 conn, int fd, std::unique_ptr<TlsLine> tls) {
  Connection& attached = at(conn);
  attached.fd = fd;
  attached.tls = std::move(tls);
  attached.is_stalled = attached.is_watched = false;
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
  if (from.state != State::kIdle || (from.tls != nullptr && from.tls->over())) {  // what has come before goes first
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
  std::string_view data(read_buffer_.data(), static_cast<std::size_t>(count));
  if (from.tls != nullptr) data = open_sealed(from, data);
  from.traffic.bytes_in += data.size();
  work_on(from, data, now);
  // As much as one call can handle, so that little has to be copied to wait for the next. To open small records takes
  // long: of them, less.
  if (is_busy(from) || data.size() < static_cast<std::size_t>(count) / 2)
    from.read_bytes = std::max(from.read_bytes / 2, kReadMin);
  else if (count == from.read_bytes) from.read_bytes = std::min(from.read_bytes * 2, kReadMax);
  return finish();
}

// All that can be opened is: nothing is left to wait for a socket that may stay silent.
std::string_view Plane::open_sealed(Connection& from, std::string_view sealed) {
  if (clear_buffer_.empty()) clear_buffer_.resize(kReadMax + kRecordBytes);
  const std::size_t count = from.tls->open(sealed, clear_buffer_.data());
  if (from.is_stalled) return {clear_buffer_.data(), count};
  const int error = send_sealed(from, from.tls->unsent);  // TLS itself may have something to say
  if (error == EAGAIN) stall(from, 0);
  else if (error != 0) fail(from, error);
  return {clear_buffer_.data(), count};
}

const Outcome& Plane::flush(u32 conn) {
  Connection& to = at(conn);
  if (to.fd < 0) throw KernelError("usage", "connection " + std::to_string(conn) + " has no socket");
  outcome_.clear();
  to.is_stalled = to.is_watched = false;
  send_some(to);
  return outcome_;
}

// A socket that did not take everything is full: the caller hears of it once, and flushes when it can be written.
void Plane::stall(Connection& to, std::size_t sent) {
  keep(to);
  to.out.sent(sent);
  to.is_stalled = to.has_waited = true;
  if (to.out.is_scheduled() && !to.is_brief) {
    to.is_brief = true;
    setsockopt(to.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
  }
  if (to.is_watched) return;
  to.is_watched = true;
  outcome_.stalled.push_back(to.number);
}

void Plane::send_some(Connection& to) {
  if (to.shared.size() > kSharedMax) keep(to);
  if (to.tls != nullptr) return seal_and_send(to);
  while (to.shared_bytes > 0 || !to.out.empty()) {
    Outgoing outgoing(to, streams_);
    msghdr head{};
    head.msg_iov = outgoing.pieces;
    head.msg_iovlen = outgoing.count;
    const ssize_t count = sendmsg(to.fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return fail(to, errno);
    const std::size_t sent = count < 0 ? 0 : static_cast<std::size_t>(count);
    if (sent == to.out.size() + to.shared_bytes) return to.sent_all();
    if (sent < outgoing.bytes) return stall(to, sent);
    to.out.sent(sent);
  }
}

// What is sealed must be sent as it is, so there is little of it: the rest stays in the queue, under its bound.
void Plane::seal_and_send(Connection& to) {
  TlsLine& line = *to.tls;
  Outgoing outgoing(to, streams_);
  std::size_t taken = 0;
  int error = send_sealed(to, line.unsent);
  while (error == 0 && taken < outgoing.bytes) {
    while (sealed_.size() < kSealedMax && taken < outgoing.bytes) {
      const std::string_view clear = outgoing.next_record(record_);
      if (!line.seal(clear, sealed_)) {
        sealed_.clear();
        return fail(to, EPROTO);
      }
      taken += clear.size();
    }
    error = send_sealed(to, sealed_);
    line.unsent.push(sealed_.data(), sealed_.size());
    sealed_.clear();
  }
  if (error == 0 && taken < to.out.size() + to.shared_bytes) {
    to.out.sent(taken);
    return seal_and_send(to);
  }
  if (error == 0) to.sent_all();
  else if (error == EAGAIN) stall(to, taken);
  else fail(to, error);
}

// 0: all of it has left; EAGAIN: the socket is full; else what is wrong with the socket.
int Plane::send_sealed(const Connection& to, ByteQueue& sealed) {
  while (!sealed.empty()) {
    const ssize_t count = ::send(to.fd, sealed.data(), sealed.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    const bool is_full = static_cast<std::size_t>(count) < sealed.size();
    sealed.pop(static_cast<std::size_t>(count));
    if (is_full) return EAGAIN;
  }
  return 0;
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
  if (conn.tls != nullptr) conn.tls->unsent.clear();
}

}  // namespace tidewire

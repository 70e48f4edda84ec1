#include "connection.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace tidewire::bench {

namespace {

constexpr int kSetupTimeoutS = 30;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

int connected_socket(const ConnectionPlan& own) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(own.port);
  if (inet_pton(AF_INET, own.host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error(own.host + " is not a numeric IPv4 address");
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  const int yes = 1;
  const timeval timeout{kSetupTimeoutS, 0};
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    errno = error;
    fail("connect");
  }
  return fd;
}

}  // namespace

std::string readable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, 200)) text += c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '.';
  return text;
}

i64 now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return i64{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Connection::Connection(const Plan& plan, const ConnectionPlan& own)
    : last_seen(own.is_publisher ? 0 : plan.publishers), own_(own), fd_(connected_socket(own)) {
  try {
    for (const Step& step : own.steps) step.is_send ? send_all(step.bytes) : await(step.bytes);
  } catch (...) {
    close();
    throw;
  }
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

Connection::~Connection() { close(); }

void Connection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void Connection::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) fail("sending the beginning");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Connection::await(std::string_view wanted) {
  char buffer[1 << 16];
  for (std::size_t from = 0;;) {
    const std::size_t found = rest_.find(wanted, from);
    if (found != std::string::npos) {
      rest_.erase(0, found + wanted.size());
      return;
    }
    from = rest_.size() < wanted.size() ? 0 : rest_.size() - wanted.size() + 1;
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) {
      const std::string why = got == 0          ? "the server closed"
                              : errno == EAGAIN ? "the server took too long"
                                                : std::strerror(errno);
      throw std::runtime_error(why + " before it said " + readable(wanted) + "; it said " + readable(rest_));
    }
    rest_.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string& Connection::outgoing() {
  if (!has_unsent()) {
    unsent_.clear();
    sent_ = 0;
  }
  return unsent_;
}

std::size_t Connection::send_some() {
  const ssize_t sent = send(fd_, unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
  if (sent >= 0) {
    sent_ += static_cast<std::size_t>(sent);
    return static_cast<std::size_t>(sent);
  }
  if (errno != EAGAIN && errno != EINTR) {
    error = std::strerror(errno);
    close();
  }
  return 0;
}

std::string_view Connection::read_some(std::vector<char>& buffer) {
  const std::size_t kept = rest_.size();
  if (buffer.size() < 2 * kept) buffer.resize(2 * kept);
  std::memcpy(buffer.data(), rest_.data(), kept);
  const ssize_t got = recv(fd_, buffer.data() + kept, buffer.size() - kept, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {buffer.data(), kept};
  if (got <= 0) {
    error = got == 0 ? "the server closed" : std::strerror(errno);
    close();
    return {};
  }
  bytes_in += static_cast<u64>(got);
  return {buffer.data(), kept + static_cast<std::size_t>(got)};
}

}  // namespace tidewire::bench

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

Connection::Connection(const Plan& plan, const ConnectionPlan& own, const Trust* trust)
    : window(plan.window),
      last_seen(own.is_publisher ? 0 : plan.publishers),
      own_(own),
      fd_(connected_socket(own)),
      begin_(own.begin) {
  try {
    if (trust != nullptr) tls_ = std::make_unique<Tls>(*trust, fd_, own.host);
    send_until_answer();
  } catch (...) {
    close();
    throw;
  }
}

Connection::~Connection() { close(); }

void Connection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Connection::begin_further() {
  if (step_ < own_.steps.size()) {
    await(own_.steps[step_++].bytes);
    send_until_answer();
  }
  if (step_ < own_.steps.size()) return false;
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  return true;
}

void Connection::send_until_answer() {
  for (; step_ < own_.steps.size() && own_.steps[step_].is_send; ++step_) send_all(own_.steps[step_].bytes);
}

ssize_t Connection::receive(char* to, std::size_t room) {
  return tls_ != nullptr ? tls_->receive(to, room) : recv(fd_, to, room, 0);
}

ssize_t Connection::transmit(const char* from, std::size_t count) {
  return tls_ != nullptr ? tls_->transmit(from, count) : send(fd_, from, count, MSG_NOSIGNAL);
}

void Connection::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = transmit(bytes.data(), bytes.size());
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
    const ssize_t got = receive(buffer, sizeof buffer);
    if (got <= 0) {
      const std::string why = got == 0          ? "the server closed"
                              : errno == EAGAIN ? "the server took too long"
                                                : std::strerror(errno);
      throw std::runtime_error(why + " before it said " + readable(wanted) + "; it said " + readable(rest_));
    }
    rest_.append(buffer, static_cast<std::size_t>(got));
  }
}

void Connection::note(std::string_view mark) {
  if (own_.again.every == 0) return;
  if (!own_.again.with_all_marks) marks_.clear();
  marks_ += mark;
}

void Connection::delivered() {
  if (own_.again.every == 0 || ++since_again_ < own_.again.every) return;
  outgoing().append(own_.again.before).append(marks_).append(own_.again.behind);
  marks_.clear();
  since_again_ = 0;
}

std::string& Connection::outgoing() {
  if (!has_unsent()) {
    unsent_.clear();
    sent_ = 0;
  }
  return unsent_;
}

std::size_t Connection::send_some() {
  const std::size_t before = sent_;
  do {
    const ssize_t sent = transmit(unsent_.data() + sent_, unsent_.size() - sent_);
    if (sent >= 0) {
      sent_ += static_cast<std::size_t>(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      error = std::strerror(errno);
      close();
    }
    break;
  } while (tls_ != nullptr && has_unsent());  // TLS takes one record at a time
  return sent_ - before;
}

std::string_view Connection::read_some(std::vector<char>& buffer) {
  const std::size_t kept = rest_.size();
  if (buffer.size() < 2 * kept) buffer.resize(2 * kept);
  std::memcpy(buffer.data(), rest_.data(), kept);
  std::size_t filled = kept;
  do {
    const ssize_t got = receive(buffer.data() + filled, buffer.size() - filled);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      has_more_ = false;
      break;
    }
    if (got <= 0) {
      error = got == 0 ? "the server closed" : std::strerror(errno);
      has_more_ = false;
      close();
      return {};
    }
    filled += static_cast<std::size_t>(got);
    has_more_ = tls_ != nullptr;  // a record may have been read ahead, or in part
  } while (has_more_ && filled < buffer.size());
  bytes_in += filled - kept;
  return {buffer.data(), filled};
}

}  // namespace tidewire::bench

// Waiting: read whatever can be read, go on with whoever is busy, and write when it is worth it.
#include <sys/epoll.h>

#include <algorithm>

#include "plane.hpp"

namespace tidewire {

namespace {

constexpr int kAtOnce = 64;
constexpr u64 kUnsentNs = 4'000'000;  // the longest that something waits to be sent together with more

// Whatever ends the waiting.
struct Gathering {
  explicit Gathering(bool& gathers) : gathers_(gathers) { gathers_ = true; }
  ~Gathering() { gathers_ = false; }
  bool& gathers_;
};

}  // namespace

// Everyone has a turn before anyone has a second one, also when a turn ends the call: who is still due comes first in
// the next one.
const Plane::Woken& Plane::wait(int epoll, int timeout_ms) {
  woken_ = {};
  const u64 end = timeout_ms < 0 ? ~u64{0} : clock_ns() + static_cast<u64>(timeout_ms) * 1'000'000;
  const Gathering gathering(gathers_);
  while (!serve_due() && !settle_log() && !serve_again() && !look_around(epoll, end)) {}
  return woken_;
}

// True if a turn has something to tell.
bool Plane::serve_due() {
  if (is_log_ready_) {
    is_log_ready_ = false;
    if (tells(committed(static_cast<i64>(clock_ns())), kNobody)) return true;
  }
  while (!due_.empty()) {
    const auto [conn, fd] = due_.front();
    due_.pop_front();
    Connection* from = conn < connections_.size() ? connections_[conn].get() : nullptr;
    if (from == nullptr || from->fd != fd) continue;  // it has gone since
    if (from->state == State::kBlocked || from->state == State::kBroken) continue;
    if (serve(*from)) return true;
  }
  return false;
}

// One group for each turn of all connections.
bool Plane::settle_log() {
  return has_appended_ && tells(submit(static_cast<i64>(clock_ns())), kNobody);
}

// What is told again waits for what is new, but never for long.
bool Plane::serve_again() {
  return !jobs_.empty() && is_serving() && tells(serve(static_cast<i64>(clock_ns())), kNobody);
}

// How far a replay has come is not told from here before its end: nobody acts on it, and pieces are many.
bool Plane::tells(const Outcome& outcome, u32 conn, bool goes_on) {
  outcome_.news.forget_progress();
  if (goes_on ? outcome.is_silent() : outcome.is_quiet()) return false;
  woken_.conn = conn;
  woken_.outcome = &outcome;
  return true;
}

// When everyone has had a turn: who is next? True if the caller has something to do, or the time is over.
bool Plane::look_around(int epoll, u64 end_ns) {
  epoll_event ready[kAtOnce];
  const u64 now = clock_ns();
  const bool may_wait = busy_.empty() && gathered_.empty() && now < end_ns && (jobs_.empty() || !is_serving());
  const u64 left_ms = std::min<u64>((end_ns - std::min(now, end_ns) + 999'999) / 1'000'000, 60'000);
  const int count = epoll_wait(epoll, ready, kAtOnce, may_wait ? static_cast<int>(left_ms) : 0);
  if (count < 0) return true;  // a signal
  for (int i = 0; i < count; ++i) {
    const int fd = ready[i].data.fd;
    const u32 events = ready[i].events;
    if (fd == log_fd_) {
      is_log_ready_ = true;
      continue;
    }
    Connection* from = (events & ~(EPOLLIN | EPOLLOUT)) == 0 ? connection_of(fd) : nullptr;
    const bool is_writable = (events & EPOLLOUT) != 0;
    if (from == nullptr || (is_writable && !is_behind(*from))) {
      woken_.others.emplace_back(fd, events);
      continue;
    }
    if (is_writable && from->is_stalled) goes_on(*from);
    if ((events & EPOLLIN) != 0) due_.emplace_back(from->number, fd);
  }
  for (const u32 conn : busy_) {
    const Connection* from = conn < connections_.size() ? connections_[conn].get() : nullptr;
    if (from == nullptr || from->state != State::kBusy) continue;
    const auto is_due = [&](const auto& one) { return one.first == conn; };
    if (std::none_of(due_.begin(), due_.end(), is_due)) due_.emplace_back(conn, from->fd);
  }
  busy_.clear();
  const u64 later = clock_ns();
  if (!gathered_.empty() && (due_.empty() || later - gathered_since_ns_ >= kUnsentNs)) {
    outcome_.clear();
    send_gathered();
    if (!outcome_.is_quiet()) {
      woken_.outcome = &outcome_;
      return true;
    }
  }
  if (is_log_ready_ && woken_.others.empty()) {
    is_log_ready_ = false;
    if (tells(committed(static_cast<i64>(clock_ns())), kNobody)) return true;
  }
  return !woken_.others.empty() || later >= end_ns;
}

// True if its turn has something to tell.
bool Plane::serve(Connection& from) {
  const Outcome& outcome = pump(from.number, static_cast<i64>(clock_ns()));
  const bool goes_on = is_busy(from);
  if (goes_on) busy_.push_back(from.number);
  return tells(outcome, from.number, goes_on);
}

// As long as more comes to be sent, little is not sent alone. True if it is to wait.
bool Plane::gather(Connection& to) {
  constexpr std::size_t kEnough = 64u << 10;
  if (!gathers_ || !has_more_ || to.out.size() + to.shared_bytes >= kEnough) return false;
  keep(to);
  add_gathered(to);
  return true;
}

// Its socket can be written again, and there is more to tell it: nobody need be asked. Who waits for that keeps waiting.
void Plane::goes_on(Connection& to) {
  to.is_stalled = false;
  add_gathered(to);
}

void Plane::add_gathered(Connection& to) {
  if (to.is_gathered) return;
  if (gathered_.empty()) gathered_since_ns_ = clock_ns();
  to.is_gathered = true;
  gathered_.push_back(to.number);
}

void Plane::send_gathered() {
  for (const u32 conn : gathered_) {
    Connection* to = conn < connections_.size() ? connections_[conn].get() : nullptr;
    if (to == nullptr || !to->is_gathered) continue;
    to->is_gathered = false;
    if (to->fd >= 0 && !to->is_stalled) send_some(*to);
  }
  gathered_.clear();
}

}  // namespace tidewire

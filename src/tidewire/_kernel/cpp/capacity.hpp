// What a broker may use of its machine: so much a second, and a little that it has saved. What is at work is finished,
// though it may be more than is left; then nothing is begun until that is paid, and a little more saved.
#pragma once

#include <ctime>

#include <algorithm>

#include "base.hpp"

namespace tidewire {

// Of this thread alone: what others do on the machine does not count.
inline u64 thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<u64>(time.tv_sec) * 1'000'000'000 + static_cast<u64>(time.tv_nsec);
}

class Allowance {
 public:
  void limit(double rate_per_s, u64 now) {
    rate_ = rate_per_s / 1e9;
    owed_ = 0;
    at_ns_ = now;
  }
  bool is_limited() const { return rate_ > 0; }
  void use(double amount) {
    if (is_limited()) owed_ += amount;
  }
  // May something be begun?
  bool has_some(u64 now) {
    settle(now);
    return !is_limited() || owed_ <= 0;
  }
  // How long until it is worth while to begin again?
  u64 rest_ns(u64 now) {
    settle(now);
    const double missing = owed_ + rate_ * kWorthWhileNs;
    return is_limited() && missing > 0 ? static_cast<u64>(missing / rate_) + 1 : 0;
  }

 private:
  static constexpr double kWorthWhileNs = 5e6, kSavedNs = 50e6;  // of its rate

  void settle(u64 now) {
    const double passed = static_cast<double>(std::max(now, at_ns_) - at_ns_);
    owed_ = std::max(owed_ - rate_ * passed, -rate_ * kSavedNs);
    at_ns_ = std::max(now, at_ns_);
  }

  double rate_ = 0, owed_ = 0;  // a nanosecond; 0: no limit
  u64 at_ns_ = 0;
};

}  // namespace tidewire

// What a publisher has sent and the server has not acknowledged yet: no more than the plan's window.
#pragma once

#include <deque>

#include "base.hpp"
#include "streams.hpp"

namespace tidewire::bench {

class Window {
 public:
  explicit Window(u64 room) : room_(room) {}

  bool has_room() const { return waiting_ < room_; }

  void add(i64 sent) {
    sent_.push_back(sent);
    ++waiting_;
  }

  // Tells, of each event that this acknowledges, when it was sent. False if none waits for it: it was never sent, or has
  // been acknowledged before.
  template <class Tell>
  bool acknowledge(const Ack& ack, Tell tell) {
    const u64 ahead = ahead_of(ack);
    if (ahead >= sent_.size() || (!ack.with_earlier && sent_[ahead] == kAcknowledged)) return false;
    for (u64 at = ack.with_earlier ? 0 : ahead; at <= ahead; ++at) {
      if (sent_[at] == kAcknowledged) continue;
      tell(sent_[at]);
      sent_[at] = kAcknowledged;
      --waiting_;
    }
    for (; !sent_.empty() && sent_.front() == kAcknowledged; ++first_) sent_.pop_front();
    return true;
  }

 private:
  static constexpr i64 kAcknowledged = -1;

  // How many of those that are kept were sent before it. Numbers that begin again are of the first that fits.
  u64 ahead_of(const Ack& ack) const {
    if (ack.number == 0) return 0;
    if (ack.numbers == 0) return ack.number - first_;  // one before the first gives a number beyond all
    return (ack.number + ack.numbers - 1 - (first_ - 1) % ack.numbers) % ack.numbers;
  }

  u64 room_, waiting_ = 0;
  u64 first_ = 1;         // the number of the first that is kept
  std::deque<i64> sent_;  // up to the last; those that were acknowledged ahead of others are marked
};

}  // namespace tidewire::bench

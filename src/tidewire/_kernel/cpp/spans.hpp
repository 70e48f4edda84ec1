// A set of ticks as runs: sorted, apart from each other, half open (delivery/spans.py).
#pragma once

#include <vector>

#include "base.hpp"

namespace tidewire {

struct TickSpan {
  u64 first, end;
  bool operator==(const TickSpan&) const = default;
};

class Spans {
 public:
  bool empty() const { return runs_.empty(); }
  const std::vector<TickSpan>& runs() const { return runs_; }
  bool has(u64 tick) const;
  void add(u64 first, u64 end) {
    if (!runs_.empty() && first == runs_.back().end && end > first) runs_.back().end = end;  // the head of a stream
    else insert(first, end);
  }
  void remove(u64 first, u64 end);
  // The first tick from here on that is not in the set.
  u64 end_of(u64 tick) const;
  // The runs of the set in this range, and those of the range that are not in the set.
  std::vector<TickSpan> within(u64 first, u64 end) const;
  std::vector<TickSpan> gaps(u64 first, u64 end) const;
  bool touches(u64 first, u64 end) const;

 private:
  void insert(u64 first, u64 end);
  std::size_t first_ending_beyond(u64 tick) const;  // the first run that ends behind this tick

  std::vector<TickSpan> runs_;
};

}  // namespace tidewire

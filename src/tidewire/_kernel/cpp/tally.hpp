// How many matches each destination surely has, counted no further than it matters.
#pragma once

#include <algorithm>
#include <vector>

#include "base.hpp"

namespace tidewire {

// Beyond this many matches a destination is told that there are more, and not which.
inline constexpr u32 kNamedMax = 16;

class Tally {
 public:
  static constexpr u8 kEnough = kNamedMax + 1;

  void clear(u32 destinations) { counts_.assign(destinations, 0); }
  void add(u32 destination, u32 count) {
    counts_[destination] = static_cast<u8>(std::min(counts_[destination] + count, u32{kEnough}));
  }
  // The other one may be older and know fewer destinations.
  void add(const Tally& other) {
    u8* counts = counts_.data();
    const u8* more = other.counts_.data();
    for (std::size_t i = 0; i < other.counts_.size(); ++i)
      counts[i] = std::min<u8>(static_cast<u8>(counts[i] + more[i]), kEnough);
  }
  void lose(u32 destination) {
    if (destination < counts_.size() && counts_[destination] > 0) --counts_[destination];
  }

  bool is_enough(u32 destination) const { return counts_[destination] == kEnough; }
  // How many destinations have enough?
  u32 satisfied() const { return static_cast<u32>(std::count(counts_.begin(), counts_.end(), kEnough)); }
  u32 total() const {
    u32 sum = 0;
    for (const u8 count : counts_) sum += count;
    return sum;
  }
  std::size_t bytes() const { return counts_.capacity(); }

 private:
  std::vector<u8> counts_;
};

// A tally of one bucket of a segment. It never says too much: what comes is not counted, what goes is taken off even if
// it was not in it. So it serves while the segment changes, until it says too little.
struct KeptTally {
  Tally tally;
  u32 total = 0;    // when it was made
  u32 entries = 0;  // of the segment, when it was made; 0: it must be made
  u32 lost = 0;
  bool was_asked = false;

  bool is_good(u32 entries_now) const { return entries != 0 && entries_now <= entries + entries / 4; }
  void lose(u32 destination) {
    constexpr u32 kLostMax = 16;
    if (entries == 0) return;
    tally.lose(destination);
    if (++lost > kLostMax) entries = 0;
  }
};

}  // namespace tidewire

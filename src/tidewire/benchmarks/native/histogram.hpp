// How often did something take how long? 64 buckets to each power of two: a value is known to 1.6 %.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "base.hpp"

namespace tidewire::bench {

class Histogram {
 public:
  Histogram() : counts_(std::size_t{64} * 60) {}

  void add(i64 value) {
    const u64 clipped = value < 0 ? 0 : static_cast<u64>(value);
    ++counts_[bucket_of(clipped)];
    ++count_;
    max_ = std::max(max_, clipped);
  }

  u64 count() const { return count_; }
  u64 max() const { return max_; }

  // The value that this share of all does not exceed.
  u64 quantile(double share) const {
    u64 wanted = static_cast<u64>(share * static_cast<double>(count_) + 0.5), seen = 0;
    wanted = std::clamp<u64>(wanted, 1, std::max<u64>(count_, 1));
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket)
      if ((seen += counts_[bucket]) >= wanted) return std::min(middle_of(bucket), max_);
    return max_;
  }

 private:
  static std::size_t bucket_of(u64 value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - 7);
    return (static_cast<std::size_t>(shift) << 6) + (value >> shift);
  }
  static u64 middle_of(std::size_t bucket) {
    if (bucket < 128) return bucket;
    const std::size_t shift = (bucket >> 6) - 1;
    return (((bucket & 63) | 64) << shift) + ((u64{1} << shift) >> 1);
  }

  std::vector<u64> counts_;
  u64 count_ = 0, max_ = 0;
};

}  // namespace tidewire::bench

// Traffic classes: what a published event gets from the first one whose filter it matches, as far as it carries none.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "permit.hpp"

namespace tidewire {

struct TrafficClass {
  u32 number;
  std::string filter;  // encoded
  std::optional<i64> ttl_ns;
  std::optional<double> value;
};

class Classes {
 public:
  // Throws if a filter is none; then nothing has changed.
  void set(const std::vector<TrafficClass>& classes, u64 seed, const SimdOps& simd);
  bool empty() const { return known_.empty(); }

  // A batch begins: what was made for the last one is no longer needed.
  void begin() { made_count_ = 0; }
  // The event with what it gets; itself, if that is nothing. It is whole, has no stamp, and its shape has this number.
  std::string_view completed(std::string_view event, const EventView& view, u64 shape);

 private:
  struct Known {
    TrafficClass what;
    std::unique_ptr<Permit> permit;  // nullptr: the index is asked
  };
  const TrafficClass* of(const EventView& view, u64 shape);
  std::string& room();

  std::vector<Known> known_;
  std::unique_ptr<Index> index_;  // if there are many
  std::vector<u32> found_;
  std::deque<std::string> made_;
  std::size_t made_count_ = 0;
};

}  // namespace tidewire

// Filters in normal form, read from msgpack and checked: every bound, order and type. Nothing is trusted.
#pragma once

#include <vector>

#include "number.hpp"

namespace tidewire {

// The numbers are those of tidewire.model.values.Kind.
enum class Kind : u8 {
  kAbsent = 0,
  kPresent = 1,
  kBool = 2,
  kNumber = 3,
  kString = 4,
  kTimestamp = 5,
  kBytes = 6,
  kAnyNumber = 7,
};

// [low, high] for bools, numbers and timestamps; [text_low, text_high) for strings and bytes.
struct Interval {
  Number low, high;
  i64 time_low = 0, time_high = 0;
  std::string_view text_low, text_high;
  bool has_high = false;
};

struct Constraint {
  std::string_view attribute;
  Kind kind = Kind::kAbsent;
  u32 interval_first = 0, interval_count = 0;
  u32 like_first = 0, like_count = 0;
  u32 unlike_first = 0, unlike_count = 0;
  std::string_view raw;  // the msgpack of the value set: equal sets, equal bytes
};

struct Area {
  bool is_circle = true, inside = true;
  std::string_view latitude, longitude;
  double center_lat = 0, center_lon = 0, radius_m = 0;
  std::vector<double> corners;  // lat, lon, lat, lon ...
  std::string_view raw;
};

struct Conjunction {
  u32 constraint_first = 0, constraint_count = 0;
  u32 area_first = 0, area_count = 0;
};

// A parsed filter; views point into the bytes it was parsed from. Reused from filter to filter.
struct FilterSpec {
  std::vector<Conjunction> conjunctions;
  std::vector<Constraint> constraints;
  std::vector<Interval> intervals;
  std::vector<std::string_view> patterns;
  std::vector<Area> areas;

  void clear();
};

// Throws KernelError("filter-damaged") for anything that is not a filter in normal form within its bounds.
void parse_filter(std::string_view msgpack, FilterSpec& into);

}  // namespace tidewire

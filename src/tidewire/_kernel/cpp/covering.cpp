#include "covering.hpp"

#include <algorithm>
#include <numbers>

#include "geo.hpp"
#include "pattern.hpp"

namespace tidewire {

namespace {

bool is_inside(Kind kind, const Interval& inner, const Interval& outer) {
  if (kind == Kind::kNumber) return outer.low <= inner.low && inner.high <= outer.high;
  if (kind == Kind::kBool || kind == Kind::kTimestamp)
    return outer.time_low <= inner.time_low && inner.time_high <= outer.time_high;
  if (inner.text_low < outer.text_low) return false;
  return !outer.has_high || (inner.has_high && inner.text_high <= outer.text_high);
}

bool is_text_point(const Interval& interval) {
  return interval.has_high && interval.text_high.size() == interval.text_low.size() + 1 &&
         interval.text_high.back() == '\0' && interval.text_high.starts_with(interval.text_low);
}

// Each pattern must hold (or fail) for all that the narrow set allows: it says so itself, or it has only a few members.
bool patterns_follow(const FilterSpec& wide, u32 first, u32 count, bool wanted, const FilterSpec& narrow,
                     const Constraint& inner) {
  const u32 said_first = wanted ? inner.like_first : inner.unlike_first;
  const u32 said_count = wanted ? inner.like_count : inner.unlike_count;
  const auto* said = narrow.patterns.data() + said_first;
  const auto* members = narrow.intervals.data() + inner.interval_first;
  const bool is_finite = std::all_of(members, members + inner.interval_count, is_text_point);
  for (u32 i = 0; i < count; ++i) {
    const std::string_view pattern = wide.patterns[first + i];
    if (std::find(said, said + said_count, pattern) != said + said_count) continue;
    if (!is_finite) return false;
    const Pattern compiled(pattern);
    for (u32 m = 0; m < inner.interval_count; ++m)
      if (compiled.matches(members[m].text_low) != wanted) return false;
  }
  return true;
}

bool set_covers(const FilterSpec& wide, const Constraint& outer, const FilterSpec& narrow, const Constraint& inner) {
  if (outer.kind == Kind::kPresent) return inner.kind != Kind::kAbsent;
  if (outer.kind == Kind::kAnyNumber) return inner.kind == Kind::kNumber || inner.kind == Kind::kAnyNumber;
  if (outer.kind != inner.kind) return false;
  if (outer.raw == inner.raw) return true;
  const Interval* room = wide.intervals.data() + outer.interval_first;
  const Interval* room_end = room + outer.interval_count;
  const Interval* member = narrow.intervals.data() + inner.interval_first;
  for (const Interval* end = member + inner.interval_count; member != end; ++member) {
    // Both lists are in order and have gaps between their intervals: a member fits into one room or none.
    while (room != room_end && !is_inside(outer.kind, *member, *room)) ++room;
    if (room == room_end) return false;
  }
  return patterns_follow(wide, outer.like_first, outer.like_count, true, narrow, inner) &&
         patterns_follow(wide, outer.unlike_first, outer.unlike_count, false, narrow, inner);
}

bool circle_covers(const Area& outer, const Area& inner) {
  if (!outer.is_circle || !inner.is_circle || !outer.inside || !inner.inside) return false;
  if (outer.latitude != inner.latitude || outer.longitude != inner.longitude) return false;
  constexpr double kEarthRadiusM = 6371008.8, kMarginM = 1.0;
  const UnitVector a = unit_vector(outer.center_lat, outer.center_lon), b = unit_vector(inner.center_lat, inner.center_lon);
  const double dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
  const double half = std::min(1.0, std::sqrt(dx * dx + dy * dy + dz * dz) / 2.0);
  return 2.0 * kEarthRadiusM * std::asin(half) + inner.radius_m + kMarginM <= outer.radius_m;
}

}  // namespace

bool covers(const FilterSpec& wide, const Conjunction& outer, const FilterSpec& narrow, const Conjunction& inner) {
  const Constraint* theirs = narrow.constraints.data() + inner.constraint_first;
  const Constraint* theirs_end = theirs + inner.constraint_count;
  for (u32 i = 0; i < outer.constraint_count; ++i) {
    const Constraint& ours = wide.constraints[outer.constraint_first + i];
    while (theirs != theirs_end && theirs->attribute < ours.attribute) ++theirs;
    if (theirs == theirs_end || theirs->attribute != ours.attribute) return false;
    if (!set_covers(wide, ours, narrow, *theirs)) return false;
  }
  for (u32 i = 0; i < outer.area_count; ++i) {
    const Area& ours = wide.areas[outer.area_first + i];
    const Area* areas = narrow.areas.data() + inner.area_first;
    const auto implies = [&](const Area& area) { return area.raw == ours.raw || circle_covers(ours, area); };
    if (std::none_of(areas, areas + inner.area_count, implies)) return false;
  }
  return true;
}

bool covers(const FilterSpec& wide, const FilterSpec& narrow) {
  return std::all_of(narrow.conjunctions.begin(), narrow.conjunctions.end(), [&](const Conjunction& inner) {
    return std::any_of(wide.conjunctions.begin(), wide.conjunctions.end(),
                       [&](const Conjunction& outer) { return covers(wide, outer, narrow, inner); });
  });
}

}  // namespace tidewire

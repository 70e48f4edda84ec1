#include "reach.hpp"

#include <algorithm>

namespace tidewire {

namespace {

constexpr u64 kEverything = ~u64{0};

bool is_two_sided(Form form) { return form == Form::kBoth || form == Form::kHull || form == Form::kSet; }

// A wider set is wider: where sets have two ends, their width tells most of them apart at once.
bool has_width(const Element& element) {
  return is_two_sided(element.form) && (element.kind == Kind::kNumber || element.kind == Kind::kTimestamp);
}

bool is_point(Kind kind, const Interval& interval) {
  if (kind == Kind::kNumber) return interval.low == interval.high;
  if (kind == Kind::kBool || kind == Kind::kTimestamp) return interval.time_low == interval.time_high;
  return interval.has_high && interval.text_high.size() == interval.text_low.size() + 1 &&
         interval.text_high.back() == '\0' && interval.text_high.starts_with(interval.text_low);
}

u64 bit_of(u64 hash) { return u64{1} << (hash >> 58) | u64{1} << (hash >> 52 & 63); }

u64 hash_of_low(Kind kind, const Interval& interval, u64 seed) {
  if (kind == Kind::kNumber)
    return hash_u64(key_of_double(interval.low.d) + static_cast<u64>(interval.low.r) * kMix0, seed);
  if (kind == Kind::kBool || kind == Kind::kTimestamp) return hash_u64(key_of_int(interval.time_low), seed);
  return hash_bytes(interval.text_low.data(), interval.text_low.size(), seed);
}

// Coarse keys; larger means further out on both sides.
Reach::Side side_of(const FilterSpec& spec, const Constraint& constraint) {
  if (constraint.interval_count == 0) return {kEverything, kEverything, kEverything};
  const Interval& first = spec.intervals[constraint.interval_first];
  const Interval& last = spec.intervals[constraint.interval_first + constraint.interval_count - 1];
  switch (constraint.kind) {
    case Kind::kNumber: {
      const double width = first.low.d == last.high.d ? 0.0 : last.high.d - first.low.d;
      return {~key_of_double(first.low.d), key_of_double(last.high.d), key_of_double(width)};
    }
    case Kind::kBool:
    case Kind::kTimestamp: {
      const u64 low = key_of_int(first.time_low), high = key_of_int(last.time_high);
      return {~low, high, high - low};
    }
    default: return {~key_of_string(first.text_low), last.has_high ? key_of_string(last.text_high) : kEverything, 0};
  }
}

Element element_of(const FilterSpec& spec, const Constraint& constraint, u64 seed) {
  Element element;
  element.attribute = hash_bytes(constraint.attribute.data(), constraint.attribute.size(), seed);
  element.kind = constraint.kind;
  switch (constraint.kind) {
    case Kind::kAbsent: element.form = Form::kAbsent; return element;
    case Kind::kPresent: element.form = Form::kPresent; return element;
    case Kind::kAnyNumber: element.form = Form::kAnyNumber; return element;
    default: break;
  }
  const bool is_plain = constraint.interval_count == 1 && constraint.like_count + constraint.unlike_count == 0;
  const Interval& only = spec.intervals[constraint.interval_first];
  bool from = false, to = false;
  switch (constraint.kind) {
    case Kind::kNumber:
      from = only.low.d != -kInfinity;
      to = only.high.d != kInfinity;
      break;
    case Kind::kBool:
    case Kind::kTimestamp:
      from = only.time_low != (constraint.kind == Kind::kBool ? 0 : std::numeric_limits<i64>::min());
      to = only.time_high != (constraint.kind == Kind::kBool ? 1 : std::numeric_limits<i64>::max());
      break;
    default:
      from = !only.text_low.empty();
      to = only.has_high;
  }
  if (!is_plain) {
    const Interval* first = &spec.intervals[constraint.interval_first];
    const bool is_set = constraint.like_count + constraint.unlike_count == 0 &&
                        std::all_of(first, first + constraint.interval_count,
                                    [&](const Interval& i) { return is_point(constraint.kind, i); });
    element.form = is_set ? Form::kSet : Form::kHull;
  } else if (is_point(constraint.kind, only)) {
    element.form = Form::kPoint;
    element.point = hash_bytes(constraint.raw.data(), constraint.raw.size(), seed);
  } else {
    element.form = from && to ? Form::kBoth : from ? Form::kLower : to ? Form::kUpper : Form::kKind;
  }
  return element;
}

void add_members(const FilterSpec& spec, const Constraint& constraint, const Element& element, Reach& into) {
  const Interval* first = spec.intervals.data() + constraint.interval_first;
  for (u32 i = 0; i < constraint.interval_count; ++i) {
    const u64 hash = hash_of_low(constraint.kind, first[i], element.attribute);
    into.member_bits |= bit_of(hash);
    into.members.push_back({element.attribute, hash});
  }
}

bool is_gap_of_one(Kind kind, const Interval& one, const Interval& next) {
  if (kind == Kind::kNumber) return before(before(next.low)) == one.high;
  if (kind == Kind::kTimestamp) return next.time_low - one.time_high == 2;
  return kind != Kind::kBool && next.text_low.size() == one.text_high.size() + 1 && next.text_low.back() == '\0' &&
         next.text_low.starts_with(one.text_high);
}

bool is_unbound(Kind kind, const Interval& first, const Interval& last) {
  using Time = std::numeric_limits<i64>;
  if (kind == Kind::kNumber) return first.low.d == -kInfinity && last.high.d == kInfinity;
  if (kind == Kind::kTimestamp) return first.time_low == Time::min() && last.time_high == Time::max();
  return first.text_low.empty() && !last.has_high;
}

// What a hull needs of those it covers, and has itself: its patterns, and its gaps of one value.
void add_needs(const FilterSpec& spec, const Constraint& constraint, u64 attribute, Reach::Side& side, Reach& into) {
  const Interval* first = spec.intervals.data() + constraint.interval_first;
  u64 bits = 0;
  const auto need = [&](u64 hash, Span& span) {
    bits |= bit_of(hash);
    span.add(hash);
  };
  for (u32 i = 0; i < constraint.like_count; ++i) {
    const std::string_view pattern = spec.patterns[constraint.like_first + i];
    need(hash_bytes(pattern.data(), pattern.size(), attribute), side.needs_patterns);
  }
  for (u32 i = 0; i < constraint.unlike_count; ++i) {
    const std::string_view pattern = spec.patterns[constraint.unlike_first + i];
    need(hash_bytes(pattern.data(), pattern.size(), ~attribute), side.needs_patterns);
  }
  // A gap of one value, in a set that has no other bounds, is like a pattern: who covers it must have no other gaps.
  bool only_points_lack = true;
  for (u32 i = 0; i + 1 < constraint.interval_count; ++i) {
    const bool is_one = is_gap_of_one(constraint.kind, first[i], first[i + 1]);
    only_points_lack &= is_one;
    if (is_one) need(hash_of_low(constraint.kind, first[i + 1], attribute + 1), side.needs_gaps);
  }
  const Interval& last = first[constraint.interval_count - 1];
  const bool has_only_these = only_points_lack && is_unbound(constraint.kind, *first, last);
  side.has_patterns = side.needs_patterns;  // its members alone could imply others, but then it would be a set
  if (has_only_these) side.has_gaps = side.needs_gaps;
  into.needs_bits |= bits;
  into.has_bits |= has_only_these ? bits : ~u64{0};
}

}  // namespace

bool could_cover(const Element& wide, const Element& narrow) {
  switch (wide.form) {
    case Form::kAbsent: return narrow.form == Form::kAbsent;
    case Form::kPresent: return narrow.form != Form::kAbsent;
    case Form::kAnyNumber: return narrow.form == Form::kAnyNumber || narrow.kind == Kind::kNumber;
    default: break;
  }
  if (wide.kind != narrow.kind) return false;
  switch (wide.form) {
    case Form::kKind: return true;
    case Form::kPoint: return narrow.form == Form::kPoint && narrow.point == wide.point;
    case Form::kSet: return narrow.form == Form::kPoint || narrow.form == Form::kSet;
    case Form::kLower: return narrow.form >= Form::kPoint && narrow.form != Form::kUpper;
    case Form::kUpper: return narrow.form >= Form::kPoint && narrow.form != Form::kLower;
    case Form::kBoth: return narrow.form >= Form::kPoint && narrow.form != Form::kLower && narrow.form != Form::kUpper;
    default: return narrow.form >= Form::kPoint;
  }
}

bool could_cover(const PatternKey& wide, const PatternKey& narrow) {
  std::size_t j = 0;
  for (const Element& element : wide) {
    while (j < narrow.size() && narrow[j].attribute < element.attribute) ++j;
    if (j == narrow.size() || narrow[j].attribute != element.attribute) return false;
    if (!could_cover(element, narrow[j])) return false;
  }
  return true;
}

void reach_of(const FilterSpec& spec, const Conjunction& conjunction, u64 seed, Reach& into) {
  into.needs_bits = into.has_bits = into.member_bits = 0;
  into.members.clear();
  const u32 count = conjunction.constraint_count;
  into.pattern.resize(count);
  into.sides.resize(count);
  for (u32 i = 0; i < count; ++i) {
    const Constraint& constraint = spec.constraints[conjunction.constraint_first + i];
    const Element element = element_of(spec, constraint, seed);
    u32 place = i;  // insertion sort: there are few
    for (; place > 0 && into.pattern[place - 1].attribute > element.attribute; --place) {
      into.pattern[place] = into.pattern[place - 1];
      into.sides[place] = into.sides[place - 1];
    }
    into.pattern[place] = element;
    into.sides[place] = side_of(spec, constraint);
    if (element.form == Form::kSet || element.form == Form::kPoint) add_members(spec, constraint, element, into);
    if (element.form == Form::kHull) add_needs(spec, constraint, element.attribute, into.sides[place], into);
  }
}

Dimensions dimensions_of(const PatternKey& pattern) {
  Dimensions found;
  for (const Element& element : pattern) {
    if (has_width(element)) ++found.preferred;
    if (element.form == Form::kHull) found.preferred += element.kind == Kind::kString ? 4 : 2;
    found.all += is_two_sided(element.form) ? 2 : element.form == Form::kLower || element.form == Form::kUpper ? 1 : 0;
  }
  found.all += found.preferred;
  return found;
}

void point_in(const PatternKey& pattern, const Reach& reach, Role role, std::vector<u64>& into) {
  constexpr Reach::Side kAnywhere{kEverything, kEverything, kEverything};
  const Dimensions dimensions = dimensions_of(pattern);
  into.resize(dimensions.all);
  u64* preferred = into.data();
  u64* further = into.data() + dimensions.preferred;
  std::size_t j = 0;
  for (const Element& element : pattern) {
    if (element.form < Form::kSet) continue;
    while (j < reach.pattern.size() && reach.pattern[j].attribute < element.attribute) ++j;
    const bool is_bound = j < reach.pattern.size() && reach.pattern[j].attribute == element.attribute;
    const Reach::Side& side = is_bound ? reach.sides[j] : kAnywhere;
    if (has_width(element)) *preferred++ = side.width;
    const auto add_span = [&](const Span& needs, const Span& has) {
      *preferred++ = role == Role::kWide ? needs.low : has.low;
      *preferred++ = ~(role == Role::kWide ? needs.high : has.high);
    };
    if (element.form == Form::kHull) add_span(side.needs_gaps, side.has_gaps);
    if (element.form == Form::kHull && element.kind == Kind::kString) add_span(side.needs_patterns, side.has_patterns);
    if (element.form != Form::kUpper) *further++ = side.low;
    if (element.form != Form::kLower) *further++ = side.high;
  }
}

// Where the narrow one is no hull itself, what the
// wide one needs may follow from its values, and every bit does.
u64 counted_bits(const PatternKey& wide, const PatternKey& narrow, u64 has) {
  std::size_t j = 0;
  for (const Element& element : wide) {
    if (element.form != Form::kHull) continue;
    while (j < narrow.size() && narrow[j].attribute < element.attribute) ++j;
    if (j == narrow.size() || narrow[j].attribute != element.attribute || narrow[j].form != Form::kHull) return ~u64{0};
  }
  return has;
}

// They are where the wide one is a set on all attributes on which the narrow one has any.
bool compares_members(const PatternKey& wide, const PatternKey& narrow) {
  std::size_t j = 0;
  for (const Element& element : narrow) {
    if (element.form != Form::kSet && element.form != Form::kPoint) continue;
    while (j < wide.size() && wide[j].attribute < element.attribute) ++j;
    if (j == wide.size() || wide[j].attribute != element.attribute) return false;
    if (wide[j].form != Form::kSet && wide[j].form != Form::kPoint) return false;
  }
  return true;
}

}  // namespace tidewire

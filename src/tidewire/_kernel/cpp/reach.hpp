// What a conjunction looks like to the covering order: its pattern, and how far out it reaches.
//
// Whatever is said here of two conjunctions is necessary for one to cover the other, never enough: a covering is always
// checked exactly in the end.
#pragma once

#include <vector>

#include "filter.hpp"

namespace tidewire {

// How a pattern binds one attribute.
// A set is given by its members; a hull has gaps or patterns, and is bound by its ends only roughly.
enum class Form : u8 { kAbsent, kPresent, kAnyNumber, kKind, kPoint, kSet, kLower, kUpper, kBoth, kHull };

struct Element {
  u64 attribute = 0;  // the hash of its name
  u64 point = 0;      // the hash of the value, for a point
  Kind kind = Kind::kAbsent;
  Form form = Form::kAbsent;
  friend bool operator==(const Element&, const Element&) = default;
};

using PatternKey = std::vector<Element>;  // sorted by attribute

// The least and the greatest of some hashes.
struct Span {
  u64 low, high;
  void add(u64 hash) {
    low = hash < low ? hash : low;
    high = hash > high ? hash : high;
  }
};
inline constexpr Span kNoHash{~u64{0}, 0}, kEveryHash{0, ~u64{0}};

// A member of a set (or the only one, of a point).
struct Member {
  u64 attribute, hash;
};

// A conjunction with its pattern, and how far out it reaches on both sides of each element, and from side to side.
struct Reach {
  struct Side {
    u64 low, high, width;
    // Of a hull, what it needs of those that it covers, and what it has for those that cover it.
    Span needs_patterns = kNoHash, has_patterns = kEveryHash;
    Span needs_gaps = kNoHash, has_gaps = kEveryHash;
  };
  PatternKey pattern;
  std::vector<Side> sides;
  std::vector<Member> members;
  // What cannot be put in order is told apart by bits, hashed: a hull covers another only if it needs no pattern or gap
  // that the other lacks, a set another only if it has its members.
  u64 needs_bits = 0, has_bits = 0, member_bits = 0;
};

void reach_of(const FilterSpec& spec, const Conjunction& conjunction, u64 seed, Reach& into);

// Could a conjunction of the first pattern cover one of the second?
bool could_cover(const Element& wide, const Element& narrow);
bool could_cover(const PatternKey& wide, const PatternKey& narrow);

// As what a conjunction is compared with others: hulls have other coordinates as the wide one.
enum class Role : u8 { kWide, kNarrow };

// How many coordinates the conjunctions of a pattern have. The preferred ones tell most of them apart and stand first.
struct Dimensions {
  u32 all = 0, preferred = 0;
};
Dimensions dimensions_of(const PatternKey& pattern);

// The coordinates of a conjunction for this pattern; where it is not bound it reaches everything.
void point_in(const PatternKey& pattern, const Reach& reach, Role role, std::vector<u64>& into);

// Which bits of the narrow one count, beside a wide one of this pattern?
u64 counted_bits(const PatternKey& wide, const PatternKey& narrow, u64 has);
// Are the members of the narrow one all among those of the wide one, if it is covered?
bool compares_members(const PatternKey& wide, const PatternKey& narrow);

}  // namespace tidewire

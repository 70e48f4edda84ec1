// The entries under one access key: a list that is scanned and, when it is full, emptied into segments.
#pragma once

#include <algorithm>
#include <utility>

#include "segment.hpp"

namespace tidewire {

inline constexpr u32 kListMin = 256, kListMax = 1024;  // a list is full between these, by the size of its cluster
inline constexpr u32 kNeedsCheck = 1u << 31;  // on an entry of a list: its program must be verified

// A test that a scan can do: is a number or a key in a range?
struct Range {
  u16 dimension = 0;  // into Context::numbers; 0: always passes
  double low = 0.0, high = 0.0;

  bool has(const double* numbers) const { return low <= numbers[dimension] && numbers[dimension] <= high; }
};

// The tests of an entry that a scan does.
struct Scanned {
  Range first, second;
  bool is_all = false;  // there is nothing else to verify
};

// A short list in columns, scanned with SIMD. Those of the second tests are there once an entry has one, behind a range
// that lies within all of them: who has the same bound beside many filters, as by a permission, mostly meets it.
class ShortList {
 public:
  ShortList() = default;
  ~ShortList() { delete[] memory_; }
  ShortList(ShortList&& other) noexcept { *this = std::move(other); }
  ShortList& operator=(ShortList&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(count_, other.count_);
    std::swap(room_, other.room_);
    std::swap(has_second_, other.has_second_);
    return *this;
  }

  u32 count() const { return count_; }
  bool has_second() const { return has_second_; }
  const Range& within_second() const { return *reinterpret_cast<const Range*>(memory_); }
  double* low() const { return reinterpret_cast<double*>(memory_ + (has_second_ ? kRangeBytes : 0)); }
  double* high() const { return low() + room_; }
  Target* target() const { return reinterpret_cast<Target*>(high() + room_); }
  u32* entry() const { return reinterpret_cast<u32*>(target() + room_); }
  u16* dimension() const { return reinterpret_cast<u16*>(entry() + room_); }
  double* second_low() const { return reinterpret_cast<double*>(memory_ + first_bytes()); }
  double* second_high() const { return second_low() + room_; }
  u16* second_dimension() const { return reinterpret_cast<u16*>(second_high() + room_); }
  const u8* memory() const { return memory_; }
  // What every scan reads is in front.
  u32 first_bytes() const { return has_second_ ? kRangeBytes + (room_ * kEntryBytes + 7) / 8 * 8 : room_ * kEntryBytes; }
  u32 memory_bytes() const { return first_bytes() + (has_second_ ? room_ * kSecondBytes : 0); }

  u32 add(u32 entry, Target target, const Scanned& tests);
  void set(u32 position, u32 entry, const Scanned& tests);
  // Fills the place with the last one; returns the entry that moved there (0: none).
  u32 remove(u32 position);

 private:
  static constexpr u32 kEntryBytes = 30, kSecondBytes = 18, kRangeBytes = sizeof(Range);
  void resize(u32 room, bool has_second);
  Range second(u32 position) const {
    return {second_dimension()[position], second_low()[position], second_high()[position]};
  }
  void set_second(u32 position, const Range& range);
  template <class Column>
  static void copy(const ShortList& from, const ShortList& to, Column column) {
    std::memcpy(column(to), column(from), from.count_ * sizeof *column(from));
  }

  u8* memory_ = nullptr;
  u16 count_ = 0, room_ = 0;
  bool has_second_ = false;
};

inline constexpr u32 kNoSegment = 0xFFFFFFFF;

// Entries that are to leave a segment: those of one shape, or all that are left.
struct Relocation {
  u32 from;
  u16 mark;
  u32 to = kNoSegment;  // where those that are left go, once it is there
};

struct Large {
  std::vector<std::unique_ptr<Segment>> segments;
  std::vector<Relocation> relocations;  // the next one last; each insertion and removal works off a little
  std::vector<u32> open;           // those with room
  std::vector<u64> open_shape;     // the shapes that these take; 0: any

  bool is_leaving(u32 number) const {
    return std::ranges::any_of(relocations, [&](const Relocation& relocation) { return relocation.from == number; });
  }
};

struct Cluster {
  ShortList list;
  std::unique_ptr<Large> large;
  u32 common[2] = {0, 0};  // keys, beside the access key, that every entry of the list requires
  u16 common_attribute[2] = {0, 0};
  u32 access_key = 0;        // 0 for a cluster of presence, or the root
  u32 access_attribute = 0;  // 0 for the root
  bool is_used = false;

  bool is_empty() const { return list.count() == 0 && large == nullptr; }
  bool is_list_full() const;
  bool requires_in_common(Record record) const {
    return record.op() == Op::kEqKey && (record.word(0) == access_key || record.word(0) == common[0] || record.word(0) == common[1]);
  }
  Scanned scanned_of(ProgramView program) const;
  // Adopts the keys of the first program of the list; drops those that this one lacks. True if some were dropped.
  bool narrow_common(ProgramView program);
  std::size_t bytes() const;
};

}  // namespace tidewire

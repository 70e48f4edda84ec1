// Who wants an entry. One word says it, the *target*: a single subscription, a few of them in an arena, or a crowd.
//
//   single  bit 63 clear: the destination in the high half, the number in the low half
//   few     bits 63..62 = 10: how many in bits 32..61, the arena's handle in the low half; six bytes each
//   crowd   bits 63..62 = 11: the number of a Crowd in the low half
#pragma once

#include "segment.hpp"
#include "storage.hpp"

namespace tidewire {

// On a number: it belongs to a subscription of several conjunctions and may be found more than once per event.
inline constexpr u32 kOneOfSeveral = 1u << 24;
inline constexpr u32 kDestinationMax = (1u << 20) - 1, kNumberMax = kOneOfSeveral - 1;
inline constexpr u32 kFewMax = 128, kFewBytes = 6;

inline Target single_target(u32 destination, u32 number) { return static_cast<u64>(destination) << 32 | number; }
inline bool is_few(Target target) { return target >> 62 == 2; }
inline bool is_crowd(Target target) { return target >> 62 == 3; }
inline u32 number_of(Target single) { return static_cast<u32>(single); }

// 20 bits of destination over 25 bits of number and mark.
inline Target load_few(const u8* at) {
  const u32 low = load<u32>(at), high = load<u16>(at + 4);
  return single_target(high << 7 | low >> 25, low & ((1u << 25) - 1));
}

// Many subscriptions, by destination.
class Crowd {
 public:
  struct Group {
    u32 destination = 0, count = 0, room = 0;
    u32 plain = 0;  // how many are not one of several
    std::unique_ptr<u32[]> numbers;
  };

  void add(u32 destination, u32 number);
  void remove(u32 destination, u32 number);
  u32 count() const { return count_; }
  // How many destinations have more matches here alone than would be named?
  u32 satisfied() const { return satisfied_; }
  const std::vector<Group>& groups() const { return groups_; }
  std::size_t bytes() const;

 private:
  Group* find(u32 destination);
  static u32 tag_of(u32 destination) { return TagTable::tag_of(hash_u64(destination, 0)); }

  u32 count_ = 0, satisfied_ = 0;
  std::vector<Group> groups_;
  TagTable places_;  // destination -> place in groups_ + 1
};

class Memberships {
 public:
  // The target with one more, or one fewer; the old one is no longer valid. 0 when the last one has gone.
  Target with(Target target, u32 destination, u32 number);
  Target without(Target target, u32 destination, u32 number);

  const u8* few(Target target) const { return arena_.at(static_cast<u32>(target)); }
  static u32 few_count(Target target) { return static_cast<u32>(target >> 32) & 0x3FFFFFFF; }
  const Crowd& crowd(Target target) const { return *crowds_[static_cast<u32>(target)]; }
  void prefetch_members(Target target) const {
    if (is_few(target)) prefetch(few(target));
  }
  std::size_t bytes() const;

 private:
  Target store_few(const Target* targets, u32 count);
  u32 take_few(Target target, Target* into);

  Arena arena_;
  Pool<std::unique_ptr<Crowd>, 8> crowds_;
};

}  // namespace tidewire

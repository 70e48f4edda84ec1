#include "cluster.hpp"

namespace tidewire {

void ShortList::resize(u32 room, bool has_second) {
  ShortList next;
  next.room_ = static_cast<u16>(room);
  next.has_second_ = has_second;
  next.memory_ = new u8[next.memory_bytes()];
  next.count_ = count_;
  if (count_ > 0) {
    copy(*this, next, [](const ShortList& list) { return list.low(); });
    copy(*this, next, [](const ShortList& list) { return list.high(); });
    copy(*this, next, [](const ShortList& list) { return list.target(); });
    copy(*this, next, [](const ShortList& list) { return list.entry(); });
    copy(*this, next, [](const ShortList& list) { return list.dimension(); });
  }
  if (has_second) {
    new (next.memory_) Range{};
    for (u32 i = 0; i < count_; ++i) next.set_second(i, has_second_ ? second(i) : Range{});
  }
  *this = std::move(next);
}

u32 ShortList::add(u32 entry, Target wanted_by, const Scanned& tests) {
  if (count_ == room_) resize(room_ < 4 ? room_ + 2u : room_ + room_ / 4u + 1u, has_second_ || tests.second.dimension != 0);
  const u32 position = count_++;
  target()[position] = wanted_by;
  set(position, entry, tests);
  return position;
}

void ShortList::set_second(u32 position, const Range& range) {
  second_low()[position] = range.low;
  second_high()[position] = range.high;
  second_dimension()[position] = range.dimension;
  if (range.dimension == 0) return;
  Range& within = *reinterpret_cast<Range*>(memory_);
  if (within.dimension == 0) within = range;
  else if (within.dimension != range.dimension) within.low = kInfinity;  // nothing is
  within.low = std::max(within.low, range.low);
  within.high = std::min(within.high, range.high);
}

void ShortList::set(u32 position, u32 number, const Scanned& tests) {
  if (tests.second.dimension != 0 && !has_second_) resize(room_, true);
  low()[position] = tests.first.low;
  high()[position] = tests.first.high;
  dimension()[position] = tests.first.dimension;
  entry()[position] = number | (tests.is_all ? 0 : kNeedsCheck);
  if (has_second_) set_second(position, tests.second);
}

u32 ShortList::remove(u32 position) {
  const u32 last = --count_;
  u32 moved = 0;
  if (position != last) {
    low()[position] = low()[last];
    high()[position] = high()[last];
    dimension()[position] = dimension()[last];
    target()[position] = target()[last];
    entry()[position] = entry()[last];
    if (has_second_) set_second(position, second(last));
    moved = entry()[position] & ~kNeedsCheck;
  }
  if (count_ == 0) *this = ShortList();
  else if (room_ > 8 && count_ < room_ / 2) resize(count_ + count_ / 4 + 1, has_second_);
  return moved;
}

// A small part of the cluster: scanning it costs little beside the segments, and emptying it in bulk is cheap.
bool Cluster::is_list_full() const {
  if (list.count() < kListMin) return false;
  if (list.count() >= kListMax) return true;
  if (list.count() % 64 != 0) return false;
  u32 total = 0;
  if (large != nullptr)
    for (const auto& segment : large->segments) total += segment ? segment->count() : 0;
  return list.count() >= total / 32;
}

Scanned Cluster::scanned_of(ProgramView program) const {
  Scanned tests;
  u32 rest = 0, taken = 0;
  program.each([&](Record record) {
    if (requires_in_common(record)) return;
    ++rest;
    if (taken == 2) return;
    Range& range = taken == 0 ? tests.first : tests.second;
    const auto number = static_cast<u16>(record.attribute() * 2);
    switch (record.op()) {
      case Op::kEqKey: range = {static_cast<u16>(number + 1), double(record.word(0)), double(record.word(0))}; break;
      case Op::kNumGe: range = {number, record.real(0), kInfinity}; break;
      case Op::kNumLe: range = {number, -kInfinity, record.real(0)}; break;
      case Op::kNumIn: range = {number, record.real(0), record.real(1)}; break;
      default: return;
    }
    ++taken;
  });
  tests.is_all = rest == taken;
  return tests;
}

bool Cluster::narrow_common(ProgramView program) {
  if (list.count() == 0) {
    u32 next = 0;
    common[0] = common[1] = 0;
    program.each([&](Record record) {
      if (next == 2 || record.op() != Op::kEqKey || record.word(0) == access_key) return;
      common[next] = record.word(0);
      common_attribute[next++] = record.attribute();
    });
    return false;
  }
  bool narrowed = false;
  for (u32& key : common) {
    if (key == 0) continue;
    bool found = false;
    program.each([&](Record record) { found |= record.op() == Op::kEqKey && record.word(0) == key; });
    if (!found) {
      key = 0;
      narrowed = true;
    }
  }
  return narrowed;
}

std::size_t Cluster::bytes() const {
  std::size_t total = list.memory_bytes();
  if (large == nullptr) return total;
  total += sizeof(Large) + large->segments.capacity() * sizeof(void*) + large->open.capacity() * (sizeof(u32) + sizeof(u64)) +
           large->relocations.capacity() * sizeof(Relocation);
  for (const auto& segment : large->segments)
    if (segment) total += segment->bytes();
  return total;
}

}  // namespace tidewire

#include "cluster.hpp"

namespace tidewire {

void ShortList::resize(u32 room) {
  auto* grown = new u8[std::size_t{room} * kEntryBytes];
  ShortList next;
  next.memory_ = grown;
  next.count_ = count_;
  next.room_ = static_cast<u16>(room);
  if (count_ > 0) {
    std::memcpy(next.low(), low(), count_ * sizeof(double));
    std::memcpy(next.high(), high(), count_ * sizeof(double));
    std::memcpy(next.target(), target(), count_ * sizeof(Target));
    std::memcpy(next.entry(), entry(), count_ * sizeof(u32));
    std::memcpy(next.dimension(), dimension(), count_ * sizeof(u16));
  }
  *this = std::move(next);
}

u32 ShortList::add(u32 entry, Target wanted_by, const Primary& primary) {
  if (count_ == room_) resize(room_ < 4 ? room_ + 2u : room_ + room_ / 4u + 1u);
  const u32 position = count_++;
  target()[position] = wanted_by;
  set(position, entry, primary);
  return position;
}

void ShortList::set(u32 position, u32 number, const Primary& primary) {
  low()[position] = primary.low;
  high()[position] = primary.high;
  dimension()[position] = primary.dimension;
  entry()[position] = number | (primary.is_all ? 0 : kNeedsCheck);
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
    moved = entry()[position] & ~kNeedsCheck;
  }
  if (count_ == 0) {
    delete[] memory_;
    memory_ = nullptr;
    room_ = 0;
  } else if (room_ > 8 && count_ < room_ / 2) {
    resize(count_ + count_ / 4 + 1);
  }
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

Primary Cluster::primary_of(ProgramView program) const {
  Primary best;
  u32 rest = 0;
  program.each([&](Record record) {
    if (requires_in_common(record)) return;
    ++rest;
    Primary found;
    const auto number = static_cast<u16>(record.attribute() * 2);
    switch (record.op()) {
      case Op::kEqKey: found = {static_cast<u16>(number + 1), double(record.word(0)), double(record.word(0)), true}; break;
      case Op::kNumGe: found = {number, record.real(0), kInfinity, true}; break;
      case Op::kNumLe: found = {number, -kInfinity, record.real(0), true}; break;
      case Op::kNumIn: found = {number, record.real(0), record.real(1), true}; break;
      default: return;
    }
    if (best.dimension == 0) best = found;
  });
  best.is_all = rest == 0 || (rest == 1 && best.dimension != 0);
  return best;
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

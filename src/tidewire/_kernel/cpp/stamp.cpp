#include "stamp.hpp"

namespace tidewire {

namespace {

constexpr u32 kAhead = 96;
static_assert(kAhead >= kDeliverMax);

}  // namespace

void Departure::begin(std::string_view event, const Stamp* stamp, const Hop& hop) {
  size_ = event.size() + (stamp != nullptr ? kStampBytes : 0);
  if (memory_.size() < kAhead + size_) memory_.resize(2 * (kAhead + size_));
  hop_ = hop;
  made_ = Made::kNothing;
  char* to = memory_.data() + kAhead;
  if (stamp == nullptr) {
    std::memcpy(to, event.data(), event.size());
    return;
  }
  std::memcpy(to, event.data(), kEventHeader);
  store(to + 2, static_cast<u16>(load<u16>(to + 2) | kStampBits));
  store(to + 8, static_cast<u32>(size_));
  if (const u32 body = load<u32>(to + 12)) store(to + 12, body + kStampBytes);
  store(to + kEventHeader, stamp->publisher);
  store(to + kEventHeader + 8, stamp->sequence);
  store(to + kEventHeader + 16, stamp->tree);
  std::memcpy(to + kEventHeader + kStampBytes, event.data() + kEventHeader, event.size() - kEventHeader);
}

std::string_view Departure::finished(u32 ahead, FrameKind kind) {
  char* at = memory_.data() + kAhead - ahead;
  store(at, static_cast<u32>(ahead - 4 + size_));
  at[4] = static_cast<char>(kind);
  store_hop(at + kFrameHead, hop_);
  return {at, ahead + size_};
}

std::string_view Departure::forward() {
  constexpr u32 ahead = kFrameHead + kHopBytes;
  if (made_ == Made::kForward) return {memory_.data() + kAhead - ahead, ahead + size_};
  made_ = Made::kForward;
  return finished(ahead, FrameKind::kForward);
}

std::string_view Departure::deliver(const u32* numbers, u32 count, bool more) {
  if (more) count = 0;
  const u32 ahead = kFrameHead + kHopBytes + 1 + 4 * count;
  char* event = memory_.data() + kAhead;
  if (made_ == Made::kDeliver && more == more_ && count == count_ &&
      (count == 0 || std::memcmp(event - 4 * count, numbers, 4 * count) == 0))
    return {event - ahead, ahead + size_};
  made_ = Made::kDeliver;
  more_ = more;
  count_ = count;
  if (count > 0) std::memcpy(event - 4 * count, numbers, 4 * count);
  event[-1 - static_cast<std::ptrdiff_t>(4 * count)] = static_cast<char>(more ? kMoreNumbers : count);
  return finished(ahead, FrameKind::kDeliver);
}

}  // namespace tidewire

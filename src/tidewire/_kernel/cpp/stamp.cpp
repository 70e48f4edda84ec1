#include "stamp.hpp"

namespace tidewire {

void Departure::begin(char* memory, std::string_view event, const Stamp* stamp, const Hop& hop) {
  size_ = event.size() + (stamp != nullptr ? kStampBytes : 0);
  hop_ = hop;
  made_ = Made::kNothing;
  char* to = event_ = memory + kAhead;
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
  char* at = event_ - ahead;
  store(at, static_cast<u32>(ahead - 4 + size_));
  at[4] = static_cast<char>(kind);
  store_hop(at + kFrameHead, hop_);
  return {at, ahead + size_};
}

std::string_view Departure::forward() {
  constexpr u32 ahead = kFrameHead + kHopBytes;
  if (made_ == Made::kForward) return {event_ - ahead, ahead + size_};
  made_ = Made::kForward;
  return finished(ahead, FrameKind::kForward);
}

void Departure::make_delivery(const u32* numbers, u32 count, bool more) {
  made_ = Made::kDeliver;
  more_ = more;
  count_ = count;
  char* to = event_ - 4 * std::size_t{count};
  if (count > 0) std::memcpy(to, numbers, 4 * std::size_t{count});
  to[-1] = static_cast<char>(more ? kMoreNumbers : count);
  finished(static_cast<u32>(deliver_size(0, count)), FrameKind::kDeliver);
}

}  // namespace tidewire

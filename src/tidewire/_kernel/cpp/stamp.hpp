// The frames in which one event leaves: the event stamped once, and ahead of it what each kind of frame has there.
#pragma once

#include <vector>

#include "event.hpp"
#include "frame.hpp"

namespace tidewire {

// What the first broker puts into the envelope: publisher, sequence and tree, the first three fields that are present.
struct Stamp {
  u64 publisher, sequence, tree;
};

inline constexpr u32 kStampBytes = 24;
inline constexpr u16 kStampBits = 1 << 0 | 1 << 1 | 1 << 4, kReservedBits = 0b11111;

class Departure {
 public:
  // The next event; its frames are made when they are asked for.
  void begin(std::string_view event, const Stamp* stamp, const Hop& hop);

  std::string_view forward();
  // Numbers ascending; `more`: too many to be named.
  std::string_view deliver(const u32* numbers, u32 count, bool more);

  static std::size_t forward_size(std::size_t event) { return kFrameHead + kHopBytes + event; }
  static std::size_t deliver_size(std::size_t event, u32 count) { return kFrameHead + kHopBytes + 1 + 4 * count + event; }
  std::size_t event_size() const { return size_; }

 private:
  std::string_view finished(u32 ahead, FrameKind kind);

  enum class Made : u8 { kNothing, kForward, kDeliver };
  std::vector<char> memory_ = std::vector<char>(4096);  // room for what is ahead of the event, then the event
  std::size_t size_ = 0;
  Hop hop_;
  Made made_ = Made::kNothing;
  u32 count_ = 0;
  bool more_ = false;
};

}  // namespace tidewire

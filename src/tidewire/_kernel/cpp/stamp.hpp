// The frames in which one event leaves: the event stamped once, and ahead of it what each kind of frame has there.
#pragma once

#include "event.hpp"
#include "frame.hpp"

namespace tidewire {

// What the first broker puts into the envelope: publisher, sequence and tree, the first three fields that are present.
struct Stamp {
  u64 publisher, sequence, tree;
};

inline constexpr u32 kStampBytes = 24;
inline constexpr u16 kStampBits = 1 << 0 | 1 << 1 | 1 << 4, kReservedBits = 0b11111;

// The frame in which an event is delivered to one subscription: as many bytes as Departure says.
inline void write_delivery(char* to, std::string_view event, const Hop& hop, u32 number) {
  constexpr u32 ahead = kFrameHead + kHopBytes + 1 + 4;
  store(to, static_cast<u32>(ahead - 4 + event.size()));
  to[4] = static_cast<char>(FrameKind::kDeliver);
  store_hop(to + kFrameHead, hop);
  to[ahead - 5] = 1;
  store(to + ahead - 4, number);
  std::memcpy(to + ahead, event.data(), event.size());
}

class Departure {
 public:
  // The event is written into the caller's memory, `room` bytes; its frames are made there when they are asked for.
  void begin(char* memory, std::string_view event, const Stamp* stamp, const Hop& hop);
  static std::size_t room(std::size_t event) { return kAhead + event; }

  std::string_view forward();
  // Numbers ascending, at most 16; `more`: too many to be named, and none are.
  std::string_view deliver(const u32* numbers, u32 count, bool more) {
    if (!is_made(numbers, count, more)) make_delivery(numbers, count, more);
    const std::size_t ahead = deliver_size(0, count);
    return {event_ - ahead, ahead + size_};
  }

  static std::size_t forward_size(std::size_t event) { return kFrameHead + kHopBytes + event; }
  static std::size_t deliver_size(std::size_t event, u32 count) { return kFrameHead + kHopBytes + 1 + 4 * count + event; }

 private:
  static constexpr u32 kAhead = 96;
  static_assert(kAhead >= kDeliverMax);

  // Equal deliveries to different connections are equal bytes, and mostly the last one is the next one.
  bool is_made(const u32* numbers, u32 count, bool more) const {
    if (made_ != Made::kDeliver || more_ != more || count_ != count) return false;
    const char* made = event_ - 4 * std::size_t{count};
    for (u32 i = 0; i < count; ++i)
      if (load<u32>(made + 4 * i) != numbers[i]) return false;
    return true;
  }
  void make_delivery(const u32* numbers, u32 count, bool more);
  std::string_view finished(u32 ahead, FrameKind kind);

  enum class Made : u8 { kNothing, kForward, kDeliver };
  char* event_ = nullptr;
  std::size_t size_ = 0;
  Hop hop_;
  Made made_ = Made::kNothing;
  bool more_ = false;
  u32 count_ = 0;
};

}  // namespace tidewire

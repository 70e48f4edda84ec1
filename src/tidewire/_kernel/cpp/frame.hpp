// Frames on a connection (docs/reference/wire.md): u32 length of what follows, u8 kind, payload.
#pragma once

#include "base.hpp"

namespace tidewire {

enum class FrameKind : u8 {
  kMessage = 1,
  kPublish = 2,
  kForward = 3,
  kDeliver = 4,
  kGuarantee = 5,
  kStream = 6,
  kRecover = 7,
  kReceipt = 8,
  kTaken = 9,
};

inline constexpr u32 kLengthBytes = 4, kFrameHead = 5;                  // length, and kind
inline constexpr u32 kLinkFrameBytes = 2u << 20;                        // a neighbour's may be as long, at least
inline constexpr u32 kBornBytes = 8, kHopBytes = 20;                    // what PUBLISH and FORWARD have ahead of the event
inline constexpr u32 kNumbersMax = 16, kMoreNumbers = 255;              // in a DELIVER
inline constexpr u32 kDeliverMax = kFrameHead + kHopBytes + 1 + 4 * kNumbersMax;  // ahead of the event, at most

inline std::size_t frame_size(const char* at) { return std::size_t{kLengthBytes} + load<u32>(at); }
inline FrameKind frame_kind(const char* at) { return static_cast<FrameKind>(at[4]); }

// born_ns and error_us are on the clock of whoever sends the frame.
struct Hop {
  i64 born_ns = 0;
  u32 error_us = 0;
  u64 position = 0;
};

inline Hop load_hop(const char* at) { return {load<i64>(at), load<u32>(at + 8), load<u64>(at + 12)}; }

inline void store_hop(char* at, const Hop& hop) {
  store(at, hop.born_ns);
  store(at + 8, hop.error_us);
  store(at + 12, hop.position);
}

}  // namespace tidewire

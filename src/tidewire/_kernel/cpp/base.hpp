// Small ground: integer names, unaligned access, hashing, and the error that every part throws.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tidewire {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

static_assert(std::endian::native == std::endian::little, "the encodings are little endian");

// Whose fault it is, by the stable code of tidewire.model.errors.
struct KernelError : std::runtime_error {
  const char* code;
  KernelError(const char* code_, const std::string& message) : std::runtime_error(message), code(code_) {}
};

template <class T>
inline T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
inline void store(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline u64 mix(u64 a, u64 b) {
  __extension__ using u128 = unsigned __int128;
  u128 product = static_cast<u128>(a) * b;
  return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
}

inline constexpr u64 kMix0 = 0xa0761d6478bd642fULL;
inline constexpr u64 kMix1 = 0xe7037ed1a0b428dbULL;

inline u64 hash_u64(u64 value, u64 seed) { return mix(value ^ kMix0, seed ^ kMix1); }

inline u64 hash_bytes(const void* data, std::size_t size, u64 seed) {
  const auto* at = static_cast<const u8*>(data);
  u64 state = seed ^ mix(size ^ kMix0, kMix1);
  while (size > 16) {
    state = mix(load<u64>(at) ^ kMix1, load<u64>(at + 8) ^ state);
    at += 16;
    size -= 16;
  }
  u64 head = 0, tail = 0;
  if (size >= 8) {
    head = load<u64>(at);
    tail = load<u64>(at + size - 8);
  } else if (size >= 4) {
    head = load<u32>(at);
    tail = load<u32>(at + size - 4);
  } else if (size > 0) {
    head = (static_cast<u64>(at[0]) << 16) | (static_cast<u64>(at[size >> 1]) << 8) | at[size - 1];
  }
  return mix(head ^ kMix0, tail ^ state ^ kMix1);
}

inline void prefetch(const void* address) { __builtin_prefetch(address); }

// One contract for text from outside: shortest form, no surrogates, nothing beyond U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace tidewire

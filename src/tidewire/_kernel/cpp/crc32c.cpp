#include "crc32c.hpp"

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tidewire {

namespace {

constexpr u32 kPolynomial = 0x82F63B78;  // reflected

using Tables = std::array<std::array<u32, 256>, 8>;

// Table t: what a byte does to the CRC from t bytes further ahead.
constexpr Tables make_tables() {
  Tables made{};
  for (u32 byte = 0; byte < 256; ++byte) {
    u32 crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    made[0][byte] = crc;
  }
  for (u32 t = 1; t < 8; ++t)
    for (u32 byte = 0; byte < 256; ++byte) made[t][byte] = made[t - 1][byte] >> 8 ^ made[0][made[t - 1][byte] & 0xFF];
  return made;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) u32 crc32c_sse42(u32 before, const void* data, std::size_t size) {
  const auto* at = static_cast<const u8*>(data);
  u64 crc = ~before;
  for (; size >= 8; at += 8, size -= 8) crc = _mm_crc32_u64(crc, load<u64>(at));
  auto rest = static_cast<u32>(crc);
  for (; size > 0; ++at, --size) rest = _mm_crc32_u8(rest, *at);
  return ~rest;
}
#endif

using Path = u32 (*)(u32, const void*, std::size_t);

Path choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42;
#endif
  return crc32c_portable;
}

const Path kPath = choose();

}  // namespace

u32 crc32c_portable(u32 before, const void* data, std::size_t size) {
  const auto* at = static_cast<const u8*>(data);
  u32 crc = ~before;
  for (; size >= 8; at += 8, size -= 8) {
    const u64 word = load<u64>(at) ^ crc;
    crc = 0;
    for (u32 i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> 8 * i & 0xFF];
  }
  for (; size > 0; ++at, --size) crc = crc >> 8 ^ kTables[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

u32 crc32c(u32 before, const void* data, std::size_t size) { return kPath(before, data, size); }

bool crc32c_has_instruction() { return kPath != crc32c_portable; }

}  // namespace tidewire

#include "base.hpp"

namespace tidewire {

namespace {

// The length of the well-formed character at `at`, or 0.
std::size_t character_length(const u8* at, const u8* end) {
  const u8 lead = at[0];
  if (lead < 0x80) return 1;
  const auto left = static_cast<std::size_t>(end - at);
  const auto follows = [&](std::size_t i) { return i < left && (at[i] & 0xC0) == 0x80; };
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    if (lead == 0xE0 && at[1] < 0xA0) return 0;
    if (lead == 0xED && at[1] > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (lead == 0xF0 && at[1] < 0x90) return 0;
    if (lead == 0xF4 && at[1] > 0x8F) return 0;
    return 4;
  }
  return 0;
}

// Most text is: looked at in words that may overlap, without a loop if it is short.
bool is_ascii(std::string_view text) {
  constexpr u64 kHigh = 0x8080808080808080ULL;
  const char* at = text.data();
  const std::size_t size = text.size();
  if (size >= 8) {
    u64 seen = load<u64>(at + size - 8);
    for (std::size_t i = 0; i + 8 < size; i += 8) seen |= load<u64>(at + i);
    return (seen & kHigh) == 0;
  }
  if (size >= 4) return ((load<u32>(at) | load<u32>(at + size - 4)) & static_cast<u32>(kHigh)) == 0;
  u8 seen = 0;
  for (std::size_t i = 0; i < size; ++i) seen |= static_cast<u8>(at[i]);
  return seen < 0x80;
}

}  // namespace

bool is_utf8(std::string_view text) {
  if (is_ascii(text)) return true;
  const auto* at = reinterpret_cast<const u8*>(text.data());
  const u8* end = at + text.size();
  while (at < end) {
    if (end - at >= 8 && (load<u64>(at) & 0x8080808080808080ULL) == 0) {
      at += 8;
      continue;
    }
    const std::size_t length = character_length(at, end);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace tidewire

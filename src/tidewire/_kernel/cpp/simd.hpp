// The two inner loops, in three widths that give the same answers; the widest that the machine has is chosen at start.
#pragma once

#include "base.hpp"

namespace tidewire {

inline constexpr u32 kBlockEntries = 512, kLineBytes = 64, kBlockWords = 8, kBlockSpare = 2;

// Writes the places of the bits, counted from `first`; returns behind the last. Most words have few bits, and how many
// cannot be guessed: two are written in any case. (Not `inline`: each width compiles its own.)
[[maybe_unused]] static u32* put_places(u64 bits, u32 first, u32* out) {
  if (bits == 0) return out;
  u32* const end = out + __builtin_popcountll(bits);
  out[0] = first + static_cast<u32>(__builtin_ctzll(bits));
  bits &= bits - 1;
  out[1] = first + static_cast<u32>(__builtin_ctzll(bits | 1ULL << 63));
  for (out += 2, bits &= bits - 1; bits != 0; bits &= bits - 1) *out++ = first + static_cast<u32>(__builtin_ctzll(bits));
  return end;
}

struct SimdOps {
  const char* name;

  // For each block: candidates = alive & every candidate line; sure = candidates & sure line & every definite line.
  // A block begins with its alive line and its sure line; offsets are bytes from the block's start.
  // Writes the positions of the sure ones and of the other candidates, and moves both pointers behind them; there must be
  // room for kBlockSpare more than can be found.
  void (*find)(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
               u32 dimensions, u32*& sure, u32*& unsure);

  // Bit i of out: low[i] <= values[dimension[i]] <= high[i]. out has room for a whole last word.
  void (*scan)(const double* low, const double* high, const u16* dimension, u32 count, const double* values, u64* out);
};

const SimdOps& simd_scalar();
const SimdOps* simd_avx2();
const SimdOps* simd_avx512();

// The widest that this machine has, or the one with this name; nullptr if it has none of that name.
const SimdOps* choose_simd(std::string_view name);

}  // namespace tidewire

// The two inner loops, in three widths that give the same answers; the widest that the machine has is chosen at start.
#pragma once

#include "base.hpp"

namespace tidewire {

inline constexpr u32 kBlockEntries = 512, kLineBytes = 64, kBlockWords = 8;

struct SimdOps {
  const char* name;

  // For each block: candidates = alive & every candidate line; sure = candidates & sure line & every definite line.
  // A block begins with its alive line and its sure line; offsets are bytes from the block's start.
  // out: per block 8 words of candidates, then 8 words of sure. Returns whether any block has a candidate.
  bool (*block_masks)(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
                      u32 dimensions, u64* out);

  // Bit i of out: low[i] <= values[dimension[i]] <= high[i]. out has room for a whole last word.
  void (*scan)(const double* low, const double* high, const u16* dimension, u32 count, const double* values, u64* out);
};

const SimdOps& simd_scalar();
const SimdOps* simd_avx2();
const SimdOps* simd_avx512();

// The widest that this machine has, or the one with this name; nullptr if it has none of that name.
const SimdOps* choose_simd(std::string_view name);

}  // namespace tidewire

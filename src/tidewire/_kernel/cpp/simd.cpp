#include "simd.hpp"

namespace tidewire {

namespace {

bool block_masks(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
                 u32 dimensions, u64* out) {
  u64 any = 0;
  for (u32 b = 0; b < block_count; ++b, out += 2 * kBlockWords) {
    u64 candidates[kBlockWords], sure[kBlockWords];
    std::memcpy(candidates, blocks[b], kLineBytes);
    std::memcpy(sure, blocks[b] + kLineBytes, kLineBytes);
    for (u32 d = 0; d < dimensions; ++d)
      for (u32 w = 0; w < kBlockWords; ++w) {
        candidates[w] &= load<u64>(blocks[b] + candidate_offsets[d] + 8 * w);
        sure[w] &= load<u64>(blocks[b] + definite_offsets[d] + 8 * w);
      }
    for (u32 w = 0; w < kBlockWords; ++w) {
      any |= candidates[w];
      out[w] = candidates[w];
      out[kBlockWords + w] = candidates[w] & sure[w];
    }
  }
  return any != 0;
}

void scan(const double* low, const double* high, const u16* dimension, u32 count, const double* values, u64* out) {
  for (u32 i = 0; i < count; i += 64) {
    const u32 end = count - i < 64 ? count - i : 64;
    u64 word = 0;
    for (u32 j = 0; j < end; ++j) {
      const double value = values[dimension[i + j]];
      word |= static_cast<u64>(low[i + j] <= value && value <= high[i + j]) << j;
    }
    out[i / 64] = word;
  }
}

}  // namespace

const SimdOps& simd_scalar() {
  static const SimdOps ops{"scalar", block_masks, scan};
  return ops;
}

#if !defined(__x86_64__)
const SimdOps* simd_avx2() { return nullptr; }
const SimdOps* simd_avx512() { return nullptr; }
#endif

const SimdOps* choose_simd(std::string_view name) {
  const SimdOps* avx2 = nullptr;
  const SimdOps* avx512 = nullptr;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) avx2 = simd_avx2();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    avx512 = simd_avx512();
#endif
  if (name.empty()) return avx512 != nullptr ? avx512 : avx2 != nullptr ? avx2 : &simd_scalar();
  if (name == "avx512") return avx512;
  if (name == "avx2") return avx2;
  return name == "scalar" ? &simd_scalar() : nullptr;
}

}  // namespace tidewire

#include "simd.hpp"

namespace tidewire {

namespace {

void find(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
          u32 dimensions, u32*& sure, u32*& unsure) {
  for (u32 b = 0; b < block_count; ++b)
    for (u32 w = 0; w < kBlockWords; ++w) {
      const u8* block = blocks[b] + 8 * w;
      u64 candidates = load<u64>(block), definite = load<u64>(block + kLineBytes);
      for (u32 d = 0; d < dimensions; ++d) {
        candidates &= load<u64>(block + candidate_offsets[d]);
        definite &= load<u64>(block + definite_offsets[d]);
      }
      const u32 first = b * kBlockEntries + w * 64;
      sure = put_places(candidates & definite, first, sure);
      unsure = put_places(candidates & ~definite, first, unsure);
    }
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
  static const SimdOps ops{"scalar", find, scan};
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

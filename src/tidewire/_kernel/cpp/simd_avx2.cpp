#if defined(__x86_64__)

#include <immintrin.h>

#include "simd.hpp"

namespace tidewire {

namespace {

void find(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
          u32 dimensions, u32*& sure, u32*& unsure) {
  for (u32 b = 0; b < block_count; ++b)
    for (u32 half = 0; half < 2; ++half) {
      const u8* block = blocks[b] + 32 * half;
      const auto line = [&](u32 offset) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(block + offset)); };
      __m256i candidates = line(0), definite = line(kLineBytes);
      for (u32 d = 0; d < dimensions; ++d) {
        candidates = _mm256_and_si256(candidates, line(candidate_offsets[d]));
        definite = _mm256_and_si256(definite, line(definite_offsets[d]));
      }
      if (_mm256_testz_si256(candidates, candidates)) continue;
      alignas(32) u64 found[4], other[4];
      _mm256_store_si256(reinterpret_cast<__m256i*>(found), _mm256_and_si256(candidates, definite));
      _mm256_store_si256(reinterpret_cast<__m256i*>(other), _mm256_andnot_si256(definite, candidates));
      for (u32 w = 0; w < 4; ++w) {
        const u32 first = b * kBlockEntries + half * 256 + w * 64;
        sure = put_places(found[w], first, sure);
        unsure = put_places(other[w], first, unsure);
      }
    }
}

u32 four(const double* low, const double* high, const u16* dimension, const double* values) {
  const __m128i index = _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(dimension)));
  const __m256d every = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
  const __m256d value = _mm256_mask_i32gather_pd(_mm256_setzero_pd(), values, index, every, 8);
  const __m256d above = _mm256_cmp_pd(_mm256_loadu_pd(low), value, _CMP_LE_OQ);
  const __m256d below = _mm256_cmp_pd(value, _mm256_loadu_pd(high), _CMP_LE_OQ);
  return static_cast<u32>(_mm256_movemask_pd(_mm256_and_pd(above, below)));
}

void scan(const double* low, const double* high, const u16* dimension, u32 count, const double* values, u64* out) {
  for (u32 i = 0; i < count; i += 64) {
    const u32 end = count - i < 64 ? count - i : 64;
    u64 word = 0;
    u32 j = 0;
    for (; j + 4 <= end; j += 4)
      word |= static_cast<u64>(four(low + i + j, high + i + j, dimension + i + j, values)) << j;
    for (; j < end; ++j) {
      const double value = values[dimension[i + j]];
      word |= static_cast<u64>(low[i + j] <= value && value <= high[i + j]) << j;
    }
    out[i / 64] = word;
  }
}

}  // namespace

const SimdOps* simd_avx2() {
  static const SimdOps ops{"avx2", find, scan};
  return &ops;
}

}  // namespace tidewire

#endif

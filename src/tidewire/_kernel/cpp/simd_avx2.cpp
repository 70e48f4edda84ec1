#if defined(__x86_64__)

#include <immintrin.h>

#include "simd.hpp"

namespace tidewire {

namespace {

bool block_masks(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
                 u32 dimensions, u64* out) {
  __m256i any = _mm256_setzero_si256();
  for (u32 b = 0; b < block_count; ++b, out += 2 * kBlockWords) {
    const u8* block = blocks[b];
    for (u32 half = 0; half < 2; ++half) {
      const auto line = [&](u32 offset) {
        return _mm256_load_si256(reinterpret_cast<const __m256i*>(block + offset + 32 * half));
      };
      __m256i candidates = line(0), sure = line(kLineBytes);
      for (u32 d = 0; d < dimensions; ++d) {
        candidates = _mm256_and_si256(candidates, line(candidate_offsets[d]));
        sure = _mm256_and_si256(sure, line(definite_offsets[d]));
      }
      any = _mm256_or_si256(any, candidates);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4 * half), candidates);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + kBlockWords + 4 * half), _mm256_and_si256(candidates, sure));
    }
  }
  return _mm256_testz_si256(any, any) == 0;
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
  static const SimdOps ops{"avx2", block_masks, scan};
  return &ops;
}

}  // namespace tidewire

#endif

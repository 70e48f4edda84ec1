#if defined(__x86_64__)

#include <immintrin.h>

#include "simd.hpp"

namespace tidewire {

namespace {

void find(const u8* const* blocks, u32 block_count, const u32* candidate_offsets, const u32* definite_offsets,
          u32 dimensions, u32*& sure, u32*& unsure) {
  u32 *next_sure = sure, *next_unsure = unsure;
  for (u32 b = 0; b < block_count; ++b) {
    const u8* block = blocks[b];
    __m512i candidates = _mm512_load_si512(block), definite = _mm512_load_si512(block + kLineBytes);
    for (u32 d = 0; d < dimensions; ++d) {
      candidates = _mm512_and_si512(candidates, _mm512_load_si512(block + candidate_offsets[d]));
      definite = _mm512_and_si512(definite, _mm512_load_si512(block + definite_offsets[d]));
    }
    if (_mm512_test_epi64_mask(candidates, candidates) == 0) continue;
    alignas(kLineBytes) u64 found[kBlockWords], other[kBlockWords];
    const __m512i both = _mm512_and_si512(candidates, definite);
    _mm512_store_si512(found, both);
    _mm512_store_si512(other, _mm512_xor_si512(candidates, both));
    for (u32 w = 0; w < kBlockWords; ++w) {
      const u32 first = b * kBlockEntries + w * 64;
      next_sure = put_places(found[w], first, next_sure);
      next_unsure = put_places(other[w], first, next_unsure);
    }
  }
  sure = next_sure;
  unsure = next_unsure;
}

void scan(const double* low, const double* high, const u16* dimension, u32 count, const double* values, u64* out) {
  for (u32 i = 0; i < count; i += 64) {
    const u32 end = count - i < 64 ? count - i : 64;
    u64 word = 0;
    for (u32 j = 0; j < end; j += 8) {
      const u32 left = end - j;
      const __mmask8 lanes = left >= 8 ? 0xFF : static_cast<__mmask8>((1u << left) - 1);
      const __m256i index = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(lanes, dimension + i + j));
      const __m512d value = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), lanes, index, values, 8);
      const __mmask8 above = _mm512_mask_cmp_pd_mask(lanes, _mm512_maskz_loadu_pd(lanes, low + i + j), value, _CMP_LE_OQ);
      const __mmask8 both = _mm512_mask_cmp_pd_mask(above, value, _mm512_maskz_loadu_pd(lanes, high + i + j), _CMP_LE_OQ);
      word |= static_cast<u64>(both) << j;
    }
    out[i / 64] = word;
  }
}

}  // namespace

const SimdOps* simd_avx512() {
  static const SimdOps ops{"avx512", find, scan};
  return &ops;
}

}  // namespace tidewire

#endif

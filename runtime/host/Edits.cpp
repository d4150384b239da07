// What somebody wrote into a rounded parameter, taken into its float32 master.
#include "Status.h"
#include "altgrad/altgrad.h"

#include <cstring>
#include <immintrin.h>

using altgrad::runtime::fail;

namespace {

// Every machine that runs a step has these: x86-64-v3.
#define ALTGRAD_V3 __attribute__((target("avx2,f16c")))

struct BFloat16 {
  ALTGRAD_V3 static __m256 widen(__m128i codes) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
  }
  // To nearest even. NaN may become anything: who asks looks for it himself.
  ALTGRAD_V3 static __m256 round(__m256 number) {
    __m256i bits = _mm256_castps_si256(number);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(int(0xffff0000))));
  }
};

struct Float16 {
  ALTGRAD_V3 static __m256 widen(__m128i codes) { return _mm256_cvtph_ps(codes); }
  ALTGRAD_V3 static __m256 round(__m256 number) { return widen(_mm256_cvtps_ph(number, _MM_FROUND_TO_NEAREST_INT)); }
};

// Where the parameter is not the rounded master, the master becomes it.
template <typename Type> ALTGRAD_V3 void takeEight(const uint16_t *param, float *master) {
  __m128i codes;
  std::memcpy(&codes, param, sizeof codes);
  __m256 edited = Type::widen(codes), kept = _mm256_loadu_ps(master);
  __m256 differs =
      _mm256_or_ps(_mm256_cmp_ps(edited, Type::round(kept), _CMP_NEQ_UQ), _mm256_cmp_ps(kept, kept, _CMP_UNORD_Q));
  _mm256_storeu_ps(master, _mm256_blendv_ps(kept, edited, differs));
}

template <typename Type> ALTGRAD_V3 void take(const uint16_t *param, float *master, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    takeEight<Type>(param + i, master + i);
  if (i == count)
    return;
  uint16_t lastParam[8] = {};
  float lastMaster[8] = {};
  std::memcpy(lastParam, param + i, size_t(count - i) * sizeof *param);
  std::memcpy(lastMaster, master + i, size_t(count - i) * sizeof *master);
  takeEight<Type>(lastParam, lastMaster);
  std::memcpy(master + i, lastMaster, size_t(count - i) * sizeof *master);
}

} // namespace

altgrad_status altgrad_take_edits(const char *format, const void *param, float *master, int64_t count) {
  bool brain = format && std::strcmp(format, "bf16") == 0;
  if (!brain && (!format || std::strcmp(format, "f16") != 0))
    return fail(ALTGRAD_INVALID, "a parameter beside a master is in '%s', not bf16 or f16", format ? format : "");
  if (count < 0 || (count > 0 && (!param || !master)))
    return fail(ALTGRAD_INVALID, "%lld edits to take, from %p to %p", static_cast<long long>(count), param,
                static_cast<void *>(master));
  auto *codes = static_cast<const uint16_t *>(param);
  brain ? take<BFloat16>(codes, master, count) : take<Float16>(codes, master, count);
  return ALTGRAD_OK;
}

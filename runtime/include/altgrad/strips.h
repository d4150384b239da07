// Parts of products: the matrices of a batch, and the strips of a symmetric one, for whoever multiplies them.
#ifndef ALTGRAD_STRIPS_H
#define ALTGRAD_STRIPS_H

#include "altgrad/altgrad.h"

#include <algorithm>

namespace altgrad {

// The same matrix or batch from a later element on. NULL stays.
inline char *moved(const void *data, const altgrad_gemm &gemm, int64_t elements) {
  return data ? static_cast<char *>(const_cast<void *>(data)) + elements * (gemm.type == ALTGRAD_GEMM_F32 ? 4 : 2)
              : nullptr;
}

// One product of a batch.
inline altgrad_gemm matrixOf(const altgrad_gemm &gemm, int64_t index) {
  altgrad_gemm one = gemm;
  one.batch = 1;
  one.a = moved(gemm.a, gemm, index * gemm.a_matrix), one.b = moved(gemm.b, gemm, index * gemm.b_matrix);
  one.c = moved(gemm.c, gemm, index * gemm.c_matrix), one.d = moved(gemm.d, gemm, index * gemm.c_matrix);
  return one;
}

// How many rows each of `strips` has: strips begin where tensor cores load whole pieces.
inline int64_t stripRows(const altgrad_gemm &gemm) {
  constexpr int64_t aligned = 64;
  return (gemm.m + aligned * gemm.strips - 1) / (aligned * gemm.strips) * aligned;
}

// Calls multiply(strip, begin) for strips of so many rows of a symmetric product, each up to the diagonal, until one
// fails.
template <typename Multiply>
altgrad_status multiplyStrips(const altgrad_gemm &gemm, int64_t rows, Multiply multiply) {
  for (int64_t begin = 0; begin < gemm.m; begin += rows) {
    altgrad_gemm strip = gemm;
    strip.m = std::min(rows, gemm.m - begin);
    strip.n = begin + strip.m;
    strip.a = moved(gemm.a, gemm, begin * gemm.a_row);
    strip.c = moved(gemm.c, gemm, begin * gemm.c_row), strip.d = moved(gemm.d, gemm, begin * gemm.c_row);
    strip.shift = strip.strips = 0;
    if (altgrad_status status = multiply(strip, begin))
      return status;
  }
  return ALTGRAD_OK;
}

} // namespace altgrad

#endif // ALTGRAD_STRIPS_H

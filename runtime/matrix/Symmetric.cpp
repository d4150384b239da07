// Products that are symmetric: half of the work, and a mirror.
#include "matrix/Multiply.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::runtime;

namespace {

// With s strips a product takes (1 + 1 / s) / 2 of the operations. Narrower strips run less well in a library.
constexpr int64_t narrowest = 64, narrowestOf16 = 256, mostStrips = 8;
// Lines of a tile, which a mirror takes through a block of its own: columns of a matrix are in too few sets of a cache.
constexpr int64_t tile = 16;

int64_t hostRows(const altgrad_gemm &gemm) {
  const int64_t n = gemm.m, least = gemm.type == ALTGRAD_GEMM_F32 ? narrowest : narrowestOf16;
  const int64_t strips = std::clamp<int64_t>(n / least, 1, mostStrips);
  return (n + strips - 1) / strips;
}

struct Mirror {
  const altgrad_gemm &gemm;
  int64_t tiles; // along a side
  float shift;
  bool copies;
};

// A whole tile away from the diagonal. Loops that are known are vectors.
template <typename Code> void copyTile(Code *c, int64_t n, int64_t row, int64_t column) {
  Code from[tile][tile], to[tile][tile];
  for (int64_t j = 0; j < tile; ++j)
    memcpy(from[j], c + (column + j) * n + row, sizeof from[j]);
  for (int64_t i = 0; i < tile; ++i)
    for (int64_t j = 0; j < tile; ++j)
      to[i][j] = from[j][i];
  for (int64_t i = 0; i < tile; ++i)
    memcpy(c + (row + i) * n + column, to[i], sizeof to[i]);
}

template <typename Code> void copyAcross(Code *c, int64_t n, int64_t row, int64_t column) {
  const int64_t rows = std::min(tile, n - row), columns = std::min(tile, n - column);
  // A line of each row of the next tile is far from those of this one.
  for (int64_t j = column + tile; j < std::min(column + 2 * tile, n); ++j)
    __builtin_prefetch(c + j * n + row);
  if (column > row && rows == tile && columns == tile)
    return copyTile(c, n, row, column);
  Code block[tile][tile];
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      block[i][j] = c[(column + j) * n + row + i];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = std::max<int64_t>(row + i + 1 - column, 0); j < columns; ++j)
      c[(row + i) * n + column + j] = block[i][j];
}

template <typename Number> void addToDiagonal(Number *c, int64_t n, int64_t row, float shift) {
  for (int64_t i = row; i < std::min(row + tile, n); ++i)
    c[i * n + i] = Number(float(c[i * n + i]) + shift);
}

// Without the instructions, a compiler calls functions of a libgcc_s that is newer than the oldest glibc we run on has.
template __attribute__((target("avx2,f16c"))) void addToDiagonal(_Float16 *, int64_t, int64_t, float);

// Each item is a row of tiles of one matrix.
void mirrorRows(int64_t begin, int64_t end, void *context) {
  const Mirror &mirror = *static_cast<const Mirror *>(context);
  const altgrad_gemm &gemm = mirror.gemm;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t n = gemm.m, row = item % mirror.tiles * tile;
    void *matrix = altgrad::moved(gemm.c, gemm, item / mirror.tiles * gemm.c_matrix);
    for (int64_t column = row; mirror.copies && column < n; column += tile)
      if (gemm.type == ALTGRAD_GEMM_F32)
        copyAcross((uint32_t *)matrix, n, row, column);
      else
        copyAcross((uint16_t *)matrix, n, row, column);
    if (mirror.shift != 0 && gemm.type == ALTGRAD_GEMM_F32)
      addToDiagonal((float *)matrix, n, row, mirror.shift);
    else if (mirror.shift != 0)
      addToDiagonal((_Float16 *)matrix, n, row, mirror.shift);
  }
}

} // namespace

altgrad_status altgrad::runtime::multiplySymmetric(const altgrad_gemm &gemm, double shift, const Phase &phase,
                                                   const Launch &launch) {
  const int64_t n = gemm.m, rows = hostRows(gemm);
  auto multiply = [&](const altgrad_gemm &strip, int64_t) { return multiplyOnce(strip, phase, launch); };
  if (altgrad_status status = altgrad::multiplyStrips(gemm, rows, multiply))
    return status;
  Mirror mirror{gemm, (n + tile - 1) / tile, float(shift), rows < n};
  if (!mirror.copies && shift == 0)
    return ALTGRAD_OK;
  return runItems(gemm.batch * mirror.tiles, mirrorRows, &mirror, phase, launch);
}

// A matrix product of our own, for a host that has no better one.
#include "matrix/Multiply.h"

#include <cmath>
#include <cstring>
#include <xmmintrin.h>

using namespace altgrad::runtime;

namespace {

// A tile of 6 x 16 sums is in registers; blocks of both operands are f32 in a cache.
constexpr int64_t tileRows = 6, tileColumns = 16;
constexpr int64_t blockRows = 48, blockColumns = 64, blockDepth = 256;
constexpr unsigned ieeeControl = 0x1F80;

typedef float Vector __attribute__((vector_size(64), aligned(4)));

struct Block {
  float a[blockRows / tileRows][blockDepth][tileRows];
  float b[blockColumns / tileColumns][blockDepth][tileColumns];
  float c[blockRows / tileRows][blockColumns / tileColumns][tileRows][tileColumns];
};

#define ALTGRAD_INLINE static inline __attribute__((always_inline))

ALTGRAD_INLINE float numberOf(float code) { return code; }
ALTGRAD_INLINE float numberOf(_Float16 code) { return float(code); }
ALTGRAD_INLINE float numberOf(uint16_t code) { // bf16
  uint32_t bits = uint32_t(code) << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

ALTGRAD_INLINE void store(float number, float *code) { *code = number == number ? number : __builtin_nanf(""); }
ALTGRAD_INLINE void store(float number, _Float16 *code) {
  *code = _Float16(number == number ? number : __builtin_nanf(""));
}
ALTGRAD_INLINE void store(float number, uint16_t *code) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  *code = number == number ? uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fc0;
}

// The elements [first, first + count) x [begin, begin + depth) of an operand, in strips; zeros beyond.
template <typename Code, int64_t width, int64_t strips>
ALTGRAD_INLINE void pack(const Code *from, int64_t stride, int64_t along, int64_t count, int64_t depth,
                         float (&to)[strips][blockDepth][width]) {
  for (int64_t strip = 0; strip < strips && strip * width < count; ++strip)
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = strip * width + i;
      if (at < count)
        for (int64_t k = 0; k < depth; ++k)
          to[strip][k][i] = numberOf(from[at * stride + k * along]);
      else
        for (int64_t k = 0; k < depth; ++k)
          to[strip][k][i] = 0;
    }
}

ALTGRAD_INLINE void addTile(const float (*a)[tileRows], const float (*b)[tileColumns], int64_t depth,
                            float (&c)[tileRows][tileColumns]) {
  Vector sums[tileRows];
  for (int64_t i = 0; i < tileRows; ++i)
    memcpy(&sums[i], c[i], sizeof sums[i]);
  for (int64_t k = 0; k < depth; ++k) {
    Vector row;
    memcpy(&row, b[k], sizeof row);
    for (int64_t i = 0; i < tileRows; ++i)
      sums[i] += a[k][i] * row;
  }
  for (int64_t i = 0; i < tileRows; ++i)
    memcpy(c[i], &sums[i], sizeof sums[i]);
}

template <typename Code>
ALTGRAD_INLINE void multiplyBlock(const altgrad_gemm &gemm, int64_t matrix, int64_t row, int64_t column, Block &block) {
  const int64_t rows = std::min(blockRows, gemm.m - row), columns = std::min(blockColumns, gemm.n - column);
  const Code *a = (const Code *)gemm.a + matrix * gemm.a_matrix + row * gemm.a_row;
  const Code *b = (const Code *)gemm.b + matrix * gemm.b_matrix + column * gemm.b_column;
  memset(block.c, 0, sizeof block.c);
  for (int64_t begin = 0; begin < gemm.k; begin += blockDepth) {
    const int64_t depth = std::min(blockDepth, gemm.k - begin);
    pack(a + begin * gemm.a_column, gemm.a_row, gemm.a_column, rows, depth, block.a);
    pack(b + begin * gemm.b_row, gemm.b_column, gemm.b_row, columns, depth, block.b);
    for (int64_t j = 0; j * tileColumns < columns; ++j)
      for (int64_t i = 0; i * tileRows < rows; ++i)
        addTile(block.a[i], block.b[j], depth, block.c[i][j]);
  }
  const float alpha = float(gemm.alpha), beta = float(gemm.beta);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float sum = alpha * block.c[i / tileRows][j / tileColumns][i % tileRows][j % tileColumns];
      const int64_t at = matrix * gemm.c_matrix + (row + i) * gemm.c_row + column + j;
      if (gemm.d)
        sum = __builtin_fmaf(beta, numberOf(((const Code *)gemm.d)[at]), sum);
      store(sum, (Code *)gemm.c + at);
    }
}

struct Work {
  const altgrad_gemm &gemm;
  int64_t down, across; // blocks of a matrix
};

template <typename Code> ALTGRAD_INLINE void multiplyBlocks(int64_t begin, int64_t end, const Work &work) {
  Block block;
  for (int64_t i = begin; i < end; ++i)
    multiplyBlock<Code>(work.gemm, i / (work.down * work.across), i / work.across % work.down * blockRows,
                        i % work.across * blockColumns, block);
}

ALTGRAD_INLINE void multiplyCodes(int64_t begin, int64_t end, void *context) {
  const Work &work = *static_cast<const Work *>(context);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(ieeeControl);
  if (work.gemm.type == ALTGRAD_GEMM_BF16)
    multiplyBlocks<uint16_t>(begin, end, work);
  else if (work.gemm.type == ALTGRAD_GEMM_F16)
    multiplyBlocks<_Float16>(begin, end, work);
  else
    multiplyBlocks<float>(begin, end, work);
  _mm_setcsr(before);
}

// The same terms in the same order, in the registers that a CPU has. Sweeps ask for AVX2 and FMA before.
__attribute__((target("avx512f,fma,f16c"))) void multiply512(int64_t begin, int64_t end, void *context) {
  multiplyCodes(begin, end, context);
}
__attribute__((target("avx2,fma,f16c"))) void multiply256(int64_t begin, int64_t end, void *context) {
  multiplyCodes(begin, end, context);
}

} // namespace

altgrad_status altgrad::runtime::multiplyPlainly(const altgrad_gemm &gemm, const Phase &phase, const Launch &launch) {
  Work work{gemm, (gemm.m + blockRows - 1) / blockRows, (gemm.n + blockColumns - 1) / blockColumns};
  __builtin_cpu_init();
  auto *body = __builtin_cpu_supports("avx512f") ? multiply512 : multiply256;
  return runItems(gemm.batch * work.down * work.across, body, &work, phase, launch);
}

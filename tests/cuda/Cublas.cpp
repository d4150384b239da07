// A libcublasLt.so for tests: products on the CPU, done when they are given to a stream, and counted. What cublasLt.h
// does not allow is refused with its status. Results lie in memory of the process that stands for a device's.
#include "fakecuda.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int invalid = 7, notSupported = 15; // CUBLAS_STATUS_...
enum : int { realF32 = 0, realF16 = 2, realBF16 = 14 };

struct Layout {
  int type;
  int64_t rows, columns, line;
  int32_t batch = 1;
  int64_t distance = 0;
};
struct Description {
  int compute, scale;
  int32_t transposed[2] = {};
};
int handles = 0, refused = 0;
int refusedCopies = 0;
// kept: descriptions and layouts that nobody has destroyed
int64_t products = 0, matrices = 0, copies = 0, kept = 0;

float numberOf(const void *data, int64_t i, int type) {
  if (type == realF32)
    return static_cast<const float *>(data)[i];
  if (type == realF16)
    return float(static_cast<const _Float16 *>(data)[i]);
  const uint32_t bits = uint32_t(static_cast<const uint16_t *>(data)[i]) << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

// The test driver's own memory is seen by copies alone.
std::vector<double> numbersOf(const void *data, const Layout &layout) {
  const int64_t last = (layout.batch - 1) * layout.distance + (layout.columns - 1) * layout.line + layout.rows;
  std::vector<char> copy(size_t(last * (layout.type == realF32 ? 4 : 2)));
  std::vector<double> numbers;
  int (*copyHere)(void *, uint64_t, size_t) = nullptr;
  int found = 0;
  if (cuGetProcAddress_v2("cuMemcpyDtoH", (void **)&copyHere, 12000, 0, &found) ||
      copyHere(copy.data(), uint64_t(data), copy.size()))
    return numbers;
  for (int64_t i = 0; i < last; ++i)
    numbers.push_back(numberOf(copy.data(), i, layout.type));
  return numbers;
}

void store(double number, void *data, int64_t i, int type) {
  const float rounded = float(number);
  if (type == realF32) {
    static_cast<float *>(data)[i] = rounded;
  } else if (type == realF16) {
    static_cast<_Float16 *>(data)[i] = _Float16(rounded);
  } else {
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    static_cast<uint16_t *>(data)[i] = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API fakecublas_products() { return int(products); }
API fakecublas_matrices() { return int(matrices); }
API fakecublas_copies() { return int(copies); }
API fakecublas_kept() { return int(kept); }
API fakecublas_refuse_copies(int status) { return refusedCopies = status; }
API fakecublas_refuse(int status) { return refused = status; }

API cublasLtCreate(void **handle) {
  *handle = &handles;
  return handles++ ? invalid : 0; // one serves all plans of a context
}

API cublasLtMatmulDescCreate(Description **out, int compute, int scale) {
  if (compute != 68 || scale != realF32)
    return notSupported;
  *out = new Description{compute, scale};
  ++kept;
  return 0;
}
API cublasLtMatmulDescDestroy(Description *description) {
  delete description;
  --kept;
  return 0;
}
API cublasLtMatmulDescSetAttribute(Description *description, int which, const void *value, size_t bytes) {
  if (which < 3 || which > 4 || bytes != 4)
    return invalid;
  memcpy(&description->transposed[which - 3], value, bytes);
  return 0;
}

API cublasLtMatrixLayoutCreate(Layout **out, int type, uint64_t rows, uint64_t columns, int64_t line) {
  if (!rows || !columns || line < int64_t(rows))
    return invalid;
  *out = new Layout{type, int64_t(rows), int64_t(columns), line};
  ++kept;
  return 0;
}
API cublasLtMatrixLayoutDestroy(Layout *layout) {
  delete layout;
  --kept;
  return 0;
}
API cublasLtMatrixLayoutSetAttribute(Layout *layout, int which, const void *value, size_t bytes) {
  if (which == 5 && bytes == 4)
    memcpy(&layout->batch, value, bytes);
  else if (which == 6 && bytes == 8)
    memcpy(&layout->distance, value, bytes);
  else
    return invalid;
  return 0;
}

// Column by column: D = alpha op(A) op(B) + beta C.
API cublasLtMatmul(void *handle, Description *how, const float *alpha, const void *a, Layout *la, const void *b, Layout *lb,
                   const float *beta, const void *c, Layout *lc, void *d, Layout *ld, const void *, void *, size_t bytes,
                   void *) {
  if (refused)
    return refused;
  const bool ta = how->transposed[0], tb = how->transposed[1];
  const int64_t m = ta ? la->columns : la->rows, k = ta ? la->rows : la->columns, n = tb ? lb->rows : lb->columns;
  if (handle != &handles || bytes || k != (tb ? lb->columns : lb->rows) || m != ld->rows || n != ld->columns ||
      la->batch != ld->batch || lb->batch != ld->batch || lc->batch != ld->batch || (c == d && lc != ld))
    return invalid;
  const std::vector<double> left = numbersOf(a, *la), right = numbersOf(b, *lb);
  if (left.empty() || right.empty())
    return invalid;
  ++products;
  matrices += ld->batch;
  for (int64_t matrix = 0; matrix < ld->batch; ++matrix)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t)
          sum += left[matrix * la->distance + (ta ? i * la->line + t : t * la->line + i)] *
                 right[matrix * lb->distance + (tb ? t * lb->line + j : j * lb->line + t)];
        sum *= *alpha;
        if (*beta != 0)
          sum += double(*beta) * numberOf(c, matrix * lc->distance + j * lc->line + i, lc->type);
        store(sum, d, matrix * ld->distance + j * ld->line + i, ld->type);
      }
  return 0;
}

API cublasLtMatrixTransformDescCreate(Description **out, int scale) { return cublasLtMatmulDescCreate(out, 68, scale); }
API cublasLtMatrixTransformDescDestroy(Description *description) { return cublasLtMatmulDescDestroy(description); }
API cublasLtMatrixTransformDescSetAttribute(Description *description, int which, const void *value, size_t bytes) {
  return cublasLtMatmulDescSetAttribute(description, which + 1, value, bytes); // TRANSA is 2 here
}

// Column by column: C = alpha op(A).
API cublasLtMatrixTransform(void *handle, Description *how, const float *alpha, const void *a, Layout *la, const float *beta,
                            const void *b, Layout *, void *c, Layout *lc, void *) {
  if (refusedCopies)
    return refusedCopies;
  if (handle != &handles || b || *alpha != 1 || *beta != 0 || !how->transposed[0] || la->type != lc->type ||
      la->rows != lc->columns || la->columns != lc->rows || la->batch != lc->batch)
    return invalid;
  const std::vector<double> from = numbersOf(a, *la);
  if (from.empty())
    return invalid;
  ++copies;
  for (int64_t matrix = 0; matrix < lc->batch; ++matrix)
    for (int64_t j = 0; j < lc->columns; ++j)
      for (int64_t i = 0; i < lc->rows; ++i)
        store(from[matrix * la->distance + i * la->line + j], c, matrix * lc->distance + j * lc->line + i, lc->type);
  return 0;
}

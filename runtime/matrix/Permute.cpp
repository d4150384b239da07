// Products with a permutation: rows or columns of the other operand.
#include "matrix/Multiply.h"

#include <cmath>
#include <cstring>

using namespace altgrad::runtime;

namespace {

struct Permutation {
  const altgrad_gemm &gemm;
  bool left;                   // whether it is the first operand
  std::vector<int64_t> places; // by matrix, of each row or column of the result where it comes from; -1: from nowhere

  int64_t side() const { return left ? gemm.m : gemm.n; }
  const float *matrix(bool first, int64_t index) const {
    return first ? static_cast<const float *>(gemm.a) + index * gemm.a_matrix
                 : static_cast<const float *>(gemm.b) + index * gemm.b_matrix;
  }
};

// Each item is a row of a permutation as it lies.
void findPlaces(int64_t begin, int64_t end, void *context) {
  auto &all = *static_cast<Permutation *>(context);
  const int64_t n = all.side();
  const bool turned = (all.left ? all.gemm.a_row : all.gemm.b_row) == 1 && n > 1;
  for (int64_t item = begin; item < end; ++item) {
    const float *row = all.matrix(all.left, item / n) + item % n * n;
    for (int64_t column = 0; column < n; ++column)
      if (row[column] == 1) {
        int64_t *places = &all.places[size_t(item / n * n)];
        all.left == turned ? places[column] = item % n : places[item % n] = column;
      }
  }
}

// Each item is a row of a result.
void takeRows(int64_t begin, int64_t end, void *context) {
  const auto &all = *static_cast<const Permutation *>(context);
  const altgrad_gemm &gemm = all.gemm;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t index = item / gemm.m, row = item % gemm.m;
    const int64_t *places = &all.places[size_t(index * all.side())];
    const float *from = all.matrix(!all.left, index);
    float *to = static_cast<float *>(gemm.c) + index * gemm.c_matrix + row * gemm.c_row;
    for (int64_t column = 0; column < gemm.n; ++column) {
      const int64_t place = places[all.left ? row : column];
      to[column] = place < 0 ? NAN
                   : all.left ? from[place * gemm.b_row + column * gemm.b_column]
                              : from[row * gemm.a_row + place * gemm.a_column];
    }
  }
}

} // namespace

altgrad_status altgrad::runtime::permute(const Product &product, const altgrad_gemm &gemm, const Phase &phase,
                                         const Launch &launch) {
  Permutation all{gemm, product.permutation == 0, {}};
  all.places.assign(size_t(gemm.batch * all.side()), -1);
  if (altgrad_status status = runItems(gemm.batch * all.side(), findPlaces, &all, phase, launch))
    return status;
  return runItems(gemm.batch * gemm.m, takeRows, &all, phase, launch);
}

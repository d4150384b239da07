// The products of a matrix phase, as the manifest describes them.
#ifndef ALTGRAD_RUNTIME_PRODUCTS_H
#define ALTGRAD_RUNTIME_PRODUCTS_H

#include <cstdint>

namespace altgrad::runtime {

// Which matrices are multiplied, where n and m are the lengths of a tensor's shorter and longer side:
// n x m and its transpose, n x n and n x n, n x n and n x m.
enum class Form { Gram, Square, Side };

struct Product {
  Form form;
  int32_t type;  // of gemm.h
  int64_t bytes; // of a code
  // Where the lists lie: bytes of lists before them, for each element. -1: nothing is added.
  int64_t left, right, added, into;
  double factor, weight;
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_PRODUCTS_H

// Kernels for symmetric products of 16-bit matrices, which a module of CUDA code may have besides a step's.
#ifndef ALTGRAD_PRODUCTS_H
#define ALTGRAD_PRODUCTS_H

// ALTGRAD_SYMMETRIC_KERNEL "bf16" or "f16" takes n x k matrices A and B whose rows have no gaps, and with "columns_" in
// front of the format those whose columns have none: C = alpha A Bᵀ + beta D, where A Bᵀ and D are symmetric. Sums are
// f32, in an order that depends on k alone, and C is rounded once and symmetric by its bits.
//
// The parameters are pointers to A, B, D (null: nothing is added) and C; the distances, in elements and 64 bits, from
// one matrix of a batch to the next and from one row or column to the next, of A, of B, and of C and D; n and k in 64
// bits; alpha and beta in f32. Addresses and distances are multiples of 16 bytes, n of 8, and n and k are below 2^31.
//
// A launch has blocks of 256 threads with ALTGRAD_SYMMETRIC_SHARED bytes of dynamic shared memory, one for each tile of
// a result's columns (x), of its rows (y), and for each matrix of a batch (z).
#define ALTGRAD_SYMMETRIC_KERNEL "altgrad_symmetric_"

enum {
  ALTGRAD_SYMMETRIC_ROWS = 128, // of a tile
  ALTGRAD_SYMMETRIC_COLUMNS = 192,
  ALTGRAD_SYMMETRIC_SHARED = 81920
};

#ifdef __cplusplus

#include <stdlib.h>
#include <string.h>

namespace altgrad {

// Who does symmetric products on a GPU, by $ALTGRAD_CUDA_PRODUCTS: the library, which multiplies whole squares, as
// without the variable; the library in four strips of rows up to the diagonal, which are ten of sixteen blocks, and
// a copy of the rest; these kernels; or whoever was fastest when a product of the shape was first met on such a
// device, outside of a capture, and the function of altgrad_set_symmetric_gemm is one of these. A word that is none of
// the four is Unknown.
enum class ProductsBy { Library, Strips, Own, Auto, Unknown };
inline constexpr char productsVariable[] = "ALTGRAD_CUDA_PRODUCTS";

inline ProductsBy productsBy() {
  const char *word = secure_getenv(productsVariable);
  if (!word || !*word || strcmp(word, "library") == 0)
    return ProductsBy::Library;
  return strcmp(word, "own") == 0      ? ProductsBy::Own
         : strcmp(word, "strips") == 0 ? ProductsBy::Strips
         : strcmp(word, "auto") == 0   ? ProductsBy::Auto
                                       : ProductsBy::Unknown;
}

} // namespace altgrad

#endif

#endif // ALTGRAD_PRODUCTS_H

// A product of matrices, as altgrad_set_gemm's function does it.
#ifndef ALTGRAD_GEMM_H
#define ALTGRAD_GEMM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ALTGRAD_GEMM_BF16, ALTGRAD_GEMM_F16, ALTGRAD_GEMM_F32 }; // type

// A batch of products: c = alpha * a b + beta * d, where a is m x k, b is k x n, and c and d are m x n. The
// numbers are of one type, ALTGRAD_GEMM_BF16, _F16 or _F32; sums are at least f32, and c is
// rounded once. Strides count elements. c and d have the same strides and columns without gaps.
//
// On a GPU the matrices lie in its memory: the function gives the work to `stream` and waits for nothing, and then
// adds `shift`, which is 0 for bf16, to the diagonals of c and rounds them again. On the CPU `shift` is 0.
typedef struct altgrad_gemm {
  uint64_t size;
  int64_t batch, m, n, k;
  const void *a, *b;
  const void *d; // NULL: nothing is added
  void *c;       // overlaps neither a nor b
  int64_t a_matrix, a_row, a_column;
  int64_t b_matrix, b_row, b_column;
  int64_t c_matrix, c_row;
  double alpha, beta;
  int32_t type;
  int32_t device; // the GPU's number; -1: the CPU
  void *stream;   // a CUstream of it
  double shift;
  // On a GPU: above 1 where c is symmetric and may be multiplied in so many strips of rows, each up to the diagonal,
  // with a copy of what is below the diagonal above it (strips.h). A function that multiplies all of c is right, too.
  int32_t strips;
} altgrad_gemm;

// Does these products and returns 0. Another result, an exception, or on the CPU a NaN or an infinity made of finite
// numbers, ends the run with ALTGRAD_SYSTEM. A step writes nothing before its last product: nothing has changed then.
// On a GPU such a step is skipped, and its scalar "skipped" counts it, unless other devices' sums join it.
typedef int32_t (*altgrad_multiply)(const altgrad_gemm *gemm, void *context);

// What is found of a symmetric or other square matrix of f32, row by row.
enum {
  ALTGRAD_EIGENBASIS,   // orthonormal eigenvectors as columns, of the largest eigenvalue first
  ALTGRAD_ORDER,        // the permutation P for which the diagonal of (basis P)^T square (basis P) falls
  ALTGRAD_ORTHONORMAL,  // Q of square = Q R, with an upper triangle R; it may have more rows than columns
  ALTGRAD_INVERSE_ROOT, // square^(-1 / root); eigenvalues below 1e-7 of the largest magnitude count as so much
  ALTGRAD_IDENTITY      // the identity
};                      // what

// A batch of factorizations, each of a rows x n matrix whose rows have no gaps. `distance` counts floats from one
// matrix to the next, of square, basis and factor alike. On a GPU all lie in its memory, and the function gives its
// work to `stream`.
typedef struct altgrad_factorization {
  uint64_t size;
  int64_t batch, n, distance;
  const float *square;
  const float *basis; // of ALTGRAD_ORDER; else NULL
  float *factor;
  double root; // of ALTGRAD_INVERSE_ROOT
  int32_t what;
  int32_t device; // the GPU's number; -1: the CPU
  void *stream;   // a CUstream of it
  int64_t rows;   // n or, of ALTGRAD_ORTHONORMAL, more
} altgrad_factorization;

// Does these factorizations and returns 0. The factor of a matrix that is not finite is NaN, and no failure. Another
// result or an exception ends the run with ALTGRAD_SYSTEM: nothing has changed then.
typedef int32_t (*altgrad_factorize)(const altgrad_factorization *factorization, void *context);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_GEMM_H

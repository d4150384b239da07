// Phases that multiply matrices.
#ifndef ALTGRAD_RUNTIME_MULTIPLY_H
#define ALTGRAD_RUNTIME_MULTIPLY_H

#include "executor/Executor.h"

namespace altgrad::runtime {

// Who multiplies for plans that nobody has given a function of their own.
Gemm &commonGemm();

// Does all products of a phase for one tensor after the other. Neighbours of one shape are one batch.
altgrad_status multiplyMatrices(const Phase &phase, const Tables &tables,
                                int64_t rowWords, const Launch &launch);

// One call of the function that multiplies, or of the plain kernel, which is the host's.
altgrad_status multiplyOnce(const altgrad_gemm &gemm, const Phase &phase, const Launch &launch);

// A symmetric product: strips of rows up to the diagonal, and a copy of what is below it. `shift` is added to
// the diagonal of f32.
altgrad_status multiplySymmetric(const altgrad_gemm &gemm, double shift, const Phase &phase, const Launch &launch);

// The plain kernel: sums are f32, with one fma for each term in the order of k, and the same bits for
// any number of threads and any batch. Nearest, ties to even; a NaN is the canonical one.
altgrad_status multiplyPlainly(const altgrad_gemm &gemm, const Launch &launch);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_MULTIPLY_H

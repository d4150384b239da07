// Kernels for products of matrices, on tensor cores.
#ifndef ALTGRAD_CODEGEN_PRODUCTS_H
#define ALTGRAD_CODEGEN_PRODUCTS_H

#include "dialect/Dialect.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace altgrad {

struct Target;

/// Kernels for the symmetric products of steps in formats of 16 bits: C = alpha A Bᵀ + beta D, where A Bᵀ and D are
/// symmetric, as products.h has them for the runtime. Of each result, blocks compute the tiles with numbers on or below
/// the diagonal, and store each twice.
void makeProductKernels(mlir::gpu::GPUModuleOp kernels, llvm::ArrayRef<StepOp> steps, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PRODUCTS_H

// Kernels for products of matrices, on tensor cores.
#ifndef ALTGRAD_CODEGEN_PRODUCTS_H
#define ALTGRAD_CODEGEN_PRODUCTS_H

#include "dialect/Dialect.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace altgrad {

struct Target;

/// Kernels for the symmetric products of steps in formats of 16 bits: C = alpha A Bᵀ + beta D, where A Bᵀ and D are
/// symmetric. Of each result, blocks compute the tiles with numbers on or below the diagonal, and store each twice.
///
/// `altgrad_symmetric_<format>` takes n x k matrices A and B whose rows have no gaps, and
/// `altgrad_symmetric_columns_<format>` those whose columns have none. Their parameters are pointers to A, B, D (null:
/// nothing is added) and C; the distances, in elements and 64 bits, from one matrix of a batch to the next and from one
/// row or column to the next, of A, of B, and of C and D; n and k; alpha and beta in f32. Addresses and distances are
/// multiples of 16 bytes, and n of 8. A grid has a block for each tile of a result's columns, for each of its rows, and
/// for each matrix of a batch. A launch adds the shared memory of all stages.
void makeProductKernels(mlir::gpu::GPUModuleOp kernels, llvm::ArrayRef<StepOp> steps, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PRODUCTS_H

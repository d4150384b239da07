// The passes from sweeps to phases and kernels, and the pipelines of them.
#ifndef ALTGRAD_CODEGEN_PASSES_H
#define ALTGRAD_CODEGEN_PASSES_H

#include "dialect/Target.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Passes.h"

namespace altgrad {
#define GEN_PASS_DECL
#include "codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "codegen/Passes.h.inc"

/// From phases to the llvm dialect for `target`.
/// `ownProducts`: with a GPU's own kernels for products.
void buildKernelPipeline(mlir::OpPassManager &manager, const Target &target, bool canonicalize = true,
                         bool ownProducts = false);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PASSES_H

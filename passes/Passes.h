// The passes from step to sweeps, and the pipeline of them.
#ifndef ALTGRAD_PASSES_PASSES_H
#define ALTGRAD_PASSES_PASSES_H

#include "dialect/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace altgrad {
#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

struct SweepPipelineOptions : mlir::PassPipelineOptions<SweepPipelineOptions> {
  Option<std::string> rulePath{*this, "rule-path", llvm::cl::desc("Where rules are looked for")};
  Option<bool> exchange{*this, "exchange", llvm::cl::desc("Other devices' shares join sums over the step")};
  Option<bool> canonicalize{*this, "canonicalize", llvm::cl::init(true),
                            llvm::cl::desc("Simplify between the passes; results have the same bits "
                                           "without")};
};

/// From a step as written to fused sweeps with nothing uniform inside.
void buildSweepPipeline(mlir::OpPassManager &manager, const SweepPipelineOptions &options);
void registerPipelines();

} // namespace altgrad

#endif // ALTGRAD_PASSES_PASSES_H

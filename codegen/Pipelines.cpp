// From phases to the llvm dialect, for one target.
#include "codegen/Passes.h"

#include "codegen/kernels/gpu/GpuLowering.h"
#include "dialect/Dialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

using namespace mlir;

void altgrad::buildKernelPipeline(OpPassManager &manager, const Target &target,
                                  bool canonicalize) {
  // A vector of the machine, or a lane's group of two elements.
  VectorizePassOptions vectors;
  vectors.width = target.isPtx() ? groupWidth : target.lanes;
  manager.nest<StepOp>().addPass(createVectorizePass(vectors));
  // One function or kernel for each phase.
  if (target.isPtx()) {
    manager.addPass(createLowerToGPUPass());
  } else {
    LowerToHostPassOptions host;
    host.level = target.name.str();
    manager.addPass(createLowerToHostPass(host));
  }
  // Formats and functions in the target's instructions.
  LowerNumericsPassOptions numerics;
  numerics.target = target.name.str();
  manager.addPass(createLowerNumericsPass(numerics));
  if (canonicalize) {
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
  }
  manager.addPass(createToLLVMPass());
}

// From phases to the llvm dialect, for one target.
#include "codegen/Passes.h"

#include "dialect/Dialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

using namespace mlir;

void altgrad::buildKernelPipeline(OpPassManager &manager, const Target &target, bool canonicalize,
                                  bool ownProducts) {
  CutStagesPassOptions stages;
  stages.target = target.name.str();
  manager.nest<StepOp>().addPass(createCutStagesPass(stages));
  VectorizePassOptions vectors;
  vectors.width = target.vectorWidth;
  manager.nest<StepOp>().addPass(createVectorizePass(vectors));
  QuickBodiesPassOptions quick;
  quick.target = target.name.str();
  manager.nest<StepOp>().addPass(createQuickBodiesPass(quick));
  // One function or kernel for each phase.
  if (target.isPtx()) {
    FitResourcesPassOptions fit;
    fit.target = target.name.str();
    manager.nest<StepOp>().addPass(createFitResourcesPass(fit));
    LowerToGPUPassOptions gpu;
    gpu.target = target.name.str();
    gpu.ownProducts = ownProducts;
    manager.addPass(createLowerToGPUPass(gpu));
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
    GreedyRewriteConfig config; // loops are structured yet: there are no blocks to merge
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    manager.addPass(createCanonicalizerPass(config));
    manager.addPass(createCSEPass());
  }
  manager.addPass(createToLLVMPass());
}

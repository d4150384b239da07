// From phases to the llvm dialect, for one target.
#include "codegen/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void altgrad::buildKernelPipeline(OpPassManager &manager, const Target &target, bool canonicalize, bool ownProducts) {
  std::string name = target.name.str();
  OpPassManager &step = manager.nest<StepOp>();
  step.addPass(createCutStagesPass({name}));
  step.addPass(createVectorizePass({target.vectorWidth}));
  step.addPass(createFastPathPass({name}));
  // One function or kernel for each phase.
  if (target.isPtx()) {
    step.addPass(createFitResourcesPass({name}));
    manager.addPass(createLowerToGPUPass({name, ownProducts}));
  } else {
    manager.addPass(createLowerToHostPass({name}));
  }
  // Formats and functions in the target's instructions.
  manager.addPass(createLowerNumericsPass({name}));
  if (canonicalize) {
    GreedyRewriteConfig config; // loops are structured yet: there are no blocks to merge
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    manager.addPass(createCanonicalizerPass(config));
    manager.addPass(createCSEPass());
  }
  manager.addPass(createLowerToLLVMPass());
}

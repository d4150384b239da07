// The named pipelines.
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void altgrad::buildSweepPipeline(OpPassManager &manager, const SweepPipelineOptions &options) {
  // Mathematics: every update is its rule's arithmetic on one element.
  manager.addPass(createInlineRulesPass({options.rulePath, options.exchange}));
  OpPassManager &step = manager.nest<StepOp>();
  step.addPass(createExpandGradientsPass());
  step.addPass(createExpandMatricesPass());
  step.addPass(createExpandFormatsPass());
  if (options.canonicalize)
    step.addPass(createCSEPass());
  // Memory: as few passes over it as the reductions allow.
  step.addPass(createSplitSweepsPass());
  step.addPass(createFuseSweepsPass());
  // Scalars: once per tensor instead of once per element.
  step.addPass(createHoistUniformPass());
  // What is simplified from here on has the same bits on every machine that compiles.
  step.addPass(createKeepFunctionsPass());
  if (options.canonicalize) {
    step.addPass(createCanonicalizerPass());
    step.addPass(createCSEPass());
  }
}

void altgrad::registerPipelines() {
  PassPipelineRegistration<SweepPipelineOptions>("altgrad-sweeps", "From steps as written to fused sweeps",
                                                 buildSweepPipeline);
}

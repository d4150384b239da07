// A step in sweeps ==> one CUDA kernel per phase.
#include "altgrad/values.h"
#include "codegen/Passes.h"
#include "codegen/abi/Launches.h"
#include "codegen/gpu/SmallPhases.h"
#include "codegen/gpu/SweepLowering.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOGPUPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

static SmallVector<Type> getParameters(KernelBuilder &kernel, Type i64) {
  SmallVector<Type> types;
  for (unsigned i = 0; i < memberCount; ++i)
    types.push_back(isCount(Member(i)) ? i64 : Type(kernel.pointerType()));
  types.append(2, i64); // begin, end
  return types;
}

static void lowerPhase(KernelBuilder &kernel, const Target &target, PhaseOp phase) {
  CodeBuilder &builder = kernel.builder;
  OpBuilder::InsertionGuard guard(builder);
  kernel.noUnroll = kernel.readsTablesEarly = false;
  LLVM::LLVMFuncOp function = makeKernel(builder, getSymbol(phase), getParameters(kernel, builder.getI64Type()));
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  GpuKernel gpu(kernel, target, phase, function);
  if (!followsLaunch(phase))
    gpu.launchDependents();
  else if (!phase.getSweep())
    gpu.waitForLaunches();
  if (SweepOp sweep = phase.getSweep())
    SweepLowering(gpu).lower(sweep);
  else
    SmallPhases(gpu).lower(phase, {gpu.block, gpu.blocks, gpu.begin, gpu.end});
  if (SmallVector<PhaseOp> others = getEpiloguePhases(phase); !others.empty())
    SmallPhases(gpu).lowerEpilogue(others);
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), builder.getI32IntegerAttr(gpu.shared.plan().blocks));
  LLVM::ReturnOp::create(builder, ValueRange{});
}

// What the runtime asks a loaded module for (bundle.h).
static void markOverlap(gpu::GPUModuleOp kernels, const Target &target) {
  if (!target.overlapsLaunches)
    return;
  auto builder = OpBuilder::atBlockEnd(kernels.getBody());
  Type i32 = builder.getI32Type();
  LLVM::GlobalOp::create(builder, kernels.getLoc(), i32, /*isConstant=*/false, LLVM::Linkage::External,
                         ALTGRAD_KERNELS_WAIT, builder.getI32IntegerAttr(1), /*alignment=*/4,
                         /*addrSpace=*/1);
}

//===-- Numbers that the host brings to the device ----------------------------===//

// Whether there are numbers that the host may have.
static bool readsNumbers(StepOp step) {
  return llvm::any_of(step.getBody().getArguments(), [&](BlockArgument argument) {
    return !isa<TensorsType>(argument.getType()) && step.getAccess(argument) == Access::In;
  });
}

// They come as the launch's parameters (bundle.h).
static void makeValuesKernel(gpu::GPUModuleOp kernels, ArrayRef<StepOp> steps) {
  if (llvm::none_of(steps, readsNumbers))
    return;
  CodeBuilder builder(kernels.getLoc(), kernels.getContext());
  builder.setInsertionPointToEnd(kernels.getBody());
  MLIRContext *context = builder.getContext();
  Type i64 = builder.getI64Type();
  auto memory = LLVM::LLVMPointerType::get(context, /*addressSpace=*/1);
  auto parameter = LLVM::LLVMPointerType::get(context);
  auto words = LLVM::LLVMArrayType::get(i64, ALTGRAD_VALUES);
  LLVM::LLVMFuncOp function = makeKernel(builder, ALTGRAD_VALUES_KERNEL, {memory, i64, parameter});
  function.setArgAttr(2, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(words));
  function.setArgAttr(2, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(sizeof(int64_t)));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  Value thread = builder.extendUnsigned(i64, NVVM::ThreadIdXOp::create(builder, builder.getI32Type()));
  Value all = builder.integer(i64, ALTGRAD_BLOCK_THREADS);
  loopWith(builder, thread, entry->getArgument(1), all, {}, [&](Value index, SmallVector<Value> none) {
    auto at = [&](Value base) {
      return LLVM::GEPOp::create(builder, base.getType(), i64, base, ArrayRef<LLVM::GEPArg>{index});
    };
    Value word = LLVM::LoadOp::create(builder, i64, at(entry->getArgument(2)));
    LLVM::StoreOp::create(builder, word, at(entry->getArgument(0)));
    return none;
  });
  LLVM::ReturnOp::create(builder, ValueRange{});
}

namespace {
struct LowerToGPU : altgrad::impl::LowerToGPUPassBase<LowerToGPU> {
  using LowerToGPUPassBase::LowerToGPUPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const Target *machine = findTarget(target);
    if (!machine || !machine->isPtx()) {
      module.emitError() << "unknown GPU '" << target << "'";
      return signalPassFailure();
    }
    SmallVector<StepOp> steps(module.getOps<StepOp>());
    if (steps.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto kernels = gpu::GPUModuleOp::create(builder, steps[0].getLoc(), "kernels");
    markOverlap(kernels, *machine);
    makeValuesKernel(kernels, steps);
    if (ownProducts)
      makeProductKernels(kernels, steps, *machine);
    for (StepOp step : steps) {
      if (failed(checkForm(step, getArgument(), Form::Resources, Form::Resources, /*inPhases=*/true)))
        return signalPassFailure();
      CodeBuilder inKernels(step.getLoc(), step.getContext());
      inKernels.setInsertionPointToEnd(&kernels.getBodyRegion().front());
      KernelBuilder kernel(inKernels, step, /*addressSpace=*/1);
      for (auto phase : step.getBody().getOps<PhaseOp>())
        if (phase.getPhaseKind() != PhaseKind::Matrix) // the runtime's
          lowerPhase(kernel, *machine, phase);
      step.erase();
    }
  }
};
} // namespace

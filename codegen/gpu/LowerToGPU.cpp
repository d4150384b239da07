// A step in sweeps ==> one CUDA kernel per phase.
#include "altgrad/values.h"
#include "codegen/Passes.h"
#include "codegen/abi/Launches.h"
#include "codegen/gpu/GpuLowering.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOGPUPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

GpuLowering::GpuLowering(StepOp step, const Target &target, Block *kernels)
    : step(step), target(target), builder(step.getLoc(), step.getContext()), kernel(builder, step, /*addressSpace=*/1) {
  builder.setInsertionPointToEnd(kernels);
}

void GpuLowering::onFirstThread(function_ref<void()> body) {
  Value first = builder.equal(inWarp, kernel.i64(0));
  kernel.when(first, body);
}

SmallVector<Value> GpuLowering::ifElse(Value condition, SmallVector<Value> carried,
                                       function_ref<SmallVector<Value>(SmallVector<Value>)> yes,
                                       function_ref<SmallVector<Value>(SmallVector<Value>)> no) {
  return branch(
      builder, condition, ValueRange(carried).getTypes(), [&] { return yes(carried); },
      [&] { return no ? no(carried) : carried; });
}

static SmallVector<Type> getParameters(KernelBuilder &kernel, Type i64) {
  SmallVector<Type> types;
  for (unsigned i = 0; i < memberCount; ++i)
    types.push_back(isCount(Member(i)) ? i64 : Type(kernel.pointerType()));
  types.append(2, i64); // begin, end
  return types;
}

LLVM::LLVMFuncOp altgrad::makeKernel(CodeBuilder &builder, StringRef name, ArrayRef<Type> types) {
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), types);
  auto function = LLVM::LLVMFuncOp::create(builder, name, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(), builder.getDenseI32ArrayAttr({ALTGRAD_BLOCK_THREADS}));
  return function;
}

void GpuLowering::lower(PhaseOp phase) {
  OpBuilder::InsertionGuard guard(builder);
  kernel.keepsRolled = kernel.readsTablesEarly = false;
  LLVM::LLVMFuncOp function = makeKernel(builder, getSymbol(phase), getParameters(kernel, builder.getI64Type()));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  for (unsigned i = 0; i < memberCount; ++i)
    kernel.members[i] = entry->getArgument(i);
  begin = entry->getArgument(memberCount);
  end = entry->getArgument(memberCount + 1);
  inBlock = special<NVVM::ThreadIdXOp>();
  block = special<NVVM::BlockIdXOp>();
  blocks = special<NVVM::GridDimXOp>();
  inWarp = builder.bitAnd(inBlock, kernel.i64(warpThreads - 1));
  shared.emplace(kernel, function, inBlock, *KernelResources::of(phase));
  auto scaled = [&](Value count, int64_t by) -> Value { return builder.mul(count, kernel.i64(by)); };
  warp = builder.add(scaled(block, warpsPerBlock), builder.div(inBlock, kernel.i64(warpThreads)));
  warps = scaled(blocks, warpsPerBlock);
  if (sharesWords(phase))
    words = shared->allocate("words", 16);
  if (!followsLaunch(phase))
    launchDependents(phase);
  else if (!phase.getSweep())
    waitForLaunches(phase);
  if (SweepOp sweep = phase.getSweep())
    lowerSweep(sweep);
  else
    lowerSmall(phase, {block, blocks, begin, end});
  if (SmallVector<PhaseOp> others = getEpiloguePhases(phase); !others.empty())
    emitEpilogue(others);
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), builder.getI32IntegerAttr(shared->plan().blocks));
  LLVM::ReturnOp::create(builder, ValueRange{});
}

//===-- Reductions ----------------------------------------------------------===//

SmallVector<Value> GpuLowering::splitVector(Value vector) {
  SmallVector<Value> elements;
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  for (int64_t i = 0; i < width; ++i)
    elements.push_back(builder.element(vector, i));
  return elements;
}

Value GpuLowering::joinElements(Reduction kind, SmallVector<Value> elements) {
  for (size_t half = elements.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      elements[i] = join(builder, kind, elements[i], elements[i + half]);
  return elements[0];
}

Value GpuLowering::joinThreads(Reduction kind, Value sum) {
  auto type = cast<VectorType>(sum.getType());
  SmallVector<Value> elements = splitVector(sum);
  for (int32_t distance = warpThreads / 2; distance; distance /= 2)
    for (Value &mine : elements)
      mine = join(builder, kind, mine, shuffled(NVVM::ShflKind::down, mine, distance));
  return builder.fromElements(type, elements);
}

// The tree 128, 64 … 1.
Value GpuLowering::reduceTotal(Chunk &chunk, const Carried &carried, unsigned result) {
  auto ofElements = [&] { return totalApart(chunk, carried, result); };
  auto ofVectors = [&] { return totalInRow(chunk, carried, result); };
  if (chunk.sums.vectors(result) == 1) // in any order
    return ofElements();
  return chunk.exchanges() ? ofVectors() : branch(builder, chunk.aligned, builder.getF32Type(), ofVectors, ofElements);
}

// Of neighbours in a thread: parts, then threads, then vectors and their elements.
Value GpuLowering::totalInRow(Chunk &chunk, const Carried &carried, unsigned result) {
  Reduction kind = chunk.sweep.getReduction(result);
  unsigned all = chunk.sums.vectors(result);
  unsigned vectors = std::min(chunk.vectors(), all);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < vectors; ++number) {
    Value sum = chunk.sums.vector(carried, result, number);
    if (vectors < all)
      sum = join(builder, kind, sum, chunk.sums.vector(carried, result, vectors + number));
    llvm::append_range(elements, splitVector(joinThreads(kind, sum)));
  }
  return joinElements(kind, elements);
}

// Of elements a warp apart: a thread's own come first.
Value GpuLowering::totalApart(Chunk &chunk, const Carried &carried, unsigned result) {
  Reduction kind = chunk.sweep.getReduction(result);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < chunk.sums.vectors(result); ++number)
    llvm::append_range(elements, splitVector(chunk.sums.vector(carried, result, number)));
  return joinLanes(kind, elements);
}

//===-- Launches that overlap -----------------------------------------------===//

// A kernel lets the next one begin, and that waits until the kernel has ended before it touches anything but tables.
// LLVM's intrinsics claim to touch no memory: loads would pass them.
void GpuLowering::emitControl(StringRef what, StringRef clobbers) {
  assembly(builder, ("griddepcontrol." + what + ";").str(), clobbers, {}, {});
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

void GpuLowering::launchDependents(PhaseOp phase) {
  if (target.overlapsLaunches && precedesLaunch(phase))
    emitControl("launch_dependents", "");
}

bool GpuLowering::mustWait(PhaseOp phase) { return target.overlapsLaunches && followsLaunch(phase); }

// The next launch begins no earlier: all launches before this one have ended then.
void GpuLowering::waitForLaunches(PhaseOp phase) {
  if (!mustWait(phase))
    return;
  emitControl("wait", "~{memory}");
  launchDependents(phase);
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
      GpuLowering lowering(step, *machine, &kernels.getBodyRegion().front());
      for (auto phase : step.getBody().getOps<PhaseOp>())
        if (phase.getPhaseKind() != PhaseKind::Matrix) // the runtime's
          lowering.lower(phase);
      step.erase();
    }
  }
};
} // namespace

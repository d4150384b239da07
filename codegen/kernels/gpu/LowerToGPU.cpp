// A step in sweeps ==> one CUDA kernel per phase.
#include "codegen/kernels/gpu/GpuLowering.h"
#include "codegen/Passes.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOGPUPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

GpuLowering::GpuLowering(StepOp step, const Target &target, Block *kernels)
    : step(step), target(target), builder(step.getLoc(), step.getContext()) {
  builder.setInsertionPointToEnd(kernels);
}

Value GpuLowering::special(StringRef intrinsic) {
  Value value = LLVM::CallIntrinsicOp::create(builder, builder.getI32Type(),
                                              builder.getStringAttr(intrinsic),
                                              ValueRange{})
                    .getResult(0);
  return arith::ExtUIOp::create(builder, builder.getI64Type(), value);
}

void GpuLowering::onFirstThread(KernelBuilder &kernel,
                                function_ref<void()> body) {
  Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, inWarp,
                                      kernel.i64(0));
  kernel.when(first, body);
}

static LLVM::LLVMFuncOp makeKernel(ImplicitLocOpBuilder &builder,
                                   KernelBuilder &kernel, StringRef name,
                                   const GpuTuning &tuning) {
  Type i64 = builder.getI64Type();
  SmallVector<Type> types;
  for (unsigned i = 0; i < memberCount; ++i)
    types.push_back(isCount(Member(i)) ? i64 : Type(kernel.pointerType()));
  types.append(2, i64); // begin, end
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()), types);
  auto function = LLVM::LLVMFuncOp::create(builder, name, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    builder.getDenseI32ArrayAttr({ALTGRAD_BLOCK_THREADS}));
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    builder.getI32IntegerAttr(tuning.residentBlocks));
  return function;
}

void GpuLowering::lower(PhaseOp phase) {
  OpBuilder::InsertionGuard guard(builder);
  KernelBuilder kernel(builder, step, /*addressSpace=*/1);
  Block *entry = makeKernel(builder, kernel, symbolOf(phase), target.gpu)
                     .addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  for (unsigned i = 0; i < memberCount; ++i)
    kernel.members[i] = entry->getArgument(i);
  begin = entry->getArgument(memberCount);
  end = entry->getArgument(memberCount + 1);
  inBlock = special("llvm.nvvm.read.ptx.sreg.tid.x");
  block = special("llvm.nvvm.read.ptx.sreg.ctaid.x");
  blocks = special("llvm.nvvm.read.ptx.sreg.nctaid.x");
  inWarp = arith::AndIOp::create(builder, inBlock, kernel.i64(warpThreads - 1));
  auto scaled = [&](Value count, int64_t by) -> Value {
    return arith::MulIOp::create(builder, count, kernel.i64(by));
  };
  warp = arith::AddIOp::create(
      builder, scaled(block, warpsPerBlock),
      arith::DivUIOp::create(builder, inBlock, kernel.i64(warpThreads)));
  warps = scaled(blocks, warpsPerBlock);
  Value global = arith::AddIOp::create(
      builder, scaled(block, ALTGRAD_BLOCK_THREADS), inBlock);
  if (SweepOp sweep = phase.getSweep()) {
    lowerSweep(kernel, sweep);
  } else if (phase.count<FoldOp>()) {
    lowerFolds(kernel, phase);
  } else if (phase.getDomain() == Domain::Once) {
    Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                        global, kernel.i64(0));
    kernel.when(first, [&] { ScalarLowering(kernel, Row{}).lower(phase); });
  } else {
    kernel.loop(arith::AddIOp::create(builder, begin, global), end,
                scaled(blocks, ALTGRAD_BLOCK_THREADS), [&](Value index) {
                  ScalarLowering(kernel, kernel.row(index)).lower(phase);
                });
  }
  LLVM::ReturnOp::create(builder, ValueRange{});
}

//===-- Reductions ----------------------------------------------------------===//

SmallVector<Value> GpuLowering::elementsOf(Value vector) {
  SmallVector<Value> elements;
  int64_t width = cast<VectorType>(vector.getType()).getNumElements();
  for (int64_t i = 0; i < width; ++i)
    elements.push_back(
        vector::ExtractOp::create(builder, vector, ArrayRef<int64_t>{i}));
  return elements;
}

Value GpuLowering::joinElements(Reduction kind, SmallVector<Value> elements) {
  for (size_t half = elements.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      elements[i] = join(builder, kind, elements[i], elements[i + half]);
  return elements[0];
}

Value GpuLowering::joinThreads(KernelBuilder &kernel, Reduction kind,
                               Value sum) {
  auto type = cast<VectorType>(sum.getType());
  Type element = type.getElementType();
  StringAttr shuffle = builder.getStringAttr(
      element.isInteger(32) ? "llvm.nvvm.shfl.sync.down.i32"
                            : "llvm.nvvm.shfl.sync.down.f32");
  SmallVector<Value> elements = elementsOf(sum);
  for (int32_t distance = warpThreads / 2; distance; distance /= 2)
    for (Value &mine : elements) {
      Value other = LLVM::CallIntrinsicOp::create(
                        builder, element, shuffle,
                        ValueRange{kernel.i32(-1), mine, kernel.i32(distance),
                                   kernel.i32(warpThreads - 1)})
                        .getResult(0);
      mine = join(builder, kind, mine, other);
    }
  return vector::FromElementsOp::create(builder, type, elements);
}

// Thread t of the warp holds the lanes t, t + 32, … t + 224.
Value GpuLowering::foldRow(KernelBuilder &kernel, FoldOp fold, Row row) {
  Reduction kind = fold.getReduction();
  Type scalar = partialType(kind, builder.getF32Type());
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  Value first = kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
  Value count = kernel.rowHeader(row, ALTGRAD_ROW_CHUNKS);
  auto added = [&](Value sum, Value i) -> Value {
    Value inside = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, i,
                                         count);
    auto branch = scf::IfOp::create(builder, TypeRange{scalar}, inside,
                                    /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value from = kernel.chunkWord(fold.getWord(),
                                  arith::AddIOp::create(builder, first, i));
    scf::YieldOp::create(
        builder, ValueRange{join(builder, kind, sum,
                                 kernel.load(scalar, from, 4))});
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, ValueRange{sum});
    return branch.getResult(0);
  };
  SmallVector<Value> initial(perThread, neutral(builder, kind, scalar));
  SmallVector<Value> sums = kernel.loopWith(
      kernel.i64(0), count, kernel.i64(ALTGRAD_LANES), initial,
      [&](Value base, SmallVector<Value> carried) {
        Value at = arith::AddIOp::create(builder, base, inWarp);
        for (int64_t j = 0; j < perThread; ++j)
          carried[j] = added(
              carried[j],
              arith::AddIOp::create(builder, at, kernel.i64(j * warpThreads)));
        return carried;
      });
  Value own = joinElements(kind, sums);
  Value one = vector::FromElementsOp::create(
      builder, VectorType::get({1}, scalar), own);
  return joinElements(kind, elementsOf(joinThreads(kernel, kind, one)));
}

// All threads of a warp fold; the first one keeps.
void GpuLowering::lowerFolds(KernelBuilder &kernel, PhaseOp phase) {
  Value from = arith::AddIOp::create(builder, begin, warp);
  kernel.loop(from, end, warps, [&](Value index) {
    Row row = kernel.row(index);
    ScalarLowering scalars(kernel, row);
    for (Operation &op : phase.getBody().front())
      if (auto fold = dyn_cast<FoldOp>(op))
        scalars.known.map(fold.getValue(), foldRow(kernel, fold, row));
      else
        onFirstThread(kernel, [&] { scalars.lower(op); });
  });
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
    auto kernels =
        gpu::GPUModuleOp::create(builder, steps[0].getLoc(), "kernels");
    for (StepOp step : steps) {
      if (failed(checkPhases(step)))
        return signalPassFailure();
      for (auto phase : step.getBody().getOps<PhaseOp>())
        if (SweepOp sweep = phase.getSweep();
            sweep && (sweep.getWide().empty() ||
                      sweep.getWidth() != machine->vectorWidth)) {
          sweep.emitOpError()
              << "has a body for " << sweep.getWidth() << " elements, '"
              << target << "' wants " << machine->vectorWidth;
          return signalPassFailure();
        }
      GpuLowering lowering(step, *machine, &kernels.getBodyRegion().front());
      for (auto phase : step.getBody().getOps<PhaseOp>())
        lowering.lower(phase);
      step.erase();
    }
  }
};
} // namespace

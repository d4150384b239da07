// A step in sweeps ==> one function per phase for an x86-64 level.
#include "codegen/Passes.h"
#include "codegen/abi/Launches.h"
#include "codegen/common/Scalars.h"
#include "codegen/x86/HostSweep.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOHOSTPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

//===-- Folds ---------------------------------------------------------------===//

// Chunks of a tensor in the shape of elements of a chunk.
static Value fold(KernelBuilder &kernel, const Lanes &lanes, FoldOp op, Row row) {
  CodeBuilder &builder = kernel.builder;
  Value count = kernel.countChunks(row, op);
  Value first = kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
  lanes.clear();
  Type type = partialType(lanes.kind, builder.getF32Type());
  kernel.loop(kernel.i64(0), count, kernel.i64(1), [&](Value i) {
    Value from = kernel.chunkWord(op.getWord(), builder.add(first, i));
    Value at = lanes.at(i);
    Value sum = join(builder, lanes.kind, kernel.load(type, at, laneBytes), kernel.load(type, from, laneBytes));
    kernel.store(sum, at, laneBytes);
  });
  return lanes.total();
}

// Memory of the lanes is taken once, not for every row.
static void lowerFolds(KernelBuilder &kernel, const Target &target, PhaseOp phase, Value begin, Value end) {
  DenseMap<Operation *, Lanes> all;
  for (auto op : phase.getBody().getOps<FoldOp>())
    all[op] = Lanes::allocate(kernel, op.getReduction(), target.vectorWidth, isOrdered(op.getReduction()));
  auto foldRow = [&](Row row) {
    ScalarLowering scalars(kernel, row);
    for (Operation &op : phase.getBody().front())
      if (auto folded = dyn_cast<FoldOp>(op))
        scalars.known.map(folded.getValue(), fold(kernel, all[&op], folded, row));
      else
        scalars.lower(op);
  };
  bool overTensors = (*phase.getBody().getOps<FoldOp>().begin()).getTensor();
  kernel.loop(begin, end, kernel.i64(1), [&](Value index) {
    Row row = kernel.row(index);
    if (overTensors) // 256 lanes are much for each unit that folds nothing
      kernel.when(kernel.beginsTensor(row), [&] { foldRow(row); });
    else
      foldRow(row);
  });
}

//===-- Phases --------------------------------------------------------------===//

// void symbol(const altgrad_args *, int64_t begin, int64_t end)
static void lowerPhase(KernelBuilder &kernel, const Target &target, PhaseOp phase) {
  CodeBuilder &builder = kernel.builder;
  OpBuilder::InsertionGuard guard(builder);
  Type i64 = builder.getI64Type();
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {kernel.pointerType(), i64, i64});
  std::string name = getSymbol(phase) + "_" + target.suffix.str();
  auto function = LLVM::LLVMFuncOp::create(builder, name, type);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  for (unsigned i = 0; i < memberCount; ++i) {
    kernel.members[i] = kernel.load(isCount(Member(i)) ? i64 : Type(kernel.pointerType()),
                                    kernel.offset(entry->getArgument(0), kernel.i64(i), 8), 8);
  }
  Value begin = entry->getArgument(1), end = entry->getArgument(2);
  if (SweepOp sweep = phase.getSweep())
    HostSweep(kernel, target, sweep).lower(begin, end);
  else if (phase.count<FoldOp>())
    lowerFolds(kernel, target, phase, begin, end);
  else if (phase.getDomain() == Domain::Rows)
    kernel.loop(begin, end, kernel.i64(1),
                [&](Value index) { ScalarLowering(kernel, kernel.row(index)).lower(phase); });
  else
    ScalarLowering(kernel, Row{}).lower(phase);
  LLVM::ReturnOp::create(builder, ValueRange{});
}

namespace {
struct LowerToHost : altgrad::impl::LowerToHostPassBase<LowerToHost> {
  using LowerToHostPassBase::LowerToHostPassBase;

  void runOnOperation() override {
    const Target *target = findTarget(level);
    if (!target || target->isPtx()) {
      getOperation().emitError() << "unknown x86-64 level '" << level << "'";
      return signalPassFailure();
    }
    for (StepOp step : llvm::make_early_inc_range(getOperation().getOps<StepOp>())) {
      if (failed(checkForm(step, getArgument(), Form::Vectorized, Form::FastPath, /*inPhases=*/true)))
        return signalPassFailure();
      for (auto phase : step.getBody().getOps<PhaseOp>())
        if (SweepOp sweep = phase.getSweep();
            sweep && (failed(checkSweep(sweep, *target)) || failed(checkDraws(sweep, *target))))
          return signalPassFailure();
      if (!getOperation().lookupSymbol(prefetchVariable)) {
        OpBuilder top = OpBuilder::atBlockBegin(getOperation().getBody());
        LLVM::GlobalOp::create(top, step.getLoc(), top.getI64Type(),
                               /*isConstant=*/false, LLVM::Linkage::External, prefetchVariable, Attribute());
      }
      CodeBuilder builder(step.getLoc(), step.getContext());
      builder.setInsertionPoint(step);
      KernelBuilder kernel(builder, step, /*addressSpace=*/0);
      for (auto phase : step.getBody().getOps<PhaseOp>())
        if (phase.getPhaseKind() != PhaseKind::Matrix) // the runtime's
          lowerPhase(kernel, *target, phase);
      step.erase();
    }
  }
};
} // namespace

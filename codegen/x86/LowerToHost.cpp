// A step in sweeps ==> one function per phase for an x86-64 level.
#include "codegen/Passes.h"
#include "codegen/abi/Launches.h"
#include "codegen/x86/HostLowering.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOHOSTPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// void symbol(const altgrad_args *, int64_t begin, int64_t end)
void HostLowering::lower(PhaseOp phase) {
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
    lowerSweep(sweep, begin, end);
  else if (phase.count<FoldOp>())
    lowerFolds(phase, begin, end);
  else if (phase.getDomain() == Domain::Rows)
    kernel.loop(begin, end, kernel.i64(1),
                [&](Value index) { ScalarLowering(kernel, kernel.row(index)).lower(phase); });
  else
    ScalarLowering(kernel, Row{}).lower(phase);
  LLVM::ReturnOp::create(builder, ValueRange{});
}

//===-- Reductions ----------------------------------------------------------===//

Lanes HostLowering::makeLanes(Reduction kind, unsigned chunkWord, bool ordered) {
  int64_t count = ordered ? ALTGRAD_LANES : target.vectorWidth;
  Value memory =
      LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getI32Type(), kernel.i64(count), /*alignment=*/64);
  return {kind, chunkWord, count, memory};
}

Value HostLowering::lane(const Lanes &lanes, Value index) {
  index = builder.bitAnd(index, kernel.i64(lanes.count - 1));
  return kernel.offset(lanes.memory, index, laneBytes);
}

Value HostLowering::neutralVector(const Lanes &lanes) {
  auto vector = VectorType::get({target.vectorWidth}, builder.getF32Type());
  return neutral(builder, lanes.kind, partialType(lanes.kind, vector));
}

// From a vector on.
void HostLowering::clear(const Lanes &lanes, int64_t from) {
  int64_t width = target.vectorWidth;
  for (int64_t i = from * width; i < lanes.count; i += width)
    kernel.store(neutralVector(lanes), lane(lanes, kernel.i64(i)), width * laneBytes);
}

// The tree 128, 64 … 1: in memory while a vector holds no more than half of what is left, then inside one vector.
Value HostLowering::total(const Lanes &lanes) {
  int64_t width = target.vectorWidth;
  Type type = neutralVector(lanes).getType();
  SmallVector<Value> sums;
  for (int64_t i = 0; i < lanes.count; i += width)
    sums.push_back(kernel.load(type, lane(lanes, kernel.i64(i)), width * laneBytes));
  for (size_t half = sums.size() / 2; half; half /= 2)
    for (size_t i = 0; i < half; ++i)
      sums[i] = join(builder, lanes.kind, sums[i], sums[i + half]);
  return joinLanes(lanes.kind, sums[0]);
}

// The tree of neighbours.
Value HostLowering::totalOfNeighbours(const Lanes &lanes) {
  int64_t width = target.vectorWidth;
  SmallVector<Value> sums;
  for (int64_t i = 0; i < lanes.count; i += width)
    sums.push_back(kernel.load(neutralVector(lanes).getType(), lane(lanes, kernel.i64(i)), width * laneBytes));
  auto joinPairs = [&](Value a, Value b, int64_t pairs) {
    Value even = pick(builder, a, b, 0, pairs, 2), odd = pick(builder, a, b, 1, pairs, 2);
    return join(builder, lanes.kind, even, odd);
  };
  for (; sums.size() > 1; sums.truncate(sums.size() / 2))
    for (size_t i = 0; i < sums.size() / 2; ++i)
      sums[i] = joinPairs(sums[2 * i], sums[2 * i + 1], width);
  for (int64_t pairs = width / 2; pairs; pairs /= 2)
    sums[0] = joinPairs(sums[0], sums[0], pairs);
  return builder.element(sums[0], 0);
}

// The tree inside one vector.
Value HostLowering::joinLanes(Reduction kind, Value sum) {
  int64_t width = cast<VectorType>(sum.getType()).getNumElements();
  for (int64_t half = width / 2; half; half /= 2) {
    Value low = pick(builder, sum, sum, 0, half), high = pick(builder, sum, sum, half, half);
    sum = join(builder, kind, low, high);
  }
  return builder.element(sum, 0);
}

// Chunks of a tensor in the shape of elements of a chunk.
Value HostLowering::fold(const Lanes &lanes, Row row, Value count) {
  Value first = kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
  clear(lanes);
  Type type = partialType(lanes.kind, builder.getF32Type());
  kernel.loop(kernel.i64(0), count, kernel.i64(1), [&](Value i) {
    Value from = kernel.chunkWord(lanes.chunkWord, builder.add(first, i));
    Value at = lane(lanes, i);
    Value sum = join(builder, lanes.kind, kernel.load(type, at, laneBytes), kernel.load(type, from, laneBytes));
    kernel.store(sum, at, laneBytes);
  });
  return total(lanes);
}

// Memory of the lanes is taken once, not for every row.
void HostLowering::lowerFolds(PhaseOp phase, Value begin, Value end) {
  DenseMap<Operation *, Lanes> all;
  for (auto op : phase.getBody().getOps<FoldOp>())
    all[op] = makeLanes(op.getReduction(), op.getWord(), isOrdered(op.getReduction()));
  auto foldRow = [&](Row row) {
    ScalarLowering scalars(kernel, row);
    for (Operation &op : phase.getBody().front())
      if (auto folded = dyn_cast<FoldOp>(op))
        scalars.known.map(folded.getValue(), fold(all[&op], row, kernel.countChunks(row, folded)));
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
      HostLowering lowering(step, *target);
      for (auto phase : step.getBody().getOps<PhaseOp>())
        if (phase.getPhaseKind() != PhaseKind::Matrix) // the runtime's
          lowering.lower(phase);
      step.erase();
    }
  }
};
} // namespace

// A step in sweeps ==> one function per phase for an x86-64 level. A sweep goes a chunk after the other, as vectors and
// then element by element; block by block where elements of a block exchange values.
#include "codegen/Passes.h"
#include "codegen/abi/Launches.h"
#include "codegen/common/Scalars.h"
#include "codegen/x86/HostTiles.h"
#include "codegen/x86/RowSums.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOHOSTPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// A variable of the bundle, which the runtime sets for the CPU it finds.
static constexpr llvm::StringLiteral prefetchVariable = "altgrad_prefetch";

//===-- Sweeps --------------------------------------------------------------===//

namespace {
// A sweep, with what its function has on the stack.
class HostSweep : HostEmitter {
public:
  // At the kernel's entry.
  HostSweep(KernelBuilder &kernel, const Target &target, SweepOp sweep);

  void lower(Value begin, Value end);

private:
  static SmallVector<Lanes> allocateLanes(KernelBuilder &kernel, const Target &target, SweepOp sweep);
  static Value loadPrefetch(KernelBuilder &kernel);
  void lowerChunk(Value index);
  // The elements of a chunk without blocks.
  void lowerElements(HostChunk &chunk, Value count);

  SmallVector<Lanes> lanes; // of every result
  Value ahead;
  HostDraws draws;
  HostElements elements;
  std::optional<Bf16PairSweep> pairs;
  std::optional<HostBlocks> blocks;
  std::optional<HostTiles> tiles;
};
} // namespace

SmallVector<Lanes> HostSweep::allocateLanes(KernelBuilder &kernel, const Target &target, SweepOp sweep) {
  bool byRows = RowSums::canLower(sweep, target);
  SmallVector<Lanes> lanes;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    Reduction kind = sweep.getReduction(i);
    lanes.push_back(Lanes::allocate(kernel, kind, target.vectorWidth, isOrdered(byRows ? getFoldKind(kind) : kind)));
  }
  return lanes;
}

Value HostSweep::loadPrefetch(KernelBuilder &kernel) {
  CodeBuilder &builder = kernel.builder;
  return kernel.load(builder.getI64Type(), LLVM::AddressOfOp::create(builder, kernel.pointerType(), prefetchVariable),
                     8);
}

HostSweep::HostSweep(KernelBuilder &kernel, const Target &target, SweepOp sweep)
    : HostEmitter(kernel, target, sweep), lanes(allocateLanes(kernel, target, sweep)), ahead(loadPrefetch(kernel)),
      draws(*this), elements(*this, draws, ahead) {
  const HostEmitter &emitter = *this;
  if (isBlockwise(sweep))
    blocks.emplace(emitter, elements);
  else if (!getStages(sweep.getBody()).empty())
    pairs.emplace(emitter, ahead);
  SweepOp waiting = sweep.getTiles();
  if (waiting || sweep.usesTiles())
    tiles.emplace(emitter, waiting, elements, blocks ? &*blocks : nullptr);
}

void HostSweep::lower(Value begin, Value end) {
  kernel.loop(begin, end, kernel.i64(1), [&](Value index) {
    if (tiles)
      tiles->lower(index);
    else
      forEachRow(kernel, sweep, index, [&] { lowerChunk(index); });
  });
}

void HostSweep::lowerChunk(Value index) {
  ChunkSpan span = kernel.openChunk(index, sweep.getWalk());
  Row row = span.row;
  Value first = span.first, count = span.count;
  HostChunk chunk{lanes};
  ScalarLowering scalars(kernel, row);
  scalars.lowerScalarsFor(sweep, count);
  chunk.known = scalars.known;
  chunk.count = count;

  if (usesIndex(sweep) || usesDraws(sweep))
    chunk.base = kernel.globalIndex(row, first);
  auto pointers = [&](OperandRange streams) {
    return llvm::map_to_vector(
        streams, [&](Value tensors) { return getElementPointer(kernel, tensors, kernel.stream(tensors, row), first); });
  };
  chunk.loadPointers = pointers(sweep.getLoads());
  draws.drawAll(chunk, row);
  chunk.storePointers = pointers(sweep.getStores());
  if (!RowSums::canLower(sweep, target))
    for (const Lanes &one : lanes)
      one.clear();
  if (blocks)
    blocks->lower(chunk, count);
  else
    lowerElements(chunk, count);
  for (auto [i, one] : llvm::enumerate(lanes))
    storePartial(kernel, sweep, i, getChunkNumber(kernel, sweep, index), one.total());
}

void HostSweep::lowerElements(HostChunk &chunk, Value count) {
  int64_t width = sweep.getWidth();
  Value whole = builder.bitAnd(count, kernel.i64(pairs ? -pairs->elementsAtOnce() : -width));
  Value done = kernel.i64(0);
  if (RowSums::canLower(sweep, target)) {
    done = builder.bitAnd(count, kernel.i64(-ALTGRAD_LANES));
    RowSums(*this, elements).lower(chunk, done);
  }
  if (pairs)
    pairs->lower(whole, chunk);
  else
    elements.lower(chunk, sweep.getWide().front(), width, done, whole);
  elements.lower(chunk, sweep.getBody(), 1, whole, count);
}

//===-- Folds ---------------------------------------------------------------===//

// Chunks of a tensor in the shape of elements of a chunk.
static Value fold(KernelBuilder &kernel, const Lanes &lanes, FoldOp op, Row row) {
  CodeBuilder &builder = kernel.builder;
  Value count = kernel.countChunks(row, op);
  Value first = kernel.firstPartial(row, op);
  lanes.clear();
  Type type = partialType(lanes.kind, builder.getF32Type());
  kernel.loop(kernel.i64(0), count, kernel.i64(1), [&](Value i) {
    Value from = kernel.partial(op, row, builder.add(first, i));
    Value at = lanes.at(i);
    Value sum = combine(builder, lanes.kind, kernel.load(type, at, laneBytes), kernel.load(type, from, laneBytes));
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
      kernel.when(kernel.isFirstRow(row), [&] { foldRow(row); });
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

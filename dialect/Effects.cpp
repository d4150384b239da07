// The order of reads and writes: an old content is read before it is overwritten.
#include "dialect/Dialect.h"
#include "dialect/WalkBack.h"

using namespace mlir;
using namespace altgrad;

namespace {
// What the operations of a step have written so far.
class Contents {
public:
  explicit Contents(StepOp step) : step(step), hasUnits(step.hasUnits()) {}
  LogicalResult visit(Operation &op);

private:
  struct Writer {
    Operation *op;
    Value condition;
  };
  LogicalResult visitSweep(SweepOp sweep);
  LogicalResult readScalar(Operation &op, BlockArgument scalar);
  bool isVisible(const Writer &writer, Operation &reader, BlockArgument scalar);
  StringRef getName(Value memory) {
    auto argument = dyn_cast<BlockArgument>(memory);
    return argument ? step.getName(argument) : "a list in the workspace";
  }

  StepOp step;
  const bool hasUnits;
  DenseMap<Value, SmallVector<Writer, 2>> writers; // of memory
  DenseMap<std::pair<Operation *, Operation *>, bool> compared;
};
} // namespace

// Whether two values are the same scalar of a step; each phase computes, reads or recalls it anew. `known` are pairs of
// operations that have been compared: what they share would otherwise be compared once for each way to it.
static bool isSame(Value one, Value other, DenseMap<std::pair<Operation *, Operation *>, bool> &known) {
  if (!one || !other || one == other)
    return one == other;
  Operation *a = one.getDefiningOp(), *b = other.getDefiningOp();
  if (!a || !b || cast<OpResult>(one).getResultNumber() != cast<OpResult>(other).getResultNumber())
    return false;
  if (auto it = known.find({a, b}); it != known.end())
    return it->second;
  bool same = a->getName() == b->getName() && a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute() &&
              a->getNumRegions() == 0 && a->getNumOperands() == b->getNumOperands() &&
              llvm::all_of(llvm::zip(a->getOperands(), b->getOperands()),
                           [&](auto pair) { return isSame(std::get<0>(pair), std::get<1>(pair), known); });
  return known[{a, b}] = same;
}

// The second sweep of a phase over tiles runs where the first one does.
static Value getCondition(SweepOp sweep) {
  auto before = dyn_cast_or_null<SweepOp>(sweep->getPrevNode());
  return before && before.getTiles() == sweep ? before.getCondition() : sweep.getCondition();
}

LogicalResult Contents::visitSweep(SweepOp sweep) {
  Value condition = getCondition(sweep);
  for (auto [index, stream] : llvm::enumerate(sweep.getLoads())) {
    bool isOfStep = isa<BlockArgument>(stream), isRenewed = sweep.isRenewed(index);
    auto stored = writers.lookup(stream);
    // sweep_c19
    if (isOfStep && !isRenewed && !stored.empty())
      return sweep.emitOpError() << "loads what '%" << getName(stream)
                                 << "' held before the step, which an earlier sweep has overwritten";
    // sweep_c21
    if (!isOfStep && isRenewed)
      return sweep.emitOpError("loads a list in the workspace as new, which has nothing from before the step");
    auto isThere = [&](const Writer &writer) {
      return !writer.condition || isSame(writer.condition, condition, compared);
    };
    // sweep_c20
    if ((!isOfStep || isRenewed) && llvm::none_of(stored, isThere))
      return sweep.emitOpError() << "loads " << (isOfStep ? "'%" : "") << getName(stream) << (isOfStep ? "'" : "")
                                 << ", where no earlier sweep has stored what it wants under no condition or its own";
  }
  for (Value stream : sweep.getStores())
    writers[stream].push_back({sweep, condition});
  return success();
}

// Whether items of the reader's phase find what the writer's have left: rows of other sets do not.
bool Contents::isVisible(const Writer &writer, Operation &reader, BlockArgument scalar) {
  auto one = writer.op->getParentOfType<PhaseOp>(), other = reader.getParentOfType<PhaseOp>();
  return !one || !other || step.getScope(scalar) == Scope::Step || !one.getSet() || !other.getSet() ||
         one.getSet() == other.getSet();
}

LogicalResult Contents::readScalar(Operation &op, BlockArgument scalar) {
  for (const Writer &writer : writers.lookup(scalar))
    // phase_c10
    if (isVisible(writer, op, scalar))
      return op.emitOpError() << "reads what '%" << step.getName(scalar)
                              << "' held before the step, which has been overwritten";
  auto phase = op.getParentOfType<PhaseOp>();
  bool isShared = hasUnits && step.getScope(scalar) == Scope::Tensor && phase.getDomain() == Domain::Rows;
  for (WriteOp write : isShared ? llvm::to_vector(phase.getBody().getOps<WriteOp>()) : SmallVector<WriteOp>())
    // phase_c11
    if (write.getTarget() == scalar)
      return op.emitOpError() << "reads '%" << step.getName(scalar)
                              << "', which its phase writes for another unit of the tensor";
  return success();
}

LogicalResult Contents::visit(Operation &op) {
  if (auto sweep = dyn_cast<SweepOp>(op))
    return visitSweep(sweep);
  if (auto phase = dyn_cast<PhaseOp>(op)) {
    for (Operation &inner : phase.getBody().front())
      if (failed(visit(inner)))
        return failure();
    return success();
  }
  auto work = dyn_cast<PhaseWork>(op);
  auto multiply = dyn_cast<MultiplyOp>(op);
  bool readsScalars = work && !multiply && op.getParentOfType<PhaseOp>();
  for (const MemoryAccess &access : readsScalars ? work.getReads() : SmallVector<MemoryAccess>())
    if (auto scalar = dyn_cast_or_null<BlockArgument>(access.memory))
      if (failed(readScalar(op, scalar)))
        return failure();
  for (const MemoryAccess &access : multiply ? multiply.getReads() : SmallVector<MemoryAccess>()) {
    auto stored = dyn_cast<BlockArgument>(access.memory);
    // multiply_c3
    if (!stored && !writers.contains(access.memory))
      return op.emitOpError("multiplies a list in the workspace that nothing has filled");
    // multiply_c5
    if (stored && writers.contains(stored))
      return op.emitOpError() << "multiplies what '%" << step.getName(stored)
                              << "' held before the step, which an earlier sweep has overwritten";
  }
  for (const MemoryAccess &access : work ? work.getWrites() : SmallVector<MemoryAccess>())
    if (access.memory)
      writers[access.memory].push_back({&op, Value()});
  return success();
}

LogicalResult altgrad::verifyEffects(StepOp step) {
  Contents contents(step);
  for (Operation &op : step.getBody().front())
    if (failed(contents.visit(op)))
      return failure();
  return success();
}

//===-- Inside a block --------------------------------------------------------===//

// The lists of elements that a stage loads for what it wants: all but what earlier ones have kept and reduced. What
// neighbours share is loaded before the first stage.
static llvm::SetVector<Value> findLoadedStreams(StageOp stage, SweepOp sweep, const DenseSet<Value> &kept) {
  llvm::SetVector<Value> streams;
  walkBack(stage.getRequired(), [&](Value value) {
    if (kept.contains(value) || isa_and_present<ReduceOp>(value.getDefiningOp()))
      return false;
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getOwner() == stage->getBlock() && argument.getArgNumber() < sweep.getLoads().size()) {
      Value stream = sweep.getLoads()[argument.getArgNumber()];
      BlockAttr block = cast<TensorsType>(stream.getType()).getBlock();
      if (block.isElement() || block.isOverRows())
        streams.insert(stream);
    }
    return value.getParentBlock() == stage->getBlock();
  });
  return streams;
}

LogicalResult StageOp::verify() {
  for (Value reduced : getReductions())
    // stage_c1
    if (auto reduce = reduced.getDefiningOp<ReduceOp>(); !reduce || !reduce.isOverBlock())
      return emitOpError("completes something that is no reduction over blocks");
  unsigned emitted = (*this)->getBlock()->back().getNumOperands();
  for (int64_t index : getEmitted())
    // stage_c2
    if (index < 0 || index >= emitted)
      return emitOpError() << "stores value " << index << " of " << emitted << " that its body emits";
  auto sweep = cast<SweepOp>((*this)->getParentOp());
  DenseSet<Value> kept, stored;
  for (Operation &op : *(*this)->getBlock()) {
    if (&op == getOperation())
      break;
    auto stage = dyn_cast<StageOp>(op);
    for (Value value : stage ? stage.getKept() : ValueRange())
      kept.insert(value);
    for (int64_t index : stage ? stage.getEmitted() : ArrayRef<int64_t>())
      if (int64_t store = index - sweep.getNumResults(); store >= 0 && store < int64_t(sweep.getStores().size()))
        stored.insert(sweep.getStores()[store]);
  }
  for (Value stream : findLoadedStreams(*this, sweep, kept))
    // stage_c3
    if (stored.contains(stream))
      return emitOpError() << "loads a list of " << stream.getType() << " that an earlier stage has overwritten";
  return success();
}

// Verification of phases, and questions about them.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace altgrad;

SweepOp PhaseOp::getSweep() {
  auto sweeps = getBody().getOps<SweepOp>();
  return sweeps.empty() ? SweepOp() : *sweeps.begin();
}

unsigned PhaseOp::countScalars() {
  return llvm::count_if(getBody().front(), [](Operation &op) {
    return !isa<AltgradDialect>(op.getDialect()) && !op.hasTrait<OpTrait::ConstantLike>();
  });
}

// The argument of the step that `value` is, or null.
static BlockArgument getArgument(Value value) {
  auto argument = dyn_cast_or_null<BlockArgument>(value);
  return argument && isa<StepOp>(argument.getOwner()->getParentOp()) ? argument : BlockArgument();
}

// Whether a place differs between tensors or groups.
static bool isPerRow(StepOp step, const MemoryAccess &access) {
  if (!access.memory)
    return access.space != Space::Step;
  BlockArgument argument = getArgument(access.memory);
  return argument && (isa<TensorsType>(argument.getType()) || step.getScope(argument) != Scope::Step);
}

// Lists in the workspace are of any set: the sweep that fills them says which.
static LogicalResult verifyAccess(PhaseOp phase, Operation &op, const MemoryAccess &access) {
  auto step = phase->getParentOfType<StepOp>();
  // phase_c7
  if (phase.getDomain() == Domain::Once && isPerRow(step, access))
    return op.emitOpError("is about a tensor or a group, in a phase that runs once "
                          "for all of them");
  BlockArgument argument = getArgument(access.memory);
  std::optional<unsigned> set = argument ? step.getSet(argument) : std::optional<unsigned>();
  // phase_c3
  if (set && set != phase.getSet().value_or(0))
    return op.emitOpError() << "uses '%" << step.getName(argument) << "', which is not of the set of its phase";
  return success();
}

static LogicalResult verifyWork(PhaseOp phase, Operation &op, PhaseWork work) {
  std::optional<Domain> item = work.getItem();
  // phase_c1
  if (item && *item != phase.getDomain())
    return op.emitOpError() << "is in a phase of '" << stringifyDomain(phase.getDomain()) << "', expected one of '"
                            << stringifyDomain(*item) << "'";
  for (const SmallVector<MemoryAccess> &accesses : {work.getReads(), work.getWrites()})
    for (const MemoryAccess &access : accesses)
      if (failed(verifyAccess(phase, op, access)))
        return failure();
  return success();
}

static LogicalResult verifySweep(SweepOp sweep) {
  for (Value reduced : sweep.getReduced())
    // phase_c8
    if (llvm::none_of(reduced.getUsers(), [](Operation *user) { return isa<WorkspaceStoreOp>(user); }))
      return sweep.emitOpError("reduces what its phase keeps in no chunk");
  return success();
}

LogicalResult PhaseOp::verify() {
  auto step = (*this)->getParentOfType<StepOp>();
  for (Operation &op : getBody().front())
    if (auto work = dyn_cast<PhaseWork>(op); work && failed(verifyWork(*this, op, work)))
      return failure();
  // phase_c2
  if (getDomain() == Domain::Chunks && count<SweepOp>() != 1 + (getSweep() && getSweep().getTiles()))
    return emitOpError() << "is over chunks and has " << count<SweepOp>() << " sweeps, expected 1";
  // phase_c4
  if (getExchange() && getDomain() != Domain::Once && !count<FoldOp>())
    return emitOpError("has an exchange and neither runs once nor folds");
  // phase_c5
  if (getSet() && *getSet() >= step.getSetCount())
    return emitOpError() << "is of set " << *getSet() << " of " << step.getSetCount();
  auto folds = getBody().getOps<FoldOp>();
  for (FoldOp fold : folds)
    // phase_c6
    if (FoldOp first = *folds.begin(); fold.getTensor() != first.getTensor() || fold.getWalk() != first.getWalk())
      return fold.emitOpError("is beside a fold that is over other chunks: one of both is over tensors, or of squares");
  unsigned products = count<MultiplyOp>();
  // phase_c9
  if (products && products != getBody().front().getOperations().size())
    return emitOpError("has products of matrices and something else");
  for (auto sweep : getBody().getOps<SweepOp>())
    if (failed(verifySweep(sweep)))
      return failure();
  return success();
}

LogicalResult ReadOp::verify() {
  // read_c1
  if (!getArgument(getScalar()))
    return emitOpError("reads something that is no argument of the step");
  return success();
}

LogicalResult WriteOp::verify() {
  BlockArgument target = getArgument(getTarget());
  auto step = (*this)->getParentOfType<StepOp>();
  // write_c1
  if (!target || !step || step.getAccess(target) == Access::In)
    return emitOpError("writes something that is no out or inout argument of "
                       "the step");
  return success();
}

// What phases before that of `op` keep in a word.
static SmallVector<Value> findEarlierStores(Operation *op, Space space, uint64_t word) {
  SmallVector<Value> stored;
  Operation *phase = op->getParentOfType<PhaseOp>();
  if (space == Space::Tensor)
    space = Space::Row;
  while (phase && (phase = phase->getPrevNode()))
    if (auto earlier = dyn_cast<PhaseOp>(phase))
      for (auto store : earlier.getBody().getOps<WorkspaceStoreOp>())
        if (store.getSpace() == space && store.getWord() == word)
          stored.push_back(store.getValue());
  return stored;
}

LogicalResult WorkspaceLoadOp::verify() {
  SmallVector<Value> stored = findEarlierStores(*this, getSpace(), getWord());
  // workspace_load_c1
  if (stored.empty())
    return emitOpError() << "recalls " << stringifySpace(getSpace()) << " " << getWord()
                         << ", which no earlier phase keeps";
  // workspace_load_c2
  if (!llvm::is_contained(ValueRange(stored).getTypes(), getType()))
    return emitOpError() << "recalls " << stringifySpace(getSpace()) << " " << getWord() << " as " << getType()
                         << ", kept as " << stored.front().getType();
  return success();
}

LogicalResult WorkspaceStoreOp::verify() {
  // workspace_store_c2
  if (getSpace() == Space::Tensor)
    return emitOpError("keeps a scalar in a tensor, whose words are those of a row");
  bool reduced = getValue().getDefiningOp<SweepOp>() != nullptr;
  // workspace_store_c1
  if (reduced != (getSpace() == Space::Chunk))
    return emitOpError() << "keeps " << (reduced ? "what a sweep reduces in a " : "a scalar in a ")
                         << stringifySpace(getSpace());
  return success();
}

static bool hasType(Reduction reduction, Type type, unsigned bits) {
  return reduction == Reduction::And ? type.isInteger(bits) : type.isF32();
}

LogicalResult FoldOp::verify() {
  // fold_c1
  if (!hasType(getReduction(), getValue().getType(), 32))
    return emitOpError() << "by '" << stringifyReduction(getReduction()) << "' gives " << getValue().getType();
  auto isReduced = [&](Value value) {
    auto sweep = value.getDefiningOp<SweepOp>();
    return sweep && sweep.getFoldedWalk() == getWalk() &&
           getFoldKind(sweep.getReduction(cast<OpResult>(value).getResultNumber())) == getReduction();
  };
  auto isNumber = [](Value value) { return value.getType().isF32(); };
  // fold_c3
  if (getRows() && (!getTensor() || llvm::none_of(findEarlierStores(*this, Space::Row, getWord()), isNumber)))
    return emitOpError() << "is of row " << getWord() << ", in which no earlier phase keeps a number of each unit";
  // fold_c2
  if (!getRows() && llvm::none_of(findEarlierStores(*this, Space::Chunk, getWord()), isReduced))
    return emitOpError() << "by '" << stringifyReduction(getReduction()) << "' is of chunk " << getWord()
                         << ", in which no earlier sweep keeps that";
  return success();
}

LogicalResult TotalOp::verify() {
  // total_c1
  if (!hasType(getReduction(), getValue().getType(), 1))
    return emitOpError() << "by '" << stringifyReduction(getReduction()) << "' gives " << getValue().getType();
  auto isFolded = [&](Value value) { return hasType(getReduction(), value.getType(), 32); };
  // total_c2
  if (llvm::none_of(findEarlierStores(*this, Space::Row, getWord()), isFolded))
    return emitOpError() << "by '" << stringifyReduction(getReduction()) << "' is of row " << getWord()
                         << ", in which no earlier phase keeps that";
  return success();
}

// Verification of phases, and questions about them.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace altgrad;

SweepOp PhaseOp::getSweep() {
  auto sweeps = getBody().getOps<SweepOp>();
  return sweeps.empty() ? SweepOp() : *sweeps.begin();
}

StringRef PhaseOp::getKind() {
  if (getSweep())
    return "sweep";
  if (count<FoldOp>())
    return "fold";
  return getExchange() ? "total" : "scalars";
}

unsigned PhaseOp::countScalars() {
  return llvm::count_if(getBody().front(), [](Operation &op) {
    return !isa<AltgradDialect>(op.getDialect()) &&
           !op.hasTrait<OpTrait::ConstantLike>();
  });
}

// Where an operation of a phase may stand; none: anywhere.
static std::optional<Domain> domainOf(Operation &op) {
  if (isa<SweepOp>(op))
    return Domain::Chunks;
  if (isa<FoldOp>(op))
    return Domain::Rows;
  if (isa<TotalOp>(op))
    return Domain::Once;
  return std::nullopt;
}

// The argument of the step that `value` is, or null.
static BlockArgument argumentOf(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isa<StepOp>(argument.getOwner()->getParentOp())
             ? argument
             : BlockArgument();
}

// Whether an operation is about the item's tensor or group.
static bool needsRow(StepOp step, Operation &op) {
  if (auto recall = dyn_cast<RecallOp>(op))
    return recall.getSpace() != Space::Step;
  if (auto keep = dyn_cast<KeepOp>(op))
    return keep.getSpace() != Space::Step;
  if (!isa<ReadOp, WriteOp>(op))
    return isa<TagOp, DimOp>(op);
  auto read = dyn_cast<ReadOp>(op);
  BlockArgument argument =
      argumentOf(read ? read.getScalar() : cast<WriteOp>(op).getTarget());
  return argument && step.getScope(argument) != Scope::Step;
}

// Lists in the workspace are of any set: the sweep that fills them says which.
static LogicalResult verifySet(PhaseOp phase, SweepOp sweep) {
  auto step = phase->getParentOfType<StepOp>();
  for (OperandRange streams : {sweep.getLoads(), sweep.getStores()})
    for (Value stream : streams)
      // phase_c3
      if (auto argument = dyn_cast<BlockArgument>(stream);
          argument && step.getSet(argument) != phase.getSet().value_or(0))
        return sweep.emitOpError()
               << "moves '%" << step.getName(argument)
               << "', which is not of the set of its phase";
  for (Value reduced : sweep.getReduced())
    // phase_c8
    if (llvm::none_of(reduced.getUsers(),
                      [](Operation *user) { return isa<KeepOp>(user); }))
      return sweep.emitOpError("reduces what its phase keeps in no chunk");
  return success();
}

LogicalResult PhaseOp::verify() {
  auto step = (*this)->getParentOfType<StepOp>();
  for (Operation &op : getBody().front()) {
    // phase_c7
    if (getDomain() == Domain::Once && needsRow(step, op))
      return op.emitOpError("is about a tensor or a group, in a phase that runs once "
                            "for all of them");
    std::optional<Domain> domain = domainOf(op);
    // phase_c1
    if (domain && *domain != getDomain())
      return op.emitOpError() << "is in a phase of '"
                              << stringifyDomain(getDomain())
                              << "', expected one of '"
                              << stringifyDomain(*domain) << "'";
  }
  // phase_c2
  if (getDomain() == Domain::Chunks && count<SweepOp>() != 1)
    return emitOpError() << "is over chunks and has " << count<SweepOp>()
                         << " sweeps, expected 1";
  // phase_c4
  if (getExchange() && getDomain() != Domain::Once)
    return emitOpError("has an exchange and does not run once");
  // phase_c5
  if (getSet() && *getSet() >= step.getSetCount())
    return emitOpError() << "is of set " << *getSet() << " of "
                         << step.getSetCount();
  auto folds = getBody().getOps<FoldOp>();
  bool overTensors = !folds.empty() && (*folds.begin()).getTensor();
  for (FoldOp fold : folds)
    // phase_c6
    if (fold.getTensor() != overTensors)
      return fold.emitOpError("is beside a fold that is over other chunks: one of "
                              "both is over tensors");
  return getSweep() ? verifySet(*this, getSweep()) : success();
}

LogicalResult ReadOp::verify() {
  // read_c1
  if (!argumentOf(getScalar()))
    return emitOpError("reads something that is no argument of the step");
  return success();
}

LogicalResult WriteOp::verify() {
  BlockArgument target = argumentOf(getTarget());
  auto step = (*this)->getParentOfType<StepOp>();
  // write_c1
  if (!target || !step || step.getAccess(target) == "in")
    return emitOpError("writes something that is no out or inout argument of "
                       "the step");
  return success();
}

// What phases before that of `op` keep in a word.
static SmallVector<Value> keptBefore(Operation *op, Space space, uint64_t word) {
  SmallVector<Value> kept;
  Operation *phase = op->getParentOfType<PhaseOp>();
  if (space == Space::Tensor)
    space = Space::Row;
  while (phase && (phase = phase->getPrevNode()))
    if (auto earlier = dyn_cast<PhaseOp>(phase))
      for (auto keep : earlier.getBody().getOps<KeepOp>())
        if (keep.getSpace() == space && keep.getWord() == word)
          kept.push_back(keep.getValue());
  return kept;
}

LogicalResult RecallOp::verify() {
  SmallVector<Value> kept = keptBefore(*this, getSpace(), getWord());
  // recall_c1
  if (kept.empty())
    return emitOpError() << "recalls " << stringifySpace(getSpace()) << " "
                         << getWord() << ", which no earlier phase keeps";
  // recall_c2
  if (!llvm::is_contained(ValueRange(kept).getTypes(), getType()))
    return emitOpError() << "recalls " << stringifySpace(getSpace()) << " "
                         << getWord() << " as " << getType() << ", kept as "
                         << kept.front().getType();
  return success();
}

LogicalResult KeepOp::verify() {
  // keep_c2
  if (getSpace() == Space::Tensor)
    return emitOpError("keeps a scalar in a tensor, whose words are those of a row");
  bool reduced = getValue().getDefiningOp<SweepOp>() != nullptr;
  // keep_c1
  if (reduced != (getSpace() == Space::Chunk))
    return emitOpError() << "keeps "
                         << (reduced ? "what a sweep reduces in a "
                                     : "a scalar in a ")
                         << stringifySpace(getSpace());
  return success();
}

static bool hasType(Reduction reduction, Type type, unsigned bits) {
  return reduction == Reduction::And ? type.isInteger(bits) : type.isF32();
}

LogicalResult FoldOp::verify() {
  // fold_c1
  if (!hasType(getReduction(), getValue().getType(), 32))
    return emitOpError() << "by '" << stringifyReduction(getReduction())
                         << "' gives " << getValue().getType();
  auto isReduced = [&](Value value) {
    auto sweep = value.getDefiningOp<SweepOp>();
    return sweep && sweep.getReduction(cast<OpResult>(value).getResultNumber()) ==
                        getReduction();
  };
  // fold_c2
  if (llvm::none_of(keptBefore(*this, Space::Chunk, getWord()), isReduced))
    return emitOpError() << "by '" << stringifyReduction(getReduction())
                         << "' is of chunk " << getWord()
                         << ", in which no earlier sweep keeps that";
  return success();
}

LogicalResult TotalOp::verify() {
  // total_c1
  if (!hasType(getReduction(), getValue().getType(), 1))
    return emitOpError() << "by '" << stringifyReduction(getReduction())
                         << "' gives " << getValue().getType();
  auto isFolded = [&](Value value) {
    return hasType(getReduction(), value.getType(), 32);
  };
  // total_c2
  if (llvm::none_of(keptBefore(*this, Space::Row, getWord()), isFolded))
    return emitOpError() << "by '" << stringifyReduction(getReduction())
                         << "' is of row " << getWord()
                         << ", in which no earlier phase keeps that";
  return success();
}

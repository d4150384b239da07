// Text and verification of steps, but for their signature.
#include "dialect/Codecs.h"
#include "dialect/RowSets.h"
#include "dialect/Variance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace altgrad;

//===-- Step ----------------------------------------------------------------===//

CommitOp StepOp::getCommit() { return cast<CommitOp>(getBody().front().getTerminator()); }

// What an operation needs the rows of its set to be.
static RowKind getRowKind(Operation *op) {
  auto isOver = [](Scope scope) { return scope == Scope::Unit ? RowKind::Unit : RowKind::Tensor; };
  if (auto sweep = dyn_cast<SweepOp>(op)) {
    auto isOverUnit = [&](unsigned index) { return sweep.getScope(index) == Scope::Unit; };
    return sweep.getWalk() != Walk::Chunks && sweep.getWalk() < Walk::RowSquares ? RowKind::MatrixRow
           : llvm::any_of(llvm::seq(sweep.getNumResults()), isOverUnit)          ? RowKind::Unit
                                                                                 : RowKind::Tensor;
  }
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.isOverColumn() ? RowKind::MatrixRow : isOver(reduce.getScope());
  if (auto norm = dyn_cast<NormOp>(op))
    return isOver(norm.getScope());
  return isUnitLength(op) ? RowKind::Unit : RowKind::Tensor;
}

RowKind StepOp::getRowKind(std::optional<unsigned> set) {
  RowKind kind = RowKind::Tensor;
  for (BlockArgument argument : getBody().getArguments()) {
    auto tensors = dyn_cast<TensorsType>(argument.getType());
    if (set && getSet(argument).value_or(0) != *set)
      continue;
    kind = std::max(kind, tensors && tensors.isPerColumn()    ? RowKind::MatrixRow
                          : getScope(argument) == Scope::Unit ? RowKind::Unit
                                                              : RowKind::Tensor);
  }
  walk([&](Operation *op) {
    auto phase = op->getParentOfType<PhaseOp>();
    if (!set || !phase || phase.getSet().value_or(0) == *set)
      kind = std::max(kind, ::getRowKind(op));
  });
  return kind;
}

// Rows of the table are units, and a scalar has one place for each tensor.
static LogicalResult verifyUnits(StepOp step, const Variances &variances) {
  CommitOp commit = step.getCommit();
  // step_c26
  if (Value condition = commit.getCondition(); condition && variances.getScope(condition) >= Scope::Unit)
    return commit.emitOpError("has a condition that differs between units");
  auto isOne = [&](Value value, Value target) {
    return isa<TensorsType>(target.getType()) || variances.getScope(value) < Scope::Unit ||
           step.getScope(cast<BlockArgument>(target)) == Scope::Unit;
  };
  for (auto [value, target, condition] : commit.writes())
    if (!isOne(value, target))
      return commit.emitOpError() << "writes a value that differs between units to '%"
                                  << step.getName(cast<BlockArgument>(target)) << "'";
  return success();
}

// Whether `user` asks for what an argument held; passes decide what sweeps and phases do.
static bool readsArgument(Operation *user, BlockArgument argument) {
  if (auto commit = dyn_cast<CommitOp>(user))
    return commit.getCondition() == argument || llvm::is_contained(commit.getValues(), argument) ||
           llvm::is_contained(commit.getAlwaysValues(), argument);
  return !isa<SweepOp, PhaseOp, ReadOp, WriteOp>(user);
}

LogicalResult StepOp::verifyRegions() {
  if (failed(verifyLength(*this, getBody().front(), maxOperations + maxOperationsOfSet * getSetCount())))
    return failure();
  // A symbol table of the step's own would hide the rules of the module from `update`.
  llvm::StringSet<> names;
  for (auto phase : getBody().getOps<PhaseOp>())
    // phase_c12
    if (!names.insert(phase.getName()).second)
      return phase.emitOpError() << "has the name '" << phase.getName() << "' of another phase";
  Variances variances(*this);
  for (Operation &op : getBody().front()) {
    auto draw = dyn_cast<DrawOp>(op);
    // draw_c2
    if (draw && (variances.isElement(draw.getSeed()) || variances.isElement(draw.getStep())))
      return op.emitOpError("has a seed or a step that differs between elements");
    if (failed(verifyClip(op, variances)) || failed(verifyMatrix(op, variances)))
      return failure();
    if (op.getDialect() == (*this)->getDialect() && !isa<RuleOp, StepOp>(op))
      continue;
    bool element = llvm::any_of(op.getResults(), [&](Value result) { return variances.isElement(result); });
    if (failed(verifyArithmetic(op)) || (element && failed(verifyElement(op))))
      return failure();
  }
  if (failed(verifyBlocks(*this, variances)))
    return failure();
  RowSets sets(*this);
  // step_c11
  if (Operation *meeting = sets.conflict())
    return meeting->emitOpError("brings lists of different sets together");
  for (ReduceOp reduce : getBody().getOps<ReduceOp>())
    // step_c18
    if (sets.count() > 1 && !sets.of(reduce.getValue()) && (!reduce.isOverBlock() || isOverTile(reduce)))
      return reduce.emitOpError("reduces elements of no list; with several sets "
                                "it must be one's");
  if (hasUnits() && failed(verifyUnits(*this, variances)))
    return failure();
  if (failed(verifyEffects(*this)))
    return failure();
  DenseMap<unsigned, size_t> reductions, ofRuns;
  for (ReduceOp reduce : getBody().getOps<ReduceOp>()) {
    unsigned set = sets.of(reduce.getValue()).value_or(0);
    bool isOfRun = reduce.isOverBlock() && !isOverTile(reduce);
    // step_c22
    if (!isOfRun && ++reductions[set] > maxStepReductions)
      return reduce.emitOpError() << "is one of more than " << maxStepReductions << " over one set of tensors";
    // step_c27
    if (isOfRun && ++ofRuns[set] > maxRunReductions)
      return reduce.emitOpError() << "is one of more than " << maxRunReductions << " over blocks of one set of tensors";
  }
  CommitOp commit = getCommit();
  for (BlockArgument argument : getBody().getArguments()) {
    bool written =
        llvm::is_contained(commit.getTargets(), argument) || llvm::is_contained(commit.getAlwaysTargets(), argument);
    written |= llvm::any_of(argument.getUsers(), [&, argument = argument](Operation *user) {
      auto sweep = dyn_cast<SweepOp>(user);
      auto write = dyn_cast<WriteOp>(user);
      return (sweep && llvm::is_contained(sweep.getStores(), argument)) || (write && write.getTarget() == argument);
    });
    // step_c6
    if (written && getAccess(argument) == Access::In)
      return commit.emitOpError() << "writes '%" << getName(argument) << "', which is in";
    // step_c7
    if (!written && getAccess(argument) != Access::In)
      return commit.emitOpError() << "never writes '%" << getName(argument) << "', which is "
                                  << stringifyAccess(getAccess(argument));
    if (!written || getAccess(argument) != Access::Out)
      continue;
    for (Operation *user : argument.getUsers())
      // step_c8
      if (readsArgument(user, argument))
        return user->emitOpError() << "reads '%" << getName(argument) << "', which is out";
  }
  return success();
}

//===-- Quantize, commit ----------------------------------------------------===//

LogicalResult QuantizeOp::verify() {
  FormatAttr format = getTensors().getType().getFormat();
  // quantize_c1
  if (getOverflow() == OverflowMode::NonFinite && !format.getInf() && format.getNan() == Nan::None)
    return emitOpError("overflows to a non-finite code the format does not have");
  bool stochastic = getRounding() == Round::Stochastic;
  // quantize_c2
  if (stochastic != bool(getDraw()))
    return emitOpError() << "rounds " << stringifyRound(getRounding()) << " and "
                         << (stochastic ? "has no draw" : "has a draw");
  // quantize_c3
  if (getRounding() != Round::NearestEven && format.isF32())
    return emitOpError() << "rounds " << stringifyRound(getRounding()) << " to f32, where nothing is rounded";
  // quantize_c4
  if (getRounding() != Round::NearestEven && getCodecFacts(format).nearestOnly)
    return emitOpError() << "rounds " << stringifyRound(getRounding()) << " to " << format.getKnownName()
                         << "; a code book has the nearest number alone";
  return success();
}

LogicalResult RecodeOp::verify() {
  unsigned from = getCodes().getType().getFormat().getBits();
  unsigned to = getTensors().getType().getFormat().getBits();
  // recode_c1
  if (from != to || from > 8 || getCodes().getType().isShared() || getTensors().getType().isShared())
    return emitOpError() << "takes " << getCodes().getType() << " for " << getTensors().getType()
                         << "; codes of both have the same number of bits, at "
                            "most 8";
  return success();
}

SmallVector<CommitOp::Write> CommitOp::writes() {
  SmallVector<Write> all;
  for (auto [value, target] : llvm::zip(getAlwaysValues(), getAlwaysTargets()))
    all.push_back({value, target, Value()});
  for (auto [value, target] : llvm::zip(getValues(), getTargets()))
    all.push_back({value, target, getCondition()});
  return all;
}

LogicalResult CommitOp::verify() {
  // commit_c1
  if (getValues().size() != getTargets().size() || getAlwaysValues().size() != getAlwaysTargets().size())
    return emitOpError("has values and targets of uneven number");
  // commit_c2
  if (!getCondition() && !getValues().empty())
    return emitOpError("has an if list without a condition");
  llvm::DenseSet<Value> seen;
  for (auto [value, target, condition] : writes()) {
    // commit_c3
    if (!isa<BlockArgument>(target))
      return emitOpError("writes to something that is no argument of the step");
    // commit_c4
    if (!seen.insert(target).second)
      return emitOpError() << "writes argument " << cast<BlockArgument>(target).getArgNumber() << " twice";
    // commit_c5
    if (isa<TensorsType>(value.getType()) && isa<BlockArgument>(value))
      return emitOpError("writes an argument; dequantize and quantize it");
    Type expected = target.getType();
    if (auto tensors = dyn_cast<TensorsType>(expected); tensors && tensors.getFormat().isF32())
      expected = RealsType::get(getContext());
    // commit_c6
    if (value.getType() != expected)
      return emitOpError() << "writes " << value.getType() << " to " << target.getType();
  }
  return success();
}

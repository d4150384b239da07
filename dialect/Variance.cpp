// Variance spreads forward, operation by operation.
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

// Whether rows of the table, of which an operation of a phase has one, are tensors.
static bool hasWholeRows(Operation &op) {
  auto phase = op.getParentOfType<PhaseOp>();
  return !phase->getParentOfType<StepOp>().hasUnits(phase.getSet());
}

static bool isList(Value value) { return isa<TensorsType, RealsType>(value.getType()); }

// What the elements of a result share, of operands that share at least `least`.
BlockAttr Variances::getBlock(Operation &op, Value result, BlockAttr least) const {
  auto update = dyn_cast<UpdateOp>(op);
  if (update && !isList(result)) // a scalar state differs as before
    return of(
        update.getScalarStates().take_back(update->getNumResults() - cast<OpResult>(result).getResultNumber())[0]);
  if (unsigned state = update ? cast<OpResult>(result).getResultNumber() : 0) // one per column stays so
    if (BlockAttr block = of(update.getStates()[state - 1]); block.hasOwnWalk())
      return block;
  if (isa<MatrixOp, MatmulOp, FactorizeOp>(op)) // of a tensor or of a square
    return cast<TensorsType>(result.getType()).getBlock();
  if (auto entry = dyn_cast<EntryOp>(op))
    return entry.getMatrix().getType().getBlock();
  if (isa<IndexOp, DrawOp, RandomOp, UpdateOp, SpillOp, GramOp, ProductOp, SelectByAspectOp, OrthogonalizeOp>(op))
    return ofElement;
  if (isa<RowMeanSquareOp>(op))
    return ofUnit;
  if (isa<TagOp, DimOp, HasFirstOp, ScaleByShapeOp>(op))
    return ofTensor;
  if (auto across = dyn_cast<AcrossOp>(op))
    return across.getUnits() ? ofTensor : ofStep;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getOver();
  if (auto norm = dyn_cast<NormOp>(op))
    return BlockAttr::get(op.getContext(), norm.getScope());
  if (auto recall = dyn_cast<WorkspaceLoadOp>(op))
    return recall.getSpace() == Space::Step ? ofStep : ofTensor;
  if (auto fold = dyn_cast<FoldOp>(op))
    return fold.getTensor() || hasWholeRows(op) ? ofTensor : ofUnit;
  if (isa<ClipOp, UnscaleOp>(op) && !isList(result)) // a norm, a flag
    return ofStep;
  if (isList(result) || isa<LoadOp, DecodeOp, EncodeOp, AdvanceCodeOp, UpperCodeOp, LowerCodeOp, JoinCodesOp>(op))
    return least.meet(BlockAttr::get(op.getContext(), ShapedType::kDynamic, ShapedType::kDynamic));
  return least;
}

void Variances::visitSweep(SweepOp sweep) {
  for (auto [index, result] : llvm::enumerate(sweep.getReduced()))
    blocks[result] = sweep.getOver(index);
  for (Region &region : sweep->getRegions()) {
    for (auto [code, stream] : llvm::zip(region.getArguments(), sweep.getLoads()))
      blocks[code] = cast<TensorsType>(stream.getType()).getBlock();
    for (Operation &op : region.front())
      visit(op);
  }
}

void Variances::visit(Operation &op) {
  if (auto sweep = dyn_cast<SweepOp>(op))
    return visitSweep(sweep);
  if (auto phase = dyn_cast<PhaseOp>(op))
    for (Operation &inner : phase.getBody().front())
      visit(inner);
  if (auto store = dyn_cast<WorkspaceStoreOp>(op); store && store.getSpace() == Space::Row) {
    BlockAttr block = of(store.getValue());
    BlockAttr &known = rowWords.try_emplace(store.getWord(), block).first->second;
    known = known.meet(block);
    return;
  }
  if (auto recall = dyn_cast<WorkspaceLoadOp>(op); recall && recall.getSpace() == Space::Row) {
    auto known = rowWords.find(recall.getWord());
    blocks[recall.getResult()] = known != rowWords.end() ? known->second : hasWholeRows(op) ? ofTensor : ofUnit;
    return;
  }
  BlockAttr least = ofStep;
  for (Value operand : op.getOperands())
    least = least.meet(of(operand));
  for (Value result : op.getResults())
    blocks[result] = getBlock(op, result, least);
}

static BlockAttr named(Operation *op, Scope scope) { return BlockAttr::getOfState(op->getContext(), scope); }

Variances::Variances(RuleOp rule)
    : ofStep(named(rule, Scope::Step)), ofTensor(named(rule, Scope::Tensor)), ofUnit(named(rule, Scope::Unit)),
      ofElement(BlockAttr::get(rule.getContext(), 1, 1)) {
  for (BlockArgument argument : rule.getBody().getArguments()) {
    Role role = rule.getRole(argument);
    // The step that applies the rule may give each tensor hyper-parameters and a count of its own.
    bool isUsualHyper = role == Role::hyper && rule.getScope(argument) == Scope::Group;
    blocks[argument] = role == Role::option                 ? ofStep
                       : isUsualHyper || role == Role::step ? ofTensor
                       : role == Role::hyper                ? ofStep
                       : rule.isScalarState(argument) || rule.getScope(argument) >= Scope::Column
                           ? named(rule, rule.getScope(argument))
                           : ofElement;
  }
  for (Operation &op : rule.getBody().front())
    visit(op);
}

Variances::Variances(StepOp step)
    : ofStep(named(step, Scope::Step)), ofTensor(named(step, Scope::Tensor)), ofUnit(named(step, Scope::Unit)),
      ofElement(BlockAttr::get(step.getContext(), 1, 1)) {
  for (BlockArgument argument : step.getBody().getArguments()) {
    auto tensors = dyn_cast<TensorsType>(argument.getType());
    blocks[argument] = tensors            ? tensors.getBlock()
                       : isList(argument) ? ofElement
                                          : named(step, step.getScope(argument));
  }
  for (Operation &op : step.getBody().front())
    visit(op);
}

BlockAttr Variances::of(Value value) const { return blocks.lookup_or(value, ofStep); }

// Without units a row is a tensor, and its words are said to be a unit's all the same.
bool Variances::readUnit(SweepOp sweep) const {
  auto isOfUnit = [&](Value value) { return getScope(value) == Scope::Unit; };
  auto reads = [&](Operation *op) {
    return llvm::any_of(op->getOperands(), isOfUnit) ? WalkResult::interrupt() : WalkResult::advance();
  };
  return sweep->getParentOfType<StepOp>().hasUnits() && sweep.walk(reads).wasInterrupted();
}

// In which sets it matters where in its tensor an element is.
#include "passes/analysis/Analyze.h"

#include "dialect/RowSets.h"

using namespace mlir;
using namespace altgrad;

static bool dependsOnPosition(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getScope() == Scope::Block || reduce.getScope() == Scope::Unit;
  return isa<IndexOp, MatrixOp, OrthogonalizeOp, RowMeanSquareOp>(op);
}

// Extents alone are the caller's word. An option that leaves an operation out is not looked at.
static bool ruleDependsOnPosition(RuleOp rule) {
  auto isOfUnit = [&](BlockArgument state) {
    return rule.getScope(state) == Scope::Unit || rule.getScope(state) >= Scope::Column;
  };
  auto visit = [](Operation *op) { return dependsOnPosition(op) ? WalkResult::interrupt() : WalkResult::advance(); };
  return llvm::any_of(rule.getByRole(Role::state), isOfUnit) || rule.walk(visit).wasInterrupted();
}

// Blocks that share a scale are of neighbours in memory, and then draws are by the order of memory, too.
static SmallVector<bool> findSetsWithBlocks(StepOp step) {
  SmallVector<bool> blocks(step.getSetCount(), false);
  for (BlockArgument argument : step.getBody().getArguments())
    if (step.getRole(argument) == Role::block_scale)
      blocks[step.getSet(argument).value_or(0)] = true;
  return blocks;
}

SmallVector<bool> altgrad::findPositionDependentSets(StepOp step, llvm::function_ref<RuleOp(UpdateOp)> rules) {
  RowSets sets(step);
  SmallVector<bool> found(step.getSetCount(), false), blocks = findSetsWithBlocks(step);
  auto getSet = [&](Operation &op) {
    for (Value value : op.getOperands())
      if (std::optional<unsigned> set = sets.of(value))
        return *set;
    return 0u;
  };
  auto isDraw = [](Value value) { return value.getDefiningOp<DrawOp>(); };
  for (Operation &op : step.getBody().front()) {
    auto norm = dyn_cast<NormOp>(op);
    if (auto update = dyn_cast<UpdateOp>(op)) {
      RuleOp rule = rules(update);
      found[getSet(op)] |= rule && ruleDependsOnPosition(rule);
    } else if (norm && norm.getScope() == Scope::Unit) {
      found[getSet(op)] = true;
    } else if (llvm::any_of(op.getOperands(), isDraw)) {
      found[getSet(op)] |= !blocks[getSet(op)];
    }
  }
  return found;
}

// Sets spread forward, operation by operation.
#include "dialect/RowSets.h"

using namespace mlir;
using namespace altgrad;

std::optional<unsigned> RowSets::of(Value value) const {
  auto it = members.find(value);
  return it == members.end() ? std::nullopt : std::optional<unsigned>(it->second);
}

unsigned RowSets::of(SweepOp sweep) const {
  SmallVector<Value> values(sweep.getLoads());
  llvm::append_range(values, sweep.getStores());
  llvm::append_range(values, sweep.getScalars());
  for (Value value : values)
    if (std::optional<unsigned> set = of(value))
      return *set;
  return 0;
}

std::optional<unsigned> RowSets::meet(ArrayRef<Value> values, Operation &op) {
  std::optional<unsigned> common;
  for (Value value : values) {
    std::optional<unsigned> set = of(value);
    if (common && set && common != set && !conflicting)
      conflicting = &op;
    common = common ? common : set;
  }
  return common;
}

// A list in the workspace is of the sweep that fills it.
void RowSets::visitSweep(SweepOp sweep) {
  SmallVector<Value> values = sweep.getScalars();
  llvm::append_range(values, sweep.getLoads());
  llvm::append_range(values, sweep.getStores());
  std::optional<unsigned> set = meet(values, *sweep);
  if (!set)
    return;
  for (Value stream : sweep.getStores())
    members[stream] = *set;
  for (auto [index, result] : llvm::enumerate(sweep.getReduced()))
    if (sweep.getScope(index) != Scope::Step)
      members[result] = *set;
}

void RowSets::visit(Operation &op) {
  if (auto sweep = dyn_cast<SweepOp>(op))
    return visitSweep(sweep);
  auto commit = dyn_cast<CommitOp>(op);
  for (auto [value, target, condition] : commit ? commit.writes() : SmallVector<CommitOp::Write>())
    meet({value, target, condition}, op);
  if (commit)
    return;
  if (auto clip = dyn_cast<ClipOp>(op)) { // the lists meet in the norm alone
    for (auto [value, clipped] : llvm::zip(clip.getValues(), clip.getClipped()))
      if (std::optional<unsigned> set = of(value))
        members[clipped] = *set;
    return;
  }
  if (auto multiply = dyn_cast<MultiplyOp>(op))
    if (std::optional<unsigned> set = of(multiply.getRight()))
      members[multiply.getInto()] = *set;
  auto norm = dyn_cast<NormOp>(op);
  if (norm && norm.getScope() == Scope::Step)
    return;
  std::optional<unsigned> set = meet(SmallVector<Value>(op.getOperands()), op);
  auto reduce = dyn_cast<ReduceOp>(op);
  auto across = dyn_cast<AcrossOp>(op);
  if (!set || isa<AllReduceOp>(op) || (across && !across.getUnits()) || (reduce && reduce.getScope() == Scope::Step))
    return;
  auto unscale = dyn_cast<UnscaleOp>(op);
  for (Value result : op.getResults())
    if (!unscale || result != unscale.getFinite())
      members[result] = *set;
}

RowSets::RowSets(StepOp step) : sets(step.getSetCount()) {
  for (BlockArgument argument : step.getBody().getArguments())
    if (std::optional<unsigned> set = step.getSet(argument))
      members[argument] = *set;
  for (Operation &op : step.getBody().front())
    visit(op);
}

// Variance spreads forward, operation by operation.
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

static Variance varianceOf(Scope scope) {
  switch (scope) {
  case Scope::Step:
    return Variance::Step;
  case Scope::Group:
    return Variance::Group;
  case Scope::Tensor:
    return Variance::Tensor;
  }
  llvm_unreachable("unknown scope");
}

static bool isList(Value value) {
  return isa<TensorsType, RealsType>(value.getType());
}

// What an operation says of its results, whatever its operands are.
static std::optional<Variance> declared(Operation &op, Value result) {
  if (isList(result) || isa<LoadOp, ElementOp, DecodeOp, EncodeOp, IndexOp>(op))
    return Variance::Element;
  if (isa<TagOp, DimOp>(op))
    return Variance::Tensor;
  if (isa<ClipOp, UnscaleOp>(op)) // of the whole list: a norm, a flag
    return Variance::Step;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return varianceOf(reduce.getScope());
  return std::nullopt;
}

void Variances::visitSweep(SweepOp sweep) {
  for (auto [index, result] : llvm::enumerate(sweep.getReduced()))
    known[result] = varianceOf(sweep.getScope(index));
  for (Region &region : sweep->getRegions()) {
    for (BlockArgument code : region.getArguments())
      known[code] = Variance::Element;
    for (Operation &op : region.front())
      visit(op);
  }
}

void Variances::visit(Operation &op) {
  if (auto sweep = dyn_cast<SweepOp>(op))
    return visitSweep(sweep);
  Variance most = Variance::Step;
  for (Value operand : op.getOperands())
    most = std::max(most, of(operand));
  for (Value result : op.getResults())
    known[result] = declared(op, result).value_or(most);
}

Variances::Variances(RuleOp rule) {
  for (StringRef role : {"param", "grad", "state"})
    for (BlockArgument argument : rule.getByRole(role))
      known[argument] = Variance::Element;
  // The step that applies the rule may give each tensor its own.
  for (StringRef role : {"hyper", "step"})
    for (BlockArgument argument : rule.getByRole(role))
      known[argument] = Variance::Tensor;
  for (Operation &op : rule.getBody().front())
    visit(op);
}

Variances::Variances(StepOp step) {
  for (BlockArgument argument : step.getBody().getArguments())
    known[argument] = isList(argument) ? Variance::Element
                                       : varianceOf(step.getScope(argument));
  for (Operation &op : step.getBody().front())
    visit(op);
}

// Variance spreads forward, operation by operation.
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

// What is no block's comes after all blocks.
static constexpr unsigned ofStep = ~0u, ofGroup = ofStep - 1,
                          ofTensor = ofStep - 2, ofUnit = ofStep - 3;

static unsigned spanOf(Scope scope) {
  switch (scope) {
  case Scope::Step:
    return ofStep;
  case Scope::Group:
    return ofGroup;
  case Scope::Tensor:
    return ofTensor;
  case Scope::Unit:
    return ofUnit;
  }
  llvm_unreachable("unknown scope");
}

static unsigned blockOf(Value stream) {
  return cast<TensorsType>(stream.getType()).getBlock();
}

static bool isList(Value value) {
  return isa<TensorsType, RealsType>(value.getType());
}

// The span of a result, of operands that share at least `least`.
static unsigned spanOf(Operation &op, Value result, unsigned least) {
  if (isa<IndexOp, DrawOp, UpdateOp, SpillOp, MatrixOp, EntryOp, GramOp, ProductOp, OrthogonalizeOp>(op))
    return 1;
  if (isa<TagOp, DimOp>(op))
    return ofTensor;
  if (isa<AcrossOp>(op))
    return ofStep;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return spanOf(reduce.getScope());
  if (auto norm = dyn_cast<NormOp>(op))
    return spanOf(norm.getScope());
  if (auto reduce = dyn_cast<BlockReduceOp>(op))
    return reduce.getBlock();
  if (auto recall = dyn_cast<RecallOp>(op))
    return recall.getSpace() == Space::Step ? ofStep : ofTensor;
  if (auto fold = dyn_cast<FoldOp>(op))
    return fold.getTensor() ? ofTensor : ofUnit;
  if (isa<ClipOp, UnscaleOp>(op) && !isList(result)) // a norm, a flag
    return ofStep;
  if (isList(result) || isa<LoadOp, DecodeOp, EncodeOp, UpperCodeOp,
                            LowerCodeOp, JoinCodesOp>(op))
    return std::min(least, maxBlock);
  return least;
}

void Variances::visitSweep(SweepOp sweep) {
  for (auto [index, result] : llvm::enumerate(sweep.getReduced()))
    spans[result] = ::spanOf(sweep.getScope(index));
  for (Region &region : sweep->getRegions()) {
    for (auto [code, stream] :
         llvm::zip(region.getArguments(), sweep.getLoads()))
      spans[code] = blockOf(stream);
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
  if (auto keep = dyn_cast<KeepOp>(op); keep && keep.getSpace() == Space::Row) {
    unsigned span = spanOf(keep.getValue());
    unsigned &known = rowWords.try_emplace(keep.getWord(), span).first->second;
    known = std::min(known, span);
    return;
  }
  if (auto recall = dyn_cast<RecallOp>(op);
      recall && recall.getSpace() == Space::Row) {
    spans[recall.getResult()] = rowWords.lookup_or(recall.getWord(), ofUnit);
    return;
  }
  unsigned least = ofStep;
  for (Value operand : op.getOperands())
    least = std::min(least, spanOf(operand));
  for (Value result : op.getResults())
    spans[result] = ::spanOf(op, result, least);
}

Variances::Variances(RuleOp rule) {
  for (StringRef role : {"param", "grad", "state", "value"})
    for (BlockArgument argument : rule.getByRole(role))
      spans[argument] = 1;
  // The step that applies the rule may give each tensor its own.
  for (StringRef role : {"hyper", "step"})
    for (BlockArgument argument : rule.getByRole(role))
      spans[argument] = ofTensor;
  for (Operation &op : rule.getBody().front())
    visit(op);
}

Variances::Variances(StepOp step) {
  for (BlockArgument argument : step.getBody().getArguments())
    spans[argument] = isList(argument) ? blockOf(argument)
                                       : ::spanOf(step.getScope(argument));
  for (Operation &op : step.getBody().front())
    visit(op);
}

unsigned Variances::spanOf(Value value) const {
  return spans.lookup_or(value, ofStep);
}

// Without units a row is a tensor, and its words are said to be a unit's all the same.
bool Variances::readUnit(SweepOp sweep) const {
  auto isOfUnit = [&](Value value) { return of(value) == Variance::Unit; };
  auto reads = [&](Operation *op) {
    return llvm::any_of(op->getOperands(), isOfUnit) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
  };
  return sweep->getParentOfType<StepOp>().hasUnits() &&
         sweep.walk(reads).wasInterrupted();
}

Variance Variances::of(Value value) const {
  switch (spanOf(value)) {
  case ofStep:
    return Variance::Step;
  case ofGroup:
    return Variance::Group;
  case ofTensor:
    return Variance::Tensor;
  case ofUnit:
    return Variance::Unit;
  case 1:
    return Variance::Element;
  default:
    return Variance::Block;
  }
}

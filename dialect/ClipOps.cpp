// Text and verification of norms, clips and what they keep.
#include "dialect/Variance.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace altgrad;

LogicalResult ClipOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  types.assign(adaptor.getValues().size(), RealsType::get(context));
  types.push_back(Float32Type::get(context));
  return success();
}

LogicalResult ClipOp::verify() {
  // clip_c1
  if (getValues().empty())
    return emitOpError("clips no list");
  return success();
}

LogicalResult NormOp::verify() {
  // norm_c1
  if (getValues().empty())
    return emitOpError("is of no list");
  // norm_c2
  if (getScope() == Scope::Group || getScope() == Scope::Block)
    return emitOpError() << "is over unit, tensor or step, not over a " << stringifyScope(getScope());
  // norm_c3
  if (getScope() != Scope::Step && getValues().size() > 1)
    return emitOpError() << "over " << stringifyScope(getScope()) << " is of one list, not of " << getValues().size();
  return success();
}

LogicalResult RoundOp::verify() {
  // round_c2
  if (!getFormat().getInf())
    return emitOpError("rounds to a format that has no infinity");
  return success();
}

static bool isHistory(StepOp step, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return step && argument && argument.getOwner() == &step.getBody().front() && step.getRole(argument) == Role::history;
}

LogicalResult PercentileOp::verify() {
  // percentile_c1
  if (!isHistory((*this)->getParentOfType<StepOp>(), getHistory()))
    return emitOpError("is of something that is no history of the step");
  return success();
}

LogicalResult altgrad::verifyClip(Operation &op, const Variances &variances) {
  auto scale = dyn_cast<ScaleOp>(op);
  // scale_c1
  if (scale && variances.isElement(scale.getFactor()))
    return op.emitOpError("multiplies by a factor that differs between elements");
  auto round = dyn_cast<RoundOp>(op);
  // round_c1
  if (round && variances.isElement(round.getNumber()))
    return op.emitOpError("rounds a number that differs between elements; quantize does");
  auto across = dyn_cast<AcrossOp>(op);
  // across_c1
  if (across && variances.getScope(across.getNumber()) != (across.getUnits() ? Scope::Unit : Scope::Tensor))
    return op.emitOpError() << "adds up a number that is not one for each " << (across.getUnits() ? "unit" : "tensor");
  auto sum = dyn_cast<AllReduceOp>(op);
  // all_reduce_c1
  if (sum && !isa_and_nonnull<ReduceOp, AcrossOp, SweepOp>(sum.getShare().getDefiningOp()))
    return op.emitOpError("is of a share that is no reduction over the step");
  auto percentile = dyn_cast<PercentileOp>(op);
  // percentile_c2
  if (percentile && (variances.isElement(percentile.getNewest()) || variances.isElement(percentile.getPercent())))
    return op.emitOpError("is asked of a number that differs between elements");
  auto step = op.getParentOfType<StepOp>();
  for (OpOperand &operand : op.getOpOperands())
    // step_c24
    if (isHistory(step, operand.get()) && !isa<CommitOp, PhaseOp>(op) &&
        !(percentile && operand.getOperandNumber() == 0))
      return op.emitOpError("reads a history, as percentile alone does");
  return success();
}

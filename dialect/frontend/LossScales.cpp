// Scales of losses: what gradients are divided by, which steps are skipped, and the next scale.
#include "dialect/frontend/SetBuilder.h"

using namespace mlir;
using namespace altgrad;

// Arguments of role `scaler`, in order; their names in the step are their keys.
static constexpr StringLiteral counts[] = {"growth_tracker", "hysteresis_tracker", "growth_interval", "hysteresis"},
                               factors[] = {"growth_factor", "backoff_factor", "min_scale", "max_scale"},
                               nextCounts[] = {"next_growth_tracker", "next_hysteresis_tracker"};
static constexpr StringLiteral nextScale = "next_scale";

void altgrad::reserveOfScales(StepBuilder &step) {
  step.reserve({"grad_scale", "found_inf", "found", "skipped", nextScale});
  for (StringRef key : llvm::concat<const StringLiteral>(counts, factors, nextCounts))
    step.reserve(key);
}

// 1 / grad_scale, as torch rounds it.
static Value invertScale(StepBuilder &step) {
  NamedOpBuilder ops = step.ops("scale.");
  Value scale = ops.extend("scale64", step.scalar("grad_scale")), one = ops.f64("one64", 1);
  return ops.truncate("inverse", ops.div("inverse64", one, scale));
}

// The condition that every gradient is finite, of all sets.
static Value unscaleAll(StepBuilder &step, Sets sets, Value factor) {
  Value condition;
  for (SetBuilder &set : sets) {
    Value finite = set.unscaleGradient(factor);
    condition = condition ? step.ops("skip.").logicalAnd("not" + set.suffix(), condition, finite) : finite;
  }
  return condition;
}

// 1 in found_inf where a step is skipped, and `none`, which is 0.
static Value writeFoundInf(StepBuilder &step, Value none) {
  NamedOpBuilder ops = step.ops("skip.");
  Value found = ops.select("found", step.condition, none, ops.f32("some", 1));
  step.writeAlways(found, step.scalar("found_inf"));
  return found;
}

void altgrad::addScaler(StepBuilder &step, Sets sets) {
  step.scalar(Access::In, Role::scale, "grad_scale", step.f32);
  Value found = step.scalar(Access::In, Role::flag, "found_inf", step.f32), inverse = invertScale(step);
  NamedOpBuilder ops = step.ops("skip.");
  step.condition = ops.compare("not", arith::CmpFPredicate::OEQ, found, ops.f32("none", 0));
  for (SetBuilder &set : sets)
    set.unscaleGradient(inverse);
}

void altgrad::addInverseScale(StepBuilder &step, Sets sets) {
  Value inverse = step.scalar(Access::In, Role::inv_scale, "inv_scale", step.f32);
  step.scalar(Access::Out, Role::flag, "found_inf", step.f32);
  step.condition = unscaleAll(step, sets, inverse);
  writeFoundInf(step, step.ops("skip.").f32("none", 0));
}

static void addScalerArguments(StepBuilder &step) {
  for (StringRef key : counts)
    step.scalar(Access::In, Role::scaler, key, step.i64);
  for (StringRef key : factors)
    step.scalar(Access::In, Role::scaler, key, step.f64);
  step.scalar(Access::Out, Role::scaler, nextScale, step.f32);
  for (StringRef key : nextCounts)
    step.scalar(Access::Out, Role::scaler, key, step.i64);
}

// What becomes of the scale, by whether `any` found something.
static void updateScale(StepBuilder &step, Value any, Scaler variant) {
  auto of = [&](StringRef name) { return step.scalar(name); };
  auto next = step.ops("scale.").makeMany<UpdateLossScaleOp>(
      {"scale.next", "scale.counted", "scale.left"}, step.f32, step.i64, step.i64, variant, of("grad_scale"), any,
      of(counts[0]), of(counts[2]), of(counts[1]), of(counts[3]), of(factors[0]), of(factors[1]), of(factors[2]),
      of(factors[3]));
  step.writeAlways(next.getNextScale(), of(nextScale));
  step.writeAlways(next.getNextTracker(), of(nextCounts[0]));
  step.writeAlways(next.getNextLeft(), of(nextCounts[1]));
}

// Of a scale of 0 the inverse is infinite, and would make NaN of the zeros that it
// left of the gradients; of an infinite one it is 0, and of NaN a NaN.
static void refuseScale(StepBuilder &step, Value inverse) {
  NamedOpBuilder ops = step.ops("scale.");
  Value least = ops.f32("least", 0), infinity = ops.infinity("infinity");
  Value usable = ops.above("positive", inverse, least), finite = ops.below("finite", inverse, infinity);
  step.condition = ops.logicalAnd("fine", step.condition, ops.logicalAnd("usable", usable, finite));
}

void altgrad::countSkipped(StepBuilder &step, Value fine) {
  NamedOpBuilder ops = step.ops("scale.");
  Value skipped = step.scalar("skipped");
  Value more = ops.make<arith::AddIOp>("more", skipped, ops.i64("one", 1));
  step.writeAlways(ops.select("skips", fine, skipped, more), skipped);
}

// `next_*` are written beside what is read, because other optimizers may
// still have to divide by the same scale; `found` counts those that have found
// something, and `skipped` the steps of this one that were.
void altgrad::addLossScaler(StepBuilder &step, Sets sets, Scaler variant) {
  step.scalar(Access::In, Role::scale, "grad_scale", step.f32);
  step.scalar(Access::Out, Role::flag, "found_inf", step.f32);
  Value before = step.scalar(Access::InOut, Role::scaler, "found", step.f32);
  step.scalar(Access::InOut, Role::scaler, "skipped", step.i64);
  addScalerArguments(step);
  Value inverse = invertScale(step);
  step.condition = unscaleAll(step, sets, inverse);
  refuseScale(step, inverse);
  NamedOpBuilder ops = step.ops("scale.");
  Value none = step.ops("skip.").f32("none", 0), found = writeFoundInf(step, none);
  countSkipped(step, step.condition);
  Value sum = ops.add("sum", before, found);
  step.writeAlways(sum, before);
  updateScale(step, ops.compare("any", arith::CmpFPredicate::UNE, sum, none), variant);
}

OwningOpRef<StepOp> altgrad::buildLossScale(MLIRContext &context, Scaler variant) {
  StepBuilder step(context, UnknownLoc::get(&context));
  step.scalar(Access::In, Role::scale, "grad_scale", step.f32);
  Value found = step.scalar(Access::In, Role::scaler, "found", step.f32);
  addScalerArguments(step);
  Value none = step.ops("skip.").f32("none", 0);
  updateScale(step, step.ops("scale.").compare("any", arith::CmpFPredicate::UNE, found, none), variant);
  return step.finish("update_loss_scale");
}

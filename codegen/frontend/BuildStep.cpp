// Sets of tensors ==> the step that updates all of them: scales of losses, norms and
// clips, updates, counts, and one commit.
#include "codegen/frontend/SetBuilder.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;
using Sets = MutableArrayRef<SetBuilder>;

//===-- Scales of losses ----------------------------------------------------===//

// Arguments of role `scaler`, in order; their names in the step are their keys.
static constexpr StringLiteral counts[] = {"growth_tracker", "hysteresis_tracker", "growth_interval", "hysteresis"},
                               factors[] = {"growth_factor", "backoff_factor", "min_scale", "max_scale"},
                               nextCounts[] = {"next_growth_tracker", "next_hysteresis_tracker"};
static constexpr StringLiteral nextScale = "next_scale";

// 1 / grad_scale, as torch rounds it.
static Value invertScale(StepBuilder &step) {
  Ops ops = step.ops("scale.");
  Value scale = ops.wide("scale64", step.scalar("grad_scale")), one = ops.f64("one64", 1);
  return ops.narrow("inverse", ops.div("inverse64", one, scale));
}

// The condition that every gradient is finite, of all sets.
static Value unscaleAll(StepBuilder &step, Sets sets, Value factor) {
  Value condition;
  for (SetBuilder &set : sets) {
    Value finite = set.unscaleGradient(factor);
    condition = condition ? step.ops("skip.").both("not" + set.suffix(), condition, finite) : finite;
  }
  return condition;
}

// 1 in found_inf where a step is skipped, and `none`, which is 0.
static Value sayWhatWasFound(StepBuilder &step, Value none) {
  Ops ops = step.ops("skip.");
  Value found = ops.select("found", step.condition, none, ops.f32("some", 1));
  step.writeAlways(found, step.scalar("found_inf"));
  return found;
}

// torch's protocol: the scale to divide by, and whether to skip.
static void takeScaler(StepBuilder &step, Sets sets) {
  step.scalar(Access::In, "scale", "grad_scale", step.f32);
  Value found = step.scalar(Access::In, "flag", "found_inf", step.f32), inverse = invertScale(step);
  Ops ops = step.ops("skip.");
  step.condition = ops.compare("not", arith::CmpFPredicate::OEQ, found, ops.f32("none", 0));
  for (SetBuilder &set : sets)
    set.unscaleGradient(inverse);
}

// A check of our own: skip where a gradient is not finite, and say so.
static void takeInverseScale(StepBuilder &step, Sets sets) {
  Value inverse = step.scalar(Access::In, "inv_scale", "inv_scale", step.f32);
  step.scalar(Access::Out, "flag", "found_inf", step.f32);
  step.condition = unscaleAll(step, sets, inverse);
  sayWhatWasFound(step, step.ops("skip.").f32("none", 0));
}

static void takeNumbers(StepBuilder &step) {
  for (StringRef key : counts)
    step.scalar(Access::In, "scaler", key, step.i64);
  for (StringRef key : factors)
    step.scalar(Access::In, "scaler", key, step.f64);
  step.scalar(Access::Out, "scaler", nextScale, step.f32);
  for (StringRef key : nextCounts)
    step.scalar(Access::Out, "scaler", key, step.i64);
}

// What becomes of the scale, by whether `any` found something.
static void updateScale(StepBuilder &step, Value any, Scaler variant) {
  auto of = [&](StringRef name) { return step.scalar(name); };
  auto next = step.ops("scale.").several<UpdateLossScaleOp>(
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
  Ops ops = step.ops("scale.");
  Value least = ops.f32("least", 0), infinity = ops.infinity("infinity");
  Value usable = ops.above("positive", inverse, least), finite = ops.below("finite", inverse, infinity);
  step.condition = ops.both("fine", step.condition, ops.both("usable", usable, finite));
}

// The same from the scale itself, and what becomes of it: arguments of role
// `scaler`. `next_*` are written beside what is read, because other optimizers may
// still have to divide by the same scale; `found` counts those that have found
// something, and `skipped` the steps of this one that were.
static void takeLossScaler(StepBuilder &step, Sets sets, Scaler variant) {
  step.scalar(Access::In, "scale", "grad_scale", step.f32);
  step.scalar(Access::Out, "flag", "found_inf", step.f32);
  Value before = step.scalar(Access::InOut, "scaler", "found", step.f32);
  Value skipped = step.scalar(Access::InOut, "scaler", "skipped", step.i64);
  takeNumbers(step);
  Value inverse = invertScale(step);
  step.condition = unscaleAll(step, sets, inverse);
  refuseScale(step, inverse);
  Ops ops = step.ops("scale.");
  Value none = step.ops("skip.").f32("none", 0), found = sayWhatWasFound(step, none);
  Value more = ops.make<arith::AddIOp>("more", skipped, ops.i64("one", 1));
  step.writeAlways(ops.select("skips", step.condition, skipped, more), skipped);
  Value sum = ops.add("sum", before, found);
  step.writeAlways(sum, before);
  updateScale(step, ops.compare("any", arith::CmpFPredicate::UNE, sum, none), variant);
}

// A step of scalars alone: what becomes of the scale by `found`.
static OwningOpRef<StepOp> buildLossScale(MLIRContext &context, Scaler variant) {
  StepBuilder step(context, UnknownLoc::get(&context));
  step.scalar(Access::In, "scale", "grad_scale", step.f32);
  Value found = step.scalar(Access::In, "scaler", "found", step.f32);
  takeNumbers(step);
  Value none = step.ops("skip.").f32("none", 0);
  updateScale(step, step.ops("scale.").compare("any", arith::CmpFPredicate::UNE, found, none), variant);
  return step.finish("update_loss_scale");
}

//===-- Norms and clips -----------------------------------------------------===//

static auto gradientsOf(Sets sets) { return llvm::map_to_vector(sets, [](SetBuilder &set) { return set.gradient; }); }

// The norm of all gradients, which the step says.
static Value takeGlobalNorm(StepBuilder &step, Sets sets, NormKind kind) {
  Value said = step.scalar(Access::Out, "norm", "norm", step.f32);
  Value norm = step.ops("clip.").norm("norm", kind, gradientsOf(sets), Scope::Step);
  step.writeAlways(norm, said);
  return norm;
}

static Value clip(StepBuilder &step, Sets sets) {
  Value bound = step.scalar(Access::In, "max_norm", "max_norm", step.f32);
  Value said = step.scalar(Access::Out, "norm", "norm", step.f32);
  auto names = llvm::map_to_vector(sets, [](SetBuilder &set) { return set.grad.name + ".clipped"; });
  names.push_back("clip.norm");
  auto clip = step.ops("").several<ClipOp>(names, gradientsOf(sets), bound);
  for (auto [set, clipped] : llvm::zip(sets, clip.getClipped()))
    set.gradient = clipped;
  step.writeAlways(clip.getNorm(), said);
  return clip.getNorm();
}

// The factor that clips to one norm: at most 1, and 1 unless `finite`.
static Value coefficientFor(StepBuilder &step, const std::string &suffix, Value norm, Value finite) {
  Ops ops = step.ops("clip.");
  Value most = ops.make<CoefficientOp>("most" + suffix, step.f32, norm, step.scalar("max_norm"), FormatAttr());
  return finite ? ops.select("kept" + suffix, finite, most, ops.f32("kept" + suffix + ".one", 1)) : most;
}

// bitsandbytes' gnorm_scale: bound / norm where the norm is greater, else 1. `bound` is a
// percentile of past norms.
static Value factorFor(StepBuilder &step, const std::string &suffix, Value norm, Value history, Value &bound) {
  Ops ops = step.ops("clip.");
  bound = ops.make<PercentileOp>("bound" + suffix, step.f32, history, norm, step.scalar("max_norm"));
  Value above = ops.above("above" + suffix, norm, bound), ratio = ops.div("ratio" + suffix, bound, norm);
  step.write(norm, history); // a skipped step has no norm
  return ops.select("factor" + suffix, above, ratio, ops.f32("whole" + suffix, 1));
}

namespace {
// What is common to all tensors; null where it is not.
struct Clipped {
  Value norm, bound, factor;
};
} // namespace

// A norm of any kind, of all or of each tensor, by which lists are clipped or not: to
// max_norm, to a percentile of past norms, or by each set itself when it has its parameters.
static Clipped takeNorms(StepBuilder &step, Sets sets, const StepRequest &request, Value finite = {}) {
  Clipped all;
  NormKind kind = request.norm.value_or(NormKind::L2);
  bool past = request.clip == Clip::Percentile;
  if (request.clip)
    all.bound = step.scalar(Access::In, "max_norm", "max_norm", step.f32);
  if (request.clipsToParameters()) {
    for (SetBuilder &set : sets)
      set.clippedOver = request.clip == Clip::AgcUnit ? Scope::Unit : Scope::Tensor;
    return {};
  }
  for (SetBuilder &set : request.perTensor ? sets : Sets()) {
    Value norm = set.takeNorm(kind), bound;
    if (past)
      set.scaleBy(factorFor(step, set.suffix(), norm,
                            set.scalar(Access::InOut, "history", "norm_history", step.f32).value, bound));
    else if (request.clip)
      set.scaleBy(coefficientFor(step, set.suffix(), norm, finite));
  }
  if (request.perTensor)
    return {};
  all.norm = takeGlobalNorm(step, sets, kind);
  Value history = past ? step.scalar(Access::InOut, "history", "norm_history", step.f32) : Value();
  if (request.clip)
    all.factor = past ? factorFor(step, "", all.norm, history, all.bound)
                      : coefficientFor(step, "", all.norm, finite);
  for (SetBuilder &set : all.factor ? sets : Sets())
    set.scaleBy(all.factor);
  return all;
}

// torch.nn.utils.clip_grad_value_: a NaN stays one.
static void clipValue(StepBuilder &step, Sets sets) {
  Value most = step.scalar(Access::In, "max_norm", "clip_value", step.f32);
  Value least = step.ops("clip.").neg("least", most);
  for (SetBuilder &set : sets) {
    Ops ops = set.ops();
    Value raised = ops.max("raised", ops.element("element", set.gradient), least);
    set.gradient = ops.collect("clipped", ops.min("bounded", raised, most));
  }
}

//===-- Gradients as torch leaves them --------------------------------------===//

// The norm of all, from squares of the sets' in their order: of norms of tensors in their
// format. Where other devices' sums join, no tensor's norm is rounded.
static Value torchNorm(StepBuilder &step, Sets sets, const Twine &name, bool exchange) {
  Value sum;
  for (SetBuilder &set : sets) {
    Ops ops = set.ops();
    Value square;
    if (FormatAttr format = set.storage.format("grad"); exchange || format.isF32()) {
      square = ops.reduce("squares", Reduction::SumSq, ops.element("squares.each", set.gradient), Scope::Step);
    } else {
      Value exact = ops.norm("length.exact", NormKind::L2, set.gradient, Scope::Tensor);
      Value own = ops.make<RoundOp>("length", step.f32, exact, format);
      square = ops.make<AcrossOp>("squares", step.f32, ops.mul("length.square", own, own));
    }
    sum = sum ? ops.add("squares.sum", sum, square) : square;
  }
  return step.ops("clip.").sqrt(name, sum);
}

// Rounds gradients to their format after unscaling and after the clip, as torch's
// GradScaler.unscale_ and clip_grad_norm_ leave them. Returns the norm.
static Value roundAsTorch(StepBuilder &step, Sets sets, const StepRequest &request) {
  if (request.unscale || request.scaler || request.lossScaler)
    for (SetBuilder &set : sets) {
      set.roundGradient("unscaled");
      set.unclipped = set.gradient;
    }
  if (!request.clip)
    return {};
  Value bound = step.scalar(Access::In, "max_norm", "max_norm", step.f32);
  Value said = step.scalar(Access::Out, "norm", "norm", step.f32);
  // The norm is of the gradients' format, of f32 where they have several.
  FormatAttr format = sets[0].storage.format("grad");
  for (SetBuilder &set : sets)
    if (set.storage.format("grad") != format)
      format = FormatAttr::getNamed(format.getContext(), "f32");
  Ops ops = step.ops("clip.");
  Value norm = torchNorm(step, sets, format.isF32() ? "norm" : "norm.exact", request.exchange);
  if (!format.isF32())
    norm = ops.make<RoundOp>("norm", step.f32, norm, format);
  step.writeAlways(norm, said);
  Value factor = ops.make<CoefficientOp>("factor", step.f32, norm, bound, format);
  for (SetBuilder &set : sets) {
    set.scaleBy(factor, "scaled");
    set.roundGradient("clipped");
  }
  return norm;
}

//===-- The step ------------------------------------------------------------===//

// How many steps there were and, where they have a norm, for how many it was beyond a bound.
static void countSteps(StepBuilder &step, Value norm, Value bound) {
  Value steps = step.scalar(Access::InOut, "statistic", "steps", step.i64);
  Value one = step.ops("steps.").i64("one", 1);
  step.writeAlways(step.ops("steps.").make<arith::AddIOp>("next", steps, one), steps);
  if (!norm)
    return;
  Ops ops = step.ops("clip.");
  Value clipped = step.scalar(Access::InOut, "statistic", "clipped_steps", step.i64);
  Value more = ops.make<arith::AddIOp>("more", clipped, one);
  // A skipped step is none, whatever its norm.
  step.write(ops.select("count", ops.above("over", norm, bound), more, clipped), clipped);
}

// Sets without a rule: nothing is skipped, and a gradient that is not finite
// leaves all of them unclipped. Where every gradient would be multiplied by 1,
// none is written.
static void changeGradients(StepBuilder &step, Sets sets, const StepRequest &request) {
  if (request.unscale)
    takeInverseScale(step, sets);
  else
    llvm::for_each(sets, [](SetBuilder &set) { set.dequantizeGradient(); });
  Value finite = std::exchange(step.condition, {}), factor = step.scalar("inv_scale"); // null: not unscaled
  Ops ops = step.ops("change.");
  if (request.clip || request.norm) {
    Value clip = takeNorms(step, sets, request, finite).factor;
    if (request.clip)
      factor = clip && factor ? ops.mul("factor", factor, clip) : clip;
  }
  if (request.clipValue)
    clipValue(step, sets), factor = {};
  if (!request.changes())
    return;
  Value some;
  if (factor)
    some = ops.compare("some", arith::CmpFPredicate::UNE, factor, ops.f32("not", 1));
  for (SetBuilder &set : sets)
    set.writeGradient(bool(some));
  if (step.countWrites())
    step.condition = some;
}

static void updateParameters(StepBuilder &step, Sets sets, const StepRequest &request) {
  if (request.lossScaler)
    takeLossScaler(step, sets, *request.lossScaler);
  else if (request.scaler)
    takeScaler(step, sets);
  else if (request.unscale)
    takeInverseScale(step, sets);
  else
    llvm::for_each(sets, [](SetBuilder &set) { set.dequantizeGradient(); });
  Clipped all;
  if (request.asTorch)
    all.norm = roundAsTorch(step, sets, request);
  else if (request.clip == Clip::Norm && !request.norm && !request.perTensor)
    all.norm = clip(step, sets);
  else if (request.clip || request.norm)
    all = takeNorms(step, sets, request);
  if (request.clipValue)
    clipValue(step, sets);
  llvm::for_each(sets, [](SetBuilder &set) { set.update(); });
  if (!request.statistics)
    return;
  countSteps(step, request.clip ? all.norm : Value(), all.bound ? all.bound : step.scalar("max_norm"));
  llvm::for_each(sets, [](SetBuilder &set) { set.measure(); });
}

// What --quantize alone writes, and what torch rounds to: types with an infinity.
static LogicalResult check(const StepRequest &request, const SetStorage &set) {
  if (request.asTorch && !set.format("grad").getInf())
    return set.error("grad") << "--profile=torch beside gradients in " << set.formatName("grad")
                       << ", which has no infinity; torch's are in f32, bf16 or f16";
  if (set.rule || !request.quantize.empty() || !set.says("copy"))
    return success();
  if (factsOf(set.format("copy")).table && !set.hasBlocks("copy"))
    return set.error("copy") << "a copy of a gradient in a code book, whose numbers end at 1; say --quantize with "
                                "its format, or give the copy blocks, as copy=bnb8:256";
  if (set.word("copy").both || set.word("copy").squares())
    return set.error("copy") << "a copy in blocks of 128x128 of a gradient, which only --quantize writes";
  return success();
}

// Names of arguments of the step itself.
static void reserveNames(StepBuilder &step, const StepRequest &request) {
  step.reserve({"inv_scale", "max_norm", "clip_value", "steps", "clipped_steps", "seed", "draws"});
  if (request.clip == Clip::Percentile && !request.perTensor)
    step.reserve({"norm_history"});
  if (request.quantize.empty()) {
    step.reserve({"grad_scale", "found_inf", "found", "skipped", nextScale});
    for (StringRef key : llvm::concat<const StringLiteral>(counts, factors, nextCounts))
      step.reserve(key);
  }
  if (!request.perTensor)
    step.reserve({"norm"});
}

FailureOr<OwningOpRef<StepOp>> altgrad::buildStep(const StepRequest &request, ArrayRef<RuleOp> rules,
                                                  MLIRContext &context) {
  if (request.sets.empty())
    return buildLossScale(context, *request.lossScaler);
  SmallVector<StringRef> names;
  std::vector<SetStorage> storages;
  for (auto [index, set] : llvm::enumerate(request.sets)) {
    RuleOp rule = rules[index];
    storages.emplace_back(context, set, rule, index, /*several=*/rules.size() > 1);
    if (failed(storages.back().read()) || failed(check(request, storages.back())))
      return failure();
    if (StringRef name = rule ? rule.getSymName() : "gradients"; !llvm::is_contained(names, name))
      names.push_back(name);
  }
  StepBuilder step(context, storages[0].placeOfRule());
  reserveNames(step, request);
  std::vector<SetBuilder> sets;
  for (SetStorage &storage : storages)
    sets.emplace_back(std::move(storage), step).takeGradient(request.changes());
  bool ruled = bool(sets[0].rule);
  if (llvm::any_of(sets, [](SetBuilder &set) { return set.storage.draws(); }))
    step.takeSeed(/*always=*/!ruled);
  if (!request.quantize.empty()) {
    if (request.scales.empty())
      step.scalar(Access::In, "scale", "grad_scale", step.f32);
    for (SetBuilder &set : sets)
      if (failed(set.quantizeTo(request.quantize, request.scales)))
        return failure();
  } else if (!ruled) {
    changeGradients(step, sets, request);
  } else {
    updateParameters(step, sets, request);
  }
  return step.finish(llvm::join(names, "_") + "_step");
}

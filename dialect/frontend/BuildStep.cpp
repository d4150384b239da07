// Sets of tensors ==> the step that updates all of them: norms and clips, updates, counts, and one commit.
#include "dialect/frontend/SetBuilder.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

//===-- Norms and clips -----------------------------------------------------===//

static auto getGradients(Sets sets) {
  return llvm::map_to_vector(sets, [](SetBuilder &set) { return set.gradient; });
}

// The norm of all gradients, which the step says.
static Value addGlobalNorm(StepBuilder &step, Sets sets, NormKind kind) {
  Value normArgument = step.scalar(Access::Out, Role::norm, "norm", step.f32);
  Value norm = step.ops("clip.").norm("norm", kind, getGradients(sets), Scope::Step);
  step.writeAlways(norm, normArgument);
  return norm;
}

static Value clip(StepBuilder &step, Sets sets) {
  Value bound = step.scalar(Access::In, Role::max_norm, "max_norm", step.f32);
  Value normArgument = step.scalar(Access::Out, Role::norm, "norm", step.f32);
  auto names = llvm::map_to_vector(sets, [](SetBuilder &set) { return set.grad.name + ".clipped"; });
  names.push_back("clip.norm");
  auto clip = step.ops("").makeMany<ClipOp>(names, getGradients(sets), bound);
  for (auto [set, clipped] : llvm::zip(sets, clip.getClipped()))
    set.gradient = clipped;
  step.writeAlways(clip.getNorm(), normArgument);
  return clip.getNorm();
}

// The factor that clips to one norm: at most 1, and 1 unless `finite`.
static Value coefficientFor(StepBuilder &step, const std::string &suffix, Value norm, Value finite) {
  NamedOpBuilder ops = step.ops("clip.");
  Value most = ops.make<CoefficientOp>("most" + suffix, step.f32, norm, step.scalar("max_norm"), FormatAttr());
  return finite ? ops.select("kept" + suffix, finite, most, ops.f32("kept" + suffix + ".one", 1)) : most;
}

// bitsandbytes' gnorm_scale: bound / norm where the norm is greater, else 1. `bound` is a percentile of past norms.
static Value factorFor(StepBuilder &step, const std::string &suffix, Value norm, Value history, Value &bound) {
  NamedOpBuilder ops = step.ops("clip.");
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
static Clipped addNorms(StepBuilder &step, Sets sets, const StepRequest &request, Value finite = {}) {
  Clipped all;
  NormKind kind = request.norm.value_or(NormKind::L2);
  bool past = request.clip == Clip::Percentile;
  if (request.clip)
    all.bound = step.scalar(Access::In, Role::max_norm, "max_norm", step.f32);
  if (request.clipsToParameters()) {
    for (SetBuilder &set : sets)
      set.clippedOver = request.clip == Clip::AgcUnit ? Scope::Unit : Scope::Tensor;
    return {};
  }
  for (SetBuilder &set : request.perTensor ? sets : Sets()) {
    Value norm = set.addNorm(kind), bound;
    if (past)
      set.scaleBy(factorFor(step, set.suffix(), norm,
                            set.scalar(Access::InOut, Role::history, "norm_history", step.f32).value, bound));
    else if (request.clip)
      set.scaleBy(coefficientFor(step, set.suffix(), norm, finite));
  }
  if (request.perTensor)
    return {};
  all.norm = addGlobalNorm(step, sets, kind);
  Value history = past ? step.scalar(Access::InOut, Role::history, "norm_history", step.f32) : Value();
  if (request.clip)
    all.factor = past ? factorFor(step, "", all.norm, history, all.bound) : coefficientFor(step, "", all.norm, finite);
  for (SetBuilder &set : all.factor ? sets : Sets())
    set.scaleBy(all.factor);
  return all;
}

// torch.nn.utils.clip_grad_value_: a NaN stays one.
static void clipValue(StepBuilder &step, Sets sets) {
  Value most = step.scalar(Access::In, Role::max_norm, "clip_value", step.f32);
  Value least = step.ops("clip.").neg("least", most);
  for (SetBuilder &set : sets) {
    NamedOpBuilder ops = set.ops();
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
    NamedOpBuilder ops = set.ops();
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
  Value bound = step.scalar(Access::In, Role::max_norm, "max_norm", step.f32);
  Value normArgument = step.scalar(Access::Out, Role::norm, "norm", step.f32);
  // The norm is of the gradients' format, of f32 where they have several.
  FormatAttr format = sets[0].storage.format("grad");
  for (SetBuilder &set : sets)
    if (set.storage.format("grad") != format)
      format = FormatAttr::getNamed(format.getContext(), "f32");
  NamedOpBuilder ops = step.ops("clip.");
  Value norm = torchNorm(step, sets, format.isF32() ? "norm" : "norm.exact", request.exchange);
  if (!format.isF32())
    norm = ops.make<RoundOp>("norm", step.f32, norm, format);
  step.writeAlways(norm, normArgument);
  Value factor = ops.make<CoefficientOp>("factor", step.f32, norm, bound, format);
  for (SetBuilder &set : sets) {
    set.scaleBy(factor, "scaled");
    set.roundGradient("clipped");
  }
  return norm;
}

//===-- Products ------------------------------------------------------------===//

// Where nobody waits for what products are, the step is skipped by one that makes a NaN of finite numbers: here, or
// `elsewhere`, on a device whose share joins. A maximum is no norm and no verdict on gradients, so that who joins
// shares knows it.
static void refuseProducts(StepBuilder &step, Sets sets, bool elsewhere) {
  auto multiplies = [](Operation &op) { return isa<OrthogonalizeOp, ProductOp, MatmulOp>(op); };
  NamedOpBuilder ops = step.ops("products.");
  Value none = ops.f32("none", 0), wrong;
  auto combine = [&](Value share) { wrong = wrong ? ops.max("all", wrong, share) : share; };
  for (SetBuilder &set : sets) {
    if (llvm::none_of(set.rule.getBody().front(), multiplies))
      continue;
    NamedOpBuilder own = set.ops().named("products" + set.suffix() + ".");
    Value each = own.make<ProductsFiniteOp>("each", own.element("of", set.after));
    combine(own.reduce("wrong", Reduction::Max, own.select("share", each, none, own.f32("one", 1)), Scope::Step));
  }
  if (!wrong && elsewhere) { // this device's share is 0, of what differs between elements: no magnitude is below 0
    NamedOpBuilder own = sets.front().ops().named("products.");
    Value size = own.abs("size", own.element("of", sets.front().gradient));
    Value below = own.compare("below", arith::CmpFPredicate::OLT, size, none);
    combine(own.reduce("wrong", Reduction::Max, own.select("share", below, own.f32("one", 1), none), Scope::Step));
  }
  if (!wrong)
    return;
  Value sound = ops.compare("sound", arith::CmpFPredicate::OLE, wrong, none); // of no element at all, too
  step.condition = step.condition ? ops.logicalAnd("fine", step.condition, sound) : sound;
  // Who gives a scale and a flag counts what these skip.
  const bool counts = bool(step.scalar("skipped"));
  if (!counts)
    step.scalar(Access::InOut, Role::statistic, "skipped", step.i64);
  countSkipped(step, counts ? step.condition : sound);
}

//===-- The step ------------------------------------------------------------===//

// How many steps there were and, where they have a norm, for how many it was beyond a bound.
static void countSteps(StepBuilder &step, Value norm, Value bound) {
  Value steps = step.scalar(Access::InOut, Role::statistic, "steps", step.i64);
  Value one = step.ops("steps.").i64("one", 1);
  step.writeAlways(step.ops("steps.").make<arith::AddIOp>("next", steps, one), steps);
  if (!norm)
    return;
  NamedOpBuilder ops = step.ops("clip.");
  Value clipped = step.scalar(Access::InOut, Role::statistic, "clipped_steps", step.i64);
  Value more = ops.make<arith::AddIOp>("more", clipped, one);
  // A skipped step is none, whatever its norm.
  step.write(ops.select("count", ops.above("over", norm, bound), more, clipped), clipped);
}

// Sets without a rule: nothing is skipped, and a gradient that is not finite leaves all of them unclipped. Where every
// gradient would be multiplied by 1, none is written.
static void changeGradients(StepBuilder &step, Sets sets, const StepRequest &request) {
  if (request.unscale)
    addInverseScale(step, sets);
  else
    llvm::for_each(sets, [](SetBuilder &set) { set.dequantizeGradient(); });
  Value finite = std::exchange(step.condition, {}), factor = step.scalar("inv_scale"); // null: not unscaled
  NamedOpBuilder ops = step.ops("change.");
  if (request.clip || request.norm) {
    Value clip = addNorms(step, sets, request, finite).factor;
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
    addLossScaler(step, sets, *request.lossScaler);
  else if (request.scaler)
    addScaler(step, sets);
  else if (request.unscale)
    addInverseScale(step, sets);
  else
    llvm::for_each(sets, [](SetBuilder &set) { set.dequantizeGradient(); });
  Clipped all;
  if (request.asTorch)
    all.norm = roundAsTorch(step, sets, request);
  else if (request.clip == Clip::Norm && !request.norm && !request.perTensor)
    all.norm = clip(step, sets);
  else if (request.clip || request.norm)
    all = addNorms(step, sets, request);
  if (request.clipValue)
    clipValue(step, sets);
  llvm::for_each(sets, [](SetBuilder &set) { set.update(); });
  if (request.guards || request.expectRemoteProducts)
    refuseProducts(step, sets, request.expectRemoteProducts);
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
  if (set.rule || !request.quantize.empty() || !set.hasWord("copy"))
    return success();
  if (getCodecFacts(set.format("copy")).table && !set.hasBlocks("copy"))
    return set.error("copy") << "a copy of a gradient in a code book, whose numbers end at 1; say --quantize with "
                                "its format, or give the copy blocks, as copy=bnb8:256";
  if (set.word("copy").hasSquareBlock())
    return set.error("copy") << "a copy in blocks of " << *set.word("copy").block
                             << " of a gradient, which only --quantize writes";
  return success();
}

// Names of arguments of the step itself.
static void reserveNames(StepBuilder &step, const StepRequest &request) {
  step.reserve({"inv_scale", "max_norm", "clip_value", "steps", "clipped_steps", "seed", "draws"});
  if (request.clip == Clip::Percentile && !request.perTensor)
    step.reserve({"norm_history"});
  if (request.quantize.empty())
    reserveOfScales(step);
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
  StepBuilder step(context, storages[0].getRuleLocation());
  reserveNames(step, request);
  std::vector<SetBuilder> sets;
  for (SetStorage &storage : storages)
    sets.emplace_back(std::move(storage), step).addGradient(request.changes());
  bool ruled = bool(sets[0].rule);
  if (llvm::any_of(sets, [](SetBuilder &set) { return set.storage.draws(); }))
    step.addSeed(/*always=*/!ruled);
  if (!request.quantize.empty()) {
    if (request.scales.empty())
      step.scalar(Access::In, Role::scale, "grad_scale", step.f32);
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

// unscale, clip_by_global_norm, norm, scale ==> reductions, and factors of
// lists.
#include "passes/Passes.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDGRADIENTSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// An infinity compares unordered-or-less with nothing, so NaN is not finite too.
static Value isFinite(OpBuilder &builder, Location loc, Value number) {
  Value magnitude = math::AbsFOp::create(builder, loc, number);
  Value infinity = arith::ConstantOp::create(
      builder, loc,
      builder.getF32FloatAttr(std::numeric_limits<float>::infinity()));
  return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                               magnitude, infinity);
}

static void expandUnscale(UnscaleOp unscale) {
  OpBuilder builder(unscale);
  Location loc = unscale.getLoc();
  FormatAttr format = unscale.getTensors().getType().getFormat();
  Value code = LoadOp::create(builder, loc, format.getCodeType(),
                              unscale.getTensors());
  Value number = code;
  if (!format.isF32())
    number = DecodeOp::create(builder, loc, builder.getF32Type(), code, format);
  Value finite; // costs a sweep, so only where somebody asks
  if (!unscale.getFinite().use_empty())
    finite = ReduceOp::create(builder, loc, Reduction::And,
                              isFinite(builder, loc, number), Scope::Step);
  Value list =
      CollectOp::create(builder, loc, RealsType::get(builder.getContext()),
                        number, unscale.getFactor());
  unscale.getValues().replaceAllUsesWith(list);
  if (finite)
    unscale.getFinite().replaceAllUsesWith(finite);
  unscale.erase();
}

// What a norm of this kind sums up: the element, or its magnitude.
static Value share(OpBuilder &builder, Location loc, NormKind kind, Value list,
                   Scope scope) {
  Value element = ElementOp::create(builder, loc, list);
  if (kind == NormKind::L2)
    return ReduceOp::create(builder, loc, Reduction::SumSq, element, scope);
  Value magnitude = math::AbsFOp::create(builder, loc, element);
  return ReduceOp::create(
      builder, loc, kind == NormKind::L1 ? Reduction::Add : Reduction::Max,
      magnitude, scope);
}

static Value constant(OpBuilder &builder, Location loc, float value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getF32FloatAttr(value));
}

// The norm of all lists: their shares joined in order.
static Value normOf(OpBuilder &builder, Location loc, NormKind kind,
                    ValueRange lists, Scope scope) {
  // The largest of nothing is -inf.
  Value total = kind == NormKind::LInf ? constant(builder, loc, 0) : Value();
  for (Value list : lists) {
    Value part = share(builder, loc, kind, list, scope);
    if (kind == NormKind::LInf)
      total = arith::MaximumFOp::create(builder, loc, total, part);
    else
      total = total ? arith::AddFOp::create(builder, loc, total, part) : part;
  }
  return kind == NormKind::L2 ? math::SqrtOp::create(builder, loc, total)
                              : total;
}

// The list with one factor more: its own joins this one.
static Value scaled(OpBuilder &builder, Location loc, Value list,
                    Value factor) {
  Value element;
  if (auto collect = list.getDefiningOp<CollectOp>()) {
    element = collect.getElement();
    if (collect.getFactor())
      factor = arith::MulFOp::create(builder, loc, collect.getFactor(), factor);
  } else {
    element = ElementOp::create(builder, loc, list);
  }
  return CollectOp::create(builder, loc, RealsType::get(builder.getContext()),
                           element, factor);
}

static void expandClip(ClipOp clip) {
  OpBuilder builder(clip);
  Location loc = clip.getLoc();
  Value norm =
      normOf(builder, loc, NormKind::L2, clip.getValues(), Scope::Step);
  Value more =
      arith::AddFOp::create(builder, loc, norm, constant(builder, loc, 1e-6f));
  Value ratio = arith::DivFOp::create(builder, loc, clip.getMaxNorm(), more);
  Value coefficient = arith::MinimumFOp::create(builder, loc, ratio,
                                                constant(builder, loc, 1.0f));
  SmallVector<Value> results;
  for (Value list : clip.getValues())
    results.push_back(scaled(builder, loc, list, coefficient));
  results.push_back(norm);
  clip.replaceAllUsesWith(results);
  clip.erase();
}

static void expandNorm(NormOp norm) {
  OpBuilder builder(norm);
  norm.replaceAllUsesWith(normOf(builder, norm.getLoc(), norm.getKind(),
                                 norm.getValues(), norm.getScope()));
  norm.erase();
}

static void expandScale(ScaleOp scale) {
  OpBuilder builder(scale);
  scale.replaceAllUsesWith(
      scaled(builder, scale.getLoc(), scale.getValues(), scale.getFactor()));
  scale.erase();
}

namespace {
struct ExpandGradients
    : altgrad::impl::ExpandGradientsPassBase<ExpandGradients> {
  void runOnOperation() override {
    for (Operation &op :
         llvm::make_early_inc_range(getOperation().getBody().front())) {
      if (auto unscale = dyn_cast<UnscaleOp>(op))
        expandUnscale(unscale);
      else if (auto clip = dyn_cast<ClipOp>(op))
        expandClip(clip);
      else if (auto norm = dyn_cast<NormOp>(op))
        expandNorm(norm);
      else if (auto scale = dyn_cast<ScaleOp>(op))
        expandScale(scale);
    }
  }
};
} // namespace

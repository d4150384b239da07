// unscale, norm, scale and what clips ==> reductions, and factors of lists.
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

static Value share(OpBuilder &builder, Location loc, NormKind kind, Value list,
                   Scope scope) {
  Value element = ElementOp::create(builder, loc, list);
  Reduction how = kind == NormKind::L2   ? Reduction::SumSq
                  : kind == NormKind::L1 ? Reduction::Add
                                         : Reduction::AbsMax;
  if (kind == NormKind::L1)
    element = math::AbsFOp::create(builder, loc, element);
  return ReduceOp::create(builder, loc, how, element, scope);
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

static void expandCoefficient(CoefficientOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto rounded = [&](Value value) -> Value {
    if (!op.getTorch() || op.getTorch()->isF32())
      return value;
    return RoundOp::create(builder, loc, value, *op.getTorch());
  };
  Value more = rounded(arith::AddFOp::create(builder, loc, op.getNorm(),
                                             constant(builder, loc, 1e-6f)));
  Value ratio;
  if (op.getTorch()) {
    Value one = constant(builder, loc, 1.0f);
    Value inverse = rounded(arith::DivFOp::create(builder, loc, one, more));
    ratio =
        rounded(arith::MulFOp::create(builder, loc, inverse, op.getMaxNorm()));
  } else {
    ratio = arith::DivFOp::create(builder, loc, op.getMaxNorm(), more);
  }
  op.replaceAllUsesWith(arith::MinimumFOp::create(builder, loc, ratio,
                                                  constant(builder, loc, 1.0f))
                            .getResult());
  op.erase();
}

static void expandClip(ClipOp clip) {
  OpBuilder builder(clip);
  Location loc = clip.getLoc();
  auto norm = NormOp::create(builder, loc, builder.getF32Type(), NormKind::L2,
                             clip.getValues(), Scope::Step);
  auto coefficient =
      CoefficientOp::create(builder, loc, norm, clip.getMaxNorm(), nullptr);
  SmallVector<ScaleOp> scales;
  for (Value list : clip.getValues())
    scales.push_back(ScaleOp::create(builder, loc, list, coefficient));
  SmallVector<Value> results(scales.begin(), scales.end());
  results.push_back(norm);
  clip.replaceAllUsesWith(results);
  clip.erase();
  expandNorm(norm);
  expandCoefficient(coefficient);
  llvm::for_each(scales, expandScale);
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
      else if (auto coefficient = dyn_cast<CoefficientOp>(op))
        expandCoefficient(coefficient);
      else if (auto norm = dyn_cast<NormOp>(op))
        expandNorm(norm);
      else if (auto scale = dyn_cast<ScaleOp>(op))
        expandScale(scale);
    }
  }
};
} // namespace

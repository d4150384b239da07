// unscale, clip_by_global_norm ==> reductions, and factors of lists.
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

// The Euclidean norm of all lists: their sums of squares added in order.
static Value globalNorm(OpBuilder &builder, ClipOp clip) {
  Location loc = clip.getLoc();
  Value total;
  for (Value list : clip.getValues()) {
    Value element = ElementOp::create(builder, loc, list);
    Value sum = ReduceOp::create(builder, loc, Reduction::SumSq, element,
                                 Scope::Step);
    total = total ? Value(arith::AddFOp::create(builder, loc, total, sum)) : sum;
  }
  return math::SqrtOp::create(builder, loc, total);
}

static void expandClip(ClipOp clip) {
  OpBuilder builder(clip);
  Location loc = clip.getLoc();
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(value));
  };
  Value norm = globalNorm(builder, clip);
  Value more = arith::AddFOp::create(builder, loc, norm, constant(1e-6f));
  Value ratio = arith::DivFOp::create(builder, loc, clip.getMaxNorm(), more);
  Value coefficient =
      arith::MinimumFOp::create(builder, loc, ratio, constant(1.0f));
  SmallVector<Value> results;
  for (Value list : clip.getValues()) {
    auto collect = list.getDefiningOp<CollectOp>();
    Value element, factor = coefficient;
    if (collect) { // its own factor joins this one
      element = collect.getElement();
      if (collect.getFactor())
        factor = arith::MulFOp::create(builder, loc, collect.getFactor(),
                                       coefficient);
    } else {
      element = ElementOp::create(builder, loc, list);
    }
    results.push_back(CollectOp::create(
        builder, loc, RealsType::get(builder.getContext()), element, factor));
  }
  results.push_back(norm);
  clip.replaceAllUsesWith(results);
  clip.erase();
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
    }
  }
};
} // namespace

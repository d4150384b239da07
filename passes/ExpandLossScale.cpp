// update_loss_scale ==> arithmetic on scalars.
#include "passes/Passes.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDLOSSSCALEPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
// What the two cases leave: the scale, its tracker, what is left of the hysteresis.
struct Next {
  Value scale, tracker, left;
};

class Expansion {
public:
  explicit Expansion(UpdateLossScaleOp op)
      : op(op), builder(op), loc(op.getLoc()) {}
  void run();

private:
  Next found();
  Next clean();
  Value grown();
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(builder, loc, condition, yes, no);
  }
  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI64IntegerAttr(value));
  }
  Value compare(arith::CmpIPredicate predicate, Value left, Value right) {
    return arith::CmpIOp::create(builder, loc, predicate, left, right);
  }
  // The scale times a factor, as f64.
  Value times(Value factor) {
    Value wide = arith::ExtFOp::create(builder, loc, builder.getF64Type(),
                                       op.getScale());
    return arith::MulFOp::create(builder, loc, wide, factor);
  }
  Value rounded(Value wide) {
    return arith::TruncFOp::create(builder, loc, builder.getF32Type(), wide);
  }
  // `value` where it compares so with `limit`, else `limit`. A NaN stays.
  Value within(arith::CmpFPredicate beyond, Value value, Value limit) {
    Value out = arith::CmpFOp::create(builder, loc, beyond, value, limit);
    return select(out, limit, value);
  }

  UpdateLossScaleOp op;
  OpBuilder builder;
  Location loc;
};
} // namespace

Next Expansion::found() {
  Value left =
      arith::SubIOp::create(builder, loc, op.getLeft(), constant(1));
  Value lower = rounded(within(arith::CmpFPredicate::OLT,
                               times(op.getBackoff()), op.getLeast()));
  Value waits = compare(arith::CmpIPredicate::sgt, left, constant(0));
  return {select(waits, op.getScale(), lower), constant(0), left};
}

Value Expansion::grown() {
  Value higher = rounded(within(arith::CmpFPredicate::OGT,
                                times(op.getGrowth()), op.getMost()));
  if (op.getVariant() == Scaler::Boostr)
    return higher;
  Value infinity = arith::ConstantOp::create(
      builder, loc,
      builder.getF32FloatAttr(std::numeric_limits<float>::infinity()));
  Value magnitude = math::AbsFOp::create(builder, loc, higher);
  Value finite = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                       magnitude, infinity);
  return select(finite, higher, op.getScale());
}

Next Expansion::clean() {
  auto reached = op.getVariant() == Scaler::Boostr ? arith::CmpIPredicate::sge
                                                   : arith::CmpIPredicate::eq;
  Value counted =
      arith::AddIOp::create(builder, loc, op.getTracker(), constant(1));
  Value full = compare(reached, counted, op.getInterval());
  return {select(full, grown(), op.getScale()),
          select(full, constant(0), counted),
          select(full, op.getHysteresis(), op.getLeft())};
}

void Expansion::run() {
  Next bad = found(), good = clean();
  Value results[] = {select(op.getFound(), bad.scale, good.scale),
                     select(op.getFound(), bad.tracker, good.tracker),
                     select(op.getFound(), bad.left, good.left)};
  op.replaceAllUsesWith(ValueRange(results));
  op.erase();
}

namespace {
struct ExpandLossScale
    : altgrad::impl::ExpandLossScalePassBase<ExpandLossScale> {
  void runOnOperation() override {
    for (auto op : llvm::make_early_inc_range(
             getOperation().getBody().getOps<UpdateLossScaleOp>()))
      Expansion(op).run();
  }
};
} // namespace

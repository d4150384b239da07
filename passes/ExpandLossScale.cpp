// update_loss_scale ==> arithmetic on scalars.
#include "dialect/CodeBuilder.h"
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
  explicit Expansion(UpdateLossScaleOp op) : op(op), b(op.getLoc(), op) {}

  void run();

private:
  Next found();
  Next clean();
  Value grown();
  Value constant(int64_t value) { return b.integer(b.getI64Type(), value); }
  // The scale times a factor, as f64.
  Value times(Value factor) { return b.mulF(arith::ExtFOp::create(b, b.getF64Type(), op.getScale()), factor); }
  Value rounded(Value wide) { return arith::TruncFOp::create(b, b.getF32Type(), wide); }
  // `value` where it compares so with `limit`, else `limit`. A NaN stays.
  Value within(arith::CmpFPredicate beyond, Value value, Value limit) {
    return b.choose(b.compareF(beyond, value, limit), limit, value);
  }

  UpdateLossScaleOp op;
  CodeBuilder b;
};
} // namespace

Next Expansion::found() {
  Value left = b.sub(op.getLeft(), constant(1));
  Value lower = rounded(within(arith::CmpFPredicate::OLT, times(op.getBackoff()), op.getLeast()));
  Value waits = b.above(left, constant(0));
  return {b.choose(waits, op.getScale(), lower), constant(0), left};
}

Value Expansion::grown() {
  Value higher = rounded(within(arith::CmpFPredicate::OGT, times(op.getGrowth()), op.getMost()));
  return op.getVariant() == Scaler::Boostr ? higher : b.choose(b.isFinite(higher), higher, op.getScale());
}

Next Expansion::clean() {
  Value counted = b.add(op.getTracker(), constant(1));
  Value full =
      op.getVariant() == Scaler::Boostr ? b.atLeast(counted, op.getInterval()) : b.equal(counted, op.getInterval());
  return {b.choose(full, grown(), op.getScale()), b.choose(full, constant(0), counted),
          b.choose(full, op.getHysteresis(), op.getLeft())};
}

void Expansion::run() {
  Next bad = found(), good = clean();
  Value results[] = {b.choose(op.getFound(), bad.scale, good.scale), b.choose(op.getFound(), bad.tracker, good.tracker),
                     b.choose(op.getFound(), bad.left, good.left)};
  op.replaceAllUsesWith(ValueRange(results));
  op.erase();
}

namespace {
struct ExpandLossScale : altgrad::impl::ExpandLossScalePassBase<ExpandLossScale> {
  void runOnOperation() override {
    for (auto op : llvm::make_early_inc_range(getOperation().getBody().getOps<UpdateLossScaleOp>()))
      Expansion(op).run();
  }
};
} // namespace

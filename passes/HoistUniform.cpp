// What depends on scalars alone ==> before the sweep that uses it.
#include "passes/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

namespace altgrad {
#define GEN_PASS_DEF_HOISTUNIFORMPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
struct HoistUniform : altgrad::impl::HoistUniformPassBase<HoistUniform> {
  void runOnOperation() override {
    for (auto sweep : getOperation().getBody().getOps<SweepOp>()) {
      Region &body = sweep.getBody();
      for (Operation &op : llvm::make_early_inc_range(
               body.front().without_terminator())) {
        if (op.getDialect() == sweep->getDialect())
          continue; // a code is stored for each element, even if all are alike
        bool uniform = llvm::none_of(op.getOperands(), [&](Value operand) {
          return body.isAncestor(operand.getParentRegion());
        });
        if (uniform)
          op.moveBefore(sweep);
      }
    }
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};
} // namespace

// What depends on scalars alone ==> before the sweep that uses it.
#include "passes/Passes.h"

#include "dialect/Variance.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_HOISTUNIFORMPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
struct HoistUniform : altgrad::impl::HoistUniformPassBase<HoistUniform> {
  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::Sweeps, Form::Sweeps)))
      return signalPassFailure();
    Variances variances(getOperation());
    for (auto sweep : getOperation().getBody().getOps<SweepOp>())
      for (Operation &op : llvm::make_early_inc_range(sweep.getBody().front().without_terminator()))
        if (!variances.isElement(op.getResult(0)))
          op.moveBefore(sweep);
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};
} // namespace

// Functions of math ==> altgrad.function, which MLIR does not evaluate by the C library of this machine.
#include "passes/Passes.h"

#include "dialect/Arithmetic.h"

namespace altgrad {
#define GEN_PASS_DEF_KEEPFUNCTIONSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
struct KeepFunctions : altgrad::impl::KeepFunctionsPassBase<KeepFunctions> {
  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      StringRef name = op->getName().getStringRef();
      if (!isKeptFunction(name))
        return;
      OpBuilder builder(op);
      auto kept = FunctionOp::create(builder, op->getLoc(), op->getResult(0).getType(), name, op->getOperands());
      op->replaceAllUsesWith(kept);
      op->erase();
    });
  }
};
} // namespace

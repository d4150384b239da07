// A sweep gets a second body that computes several elements at once.
#include "passes/Passes.h"

#include "dialect/Variance.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Forms.h"
#include "passes/SweepBuilder.h"

namespace altgrad {
#define GEN_PASS_DEF_VECTORIZEPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// The value as a vector: a constant as a splat, another scalar broadcast.
static Value widen(OpBuilder &builder, Value value, int64_t width) {
  if (isa<VectorType>(value.getType()))
    return value;
  auto type = VectorType::get({width}, value.getType());
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    return arith::ConstantOp::create(builder, value.getLoc(),
                                     DenseElementsAttr::get(type, Attribute(constant.getValue())));
  return vector::BroadcastOp::create(builder, value.getLoc(), type, value);
}

static void cloneWide(Operation &op, OpBuilder &builder, IRMapping &map, int64_t width) {
  IRMapping operands = map;
  if (!isa<DrawOp>(op)) // of the element alone: seed and step stay scalars
    for (Value operand : op.getOperands())
      operands.map(operand, widen(builder, map.lookupOrDefault(operand), width));
  Operation *copy = builder.clone(op, operands);
  for (auto [result, old] : llvm::zip(copy->getResults(), op.getResults())) {
    result.setType(VectorType::get({width}, old.getType()));
    map.map(old, result);
  }
}

static void vectorize(SweepOp sweep, const Variances &variances, int64_t width) {
  OpBuilder builder(sweep);
  auto wide = std::make_unique<Region>();
  Block *block = builder.createBlock(wide.get());
  IRMapping map;
  for (BlockArgument argument : sweep.getBody().getArguments())
    map.map(argument, block->addArgument(VectorType::get({width}, argument.getType()), argument.getLoc()));
  for (Operation &op : sweep.getBody().front().without_terminator())
    if (isa<StageOp>(op) || !variances.isElement(op.getResult(0)))
      builder.clone(op, map);
    else
      cloneWide(op, builder, map, width);
  SmallVector<Value> emitted;
  for (Value value : sweep.getEmit().getValues())
    emitted.push_back(widen(builder, map.lookupOrDefault(value), width));
  EmitOp::create(builder, sweep.getEmit().getLoc(), emitted);
  addWideBody(sweep, width, std::move(wide));
}

namespace {
struct Vectorize : altgrad::impl::VectorizePassBase<Vectorize> {
  using VectorizePassBase::VectorizePassBase;

  void runOnOperation() override {
    if (width < 2 || width > ALTGRAD_CHUNK) {
      getOperation().emitError() << "cannot vectorize by " << int64_t(width) << " elements; write 2 to "
                                 << int64_t(ALTGRAD_CHUNK);
      return signalPassFailure();
    }
    if (failed(checkForm(getOperation(), getArgument(), Form::Sweeps, Form::Stages)))
      return signalPassFailure();
    Variances variances(getOperation());
    SmallVector<SweepOp> sweeps; // of the step, or of its phases
    getOperation().walk([&](SweepOp sweep) { sweeps.push_back(sweep); });
    for (SweepOp sweep : sweeps)
      vectorize(sweep, variances, width);
  }
};
} // namespace

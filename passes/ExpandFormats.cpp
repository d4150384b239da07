// dequantize, quantize, join, split, element, collect ==> load, decode, encode.
#include "passes/Passes.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDFORMATSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// The element of a list that `collect` made, its factor multiplied in.
static Value elementOf(OpBuilder &builder, Location loc, Value list) {
  auto collect = list.getDefiningOp<CollectOp>();
  if (!collect)
    return {};
  if (!collect.getFactor())
    return collect.getElement();
  return arith::MulFOp::create(builder, loc, collect.getElement(),
                               collect.getFactor());
}

// What was quantized in this step lies in no memory: its code is at hand.
static Value codeOf(OpBuilder &builder, Location loc, Value tensors) {
  if (auto collect = tensors.getDefiningOp<CollectOp>())
    return collect.getElement();
  FormatAttr format = cast<TensorsType>(tensors.getType()).getFormat();
  return LoadOp::create(builder, loc, format.getCodeType(), tensors);
}

// unscale has made a load of whatever it was given.
static void expandLoad(LoadOp op) {
  if (!op.getTensors().getDefiningOp<CollectOp>())
    return;
  OpBuilder builder(op);
  op.replaceAllUsesWith(codeOf(builder, op.getLoc(), op.getTensors()));
  op.erase();
}

static void expandDequantize(DequantizeOp op) {
  OpBuilder builder(op);
  FormatAttr format = op.getTensors().getType().getFormat();
  Value number = codeOf(builder, op.getLoc(), op.getTensors());
  if (!format.isF32())
    number = DecodeOp::create(builder, op.getLoc(), builder.getF32Type(),
                              number, format);
  op.replaceAllUsesWith(
      CollectOp::create(builder, op.getLoc(), op.getValues().getType(), number,
                        /*factor=*/Value())
          .getResult());
  op.erase();
}

static void expandRecode(RecodeOp op) {
  OpBuilder builder(op);
  Value code = codeOf(builder, op.getLoc(), op.getCodes());
  op.replaceAllUsesWith(CollectOp::create(builder, op.getLoc(),
                                          op.getTensors().getType(), code,
                                          /*factor=*/Value())
                            .getResult());
  op.erase();
}

static LogicalResult expandElement(ElementOp op) {
  OpBuilder builder(op);
  Value element = elementOf(builder, op.getLoc(), op.getValues());
  if (!element)
    return op.emitOpError("takes the element of a list nothing computes");
  op.replaceAllUsesWith(element);
  op.erase();
  return success();
}

static Value encode(OpBuilder &builder, Location loc, Value number,
                    FormatAttr format, Round rounding, Value draw,
                    OverflowMode overflow, Type list) {
  Value code = EncodeOp::create(builder, loc, format.getCodeType(), number,
                                format, rounding, draw, overflow);
  return CollectOp::create(builder, loc, list, code, /*factor=*/Value());
}

static LogicalResult expandQuantize(QuantizeOp op) {
  OpBuilder builder(op);
  Value element = elementOf(builder, op.getLoc(), op.getValues());
  if (!element)
    return op.emitOpError("quantizes a list nothing computes");
  op.replaceAllUsesWith(encode(builder, op.getLoc(), element,
                               op.getTensors().getType().getFormat(),
                               op.getRounding(), op.getDraw(), op.getOverflow(),
                               op.getTensors().getType()));
  op.erase();
  return success();
}

static void expandJoin(JoinOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value upper = codeOf(builder, loc, op.getUpper());
  Value lower = codeOf(builder, loc, op.getLower());
  Value number =
      JoinCodesOp::create(builder, loc, builder.getF32Type(), upper, lower);
  op.replaceAllUsesWith(CollectOp::create(builder, loc,
                                          op.getValues().getType(), number,
                                          /*factor=*/Value())
                            .getResult());
  op.erase();
}

static LogicalResult expandSplit(SplitOp op) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value element = elementOf(builder, loc, op.getValues());
  if (!element)
    return op.emitOpError("splits a list nothing computes");
  FormatAttr lower = op.getLower().getType().getFormat();
  Value upper =
      lower.getBits() == 16
          ? UpperCodeOp::create(builder, loc, builder.getI16Type(), element)
                .getResult()
          : EncodeOp::create(builder, loc, builder.getI16Type(), element,
                             op.getUpper().getType().getFormat(),
                             Round::NearestEven, /*draw=*/Value(),
                             OverflowMode::NonFinite)
                .getResult();
  Value rest = LowerCodeOp::create(builder, loc, lower.getCodeType(), element);
  Value codes[] = {upper, rest};
  for (auto [list, code] : llvm::zip(op.getResults(), codes))
    list.replaceAllUsesWith(CollectOp::create(builder, loc, list.getType(),
                                              code, /*factor=*/Value()));
  op.erase();
  return success();
}

// f32 lists are stored as they are, but for the one code of NaN.
static LogicalResult expandCommit(CommitOp op) {
  OpBuilder builder(op);
  FormatAttr f32 = FormatAttr::getNamed(op.getContext(), "f32");
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RealsType>(operand.get().getType()))
      continue;
    Value element = elementOf(builder, op.getLoc(), operand.get());
    if (!element)
      return op.emitOpError("writes a list nothing computes");
    operand.set(encode(builder, op.getLoc(), element, f32, Round::NearestEven,
                       /*draw=*/Value(), OverflowMode::NonFinite,
                       operand.get().getType()));
  }
  return success();
}

namespace {
struct ExpandFormats : altgrad::impl::ExpandFormatsPassBase<ExpandFormats> {
  void runOnOperation() override {
    Block &body = getOperation().getBody().front();
    LogicalResult result = success();
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (auto dequantize = dyn_cast<DequantizeOp>(op))
        expandDequantize(dequantize);
      else if (auto recode = dyn_cast<RecodeOp>(op))
        expandRecode(recode);
      else if (auto load = dyn_cast<LoadOp>(op))
        expandLoad(load);
      else if (auto element = dyn_cast<ElementOp>(op))
        result = expandElement(element);
      else if (auto quantize = dyn_cast<QuantizeOp>(op))
        result = expandQuantize(quantize);
      else if (auto join = dyn_cast<JoinOp>(op))
        expandJoin(join);
      else if (auto split = dyn_cast<SplitOp>(op))
        result = expandSplit(split);
      else if (auto commit = dyn_cast<CommitOp>(op))
        result = expandCommit(commit);
      if (failed(result))
        return signalPassFailure();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isa<CollectOp, LoadOp, DecodeOp, JoinCodesOp>(op) && op.use_empty())
        op.erase();
  }
};
} // namespace

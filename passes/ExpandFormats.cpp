// dequantize, quantize, join, split, element, collect ==> load, decode, encode.
#include "dialect/builders/Codes.h"
#include "passes/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDFORMATSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// What takes the place of an operation's results; none after an error.
using Results = SmallVector<Value, 2>;

// The element of a list that `collect` made, its factor multiplied in; null after an error.
static Value getElement(CodeBuilder &b, Operation *op, StringRef does, Value list) {
  auto collect = list.getDefiningOp<CollectOp>();
  if (!collect) {
    op->emitOpError() << does << " a list nothing computes";
    return {};
  }
  return collect.getFactor() ? b.mulF(collect.getElement(), collect.getFactor()) : collect.getElement();
}

// What was quantized in this step lies in no memory: its code is at hand.
static Value getCode(CodeBuilder &b, Value tensors) {
  auto collect = tensors.getDefiningOp<CollectOp>();
  return collect ? collect.getElement() : LoadOp::create(b, tensors).getCode();
}

static Value listNumber(CodeBuilder &b, Type type, Value element) {
  return CollectOp::create(b, type, element, /*factor=*/Value());
}

static Results expand(CodeBuilder &b, DequantizeOp op) {
  Value code = getCode(b, op.getTensors());
  return {listNumber(b, op.getType(), decodeNumber(b, code, op.getTensors().getType().getFormat()))};
}

static Results expand(CodeBuilder &b, RecodeOp op) { return {listNumber(b, op.getType(), getCode(b, op.getCodes()))}; }

// unscale has made a load of whatever it was given.
static Results expand(CodeBuilder &b, LoadOp op) {
  return {op.getTensors().getDefiningOp<CollectOp>() ? getCode(b, op.getTensors()) : op.getCode()};
}

static Results expand(CodeBuilder &b, ElementOp op) {
  Value element = getElement(b, op, "takes the element of", op.getValues());
  return element ? Results{element} : Results();
}

static Results expand(CodeBuilder &b, QuantizeOp op) {
  Value element = getElement(b, op, "quantizes", op.getValues());
  if (!element)
    return {};
  Value code =
      encodeNumber(b, element, op.getTensors().getType().getFormat(), op.getRounding(), op.getDraw(), op.getOverflow());
  return {listNumber(b, op.getType(), code)};
}

static Results expand(CodeBuilder &b, JoinOp op) {
  Value upper = getCode(b, op.getUpper()), lower = getCode(b, op.getLower());
  return {listNumber(b, op.getType(), JoinCodesOp::create(b, b.getF32Type(), upper, lower))};
}

static Results expand(CodeBuilder &b, SplitOp op) {
  Value element = getElement(b, op, "splits", op.getValues());
  if (!element)
    return {};
  FormatAttr lower = op.getLower().getType().getFormat();
  Value upper = lower.getBits() == 16 ? UpperCodeOp::create(b, b.getI16Type(), element).getCode()
                                      : encodeNumber(b, element, op.getUpper().getType().getFormat());
  Value rest = LowerCodeOp::create(b, lower.getCodeType(), element);
  return {listNumber(b, op.getUpper().getType(), upper), listNumber(b, op.getLower().getType(), rest)};
}

// f32 lists are stored as they are, but for the one code of NaN.
static LogicalResult expandCommit(CommitOp op) {
  CodeBuilder b(op.getLoc(), op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RealsType>(operand.get().getType()))
      continue;
    Value element = getElement(b, op, "writes", operand.get());
    if (!element)
      return failure();
    operand.set(
        listNumber(b, operand.get().getType(), encodeNumber(b, element, FormatAttr::getNamed(op.getContext(), "f32"))));
  }
  return success();
}

static LogicalResult expand(Operation &op) {
  if (auto commit = dyn_cast<CommitOp>(op))
    return expandCommit(commit);
  CodeBuilder b(op.getLoc(), &op);
  return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
      .Case<DequantizeOp, RecodeOp, LoadOp, ElementOp, QuantizeOp, JoinOp, SplitOp>([&](auto expanded) {
        Results results = expand(b, expanded);
        if (results.empty() || results[0] == op.getResult(0))
          return success(!results.empty());
        op.replaceAllUsesWith(results);
        op.erase();
        return success();
      })
      .Default(success());
}

namespace {
struct ExpandFormats : altgrad::impl::ExpandFormatsPassBase<ExpandFormats> {
  void runOnOperation() override {
    Block &body = getOperation().getBody().front();
    for (Operation &op : llvm::make_early_inc_range(body))
      if (failed(expand(op)))
        return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isa<CollectOp, LoadOp, DecodeOp, JoinCodesOp>(op) && op.use_empty())
        op.erase();
  }
};
} // namespace

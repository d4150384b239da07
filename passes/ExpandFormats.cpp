// dequantize, quantize, join, split, element, collect ==> load, decode, encode.
#include "dialect/builders/Codes.h"
#include "passes/Forms.h"
#include "passes/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_EXPANDFORMATSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// What takes the place of an operation's results.
using Results = SmallVector<Value, 2>;

// The element of a list, its factor multiplied in. In this form nothing but `collect` makes a list of numbers.
static Value getElement(CodeBuilder &b, Value list) {
  auto collect = list.getDefiningOp<CollectOp>();
  return collect.getFactor() ? b.mulF(collect.getElement(), collect.getFactor()) : collect.getElement();
}

// What was quantized in this step lies in no memory: its code is at hand.
static Value getCode(CodeBuilder &b, Value tensors) {
  auto collect = tensors.getDefiningOp<CollectOp>();
  return collect ? collect.getElement() : LoadOp::create(b, tensors).getCode();
}

static Value collect(CodeBuilder &b, Type type, Value element) {
  return CollectOp::create(b, type, element, /*factor=*/Value());
}

static Results expand(CodeBuilder &b, DequantizeOp op) {
  Value code = getCode(b, op.getTensors());
  return {collect(b, op.getType(), decodeNumber(b, code, op.getTensors().getType().getFormat()))};
}

static Results expand(CodeBuilder &b, RecodeOp op) { return {collect(b, op.getType(), getCode(b, op.getCodes()))}; }

// unscale has made a load of whatever it was given.
static Results expand(CodeBuilder &b, LoadOp op) {
  return {op.getTensors().getDefiningOp<CollectOp>() ? getCode(b, op.getTensors()) : op.getCode()};
}

static Results expand(CodeBuilder &b, ElementOp op) { return {getElement(b, op.getValues())}; }

static Results expand(CodeBuilder &b, QuantizeOp op) {
  Value element = getElement(b, op.getValues());
  FormatAttr format = op.getTensors().getType().getFormat();
  Value code = encodeNumber(b, element, format, op.getRounding(), op.getDraw(), op.getOverflow());
  return {collect(b, op.getType(), code)};
}

static Results expand(CodeBuilder &b, JoinOp op) {
  Value upper = getCode(b, op.getUpper()), lower = getCode(b, op.getLower());
  return {collect(b, op.getType(), JoinCodesOp::create(b, b.getF32Type(), upper, lower))};
}

static Results expand(CodeBuilder &b, SplitOp op) {
  Value element = getElement(b, op.getValues());
  FormatAttr lower = op.getLower().getType().getFormat();
  Value upper = lower.getBits() == 16 ? UpperCodeOp::create(b, b.getI16Type(), element).getCode()
                                      : encodeNumber(b, element, op.getUpper().getType().getFormat());
  Value rest = LowerCodeOp::create(b, lower.getCodeType(), element);
  return {collect(b, op.getUpper().getType(), upper), collect(b, op.getLower().getType(), rest)};
}

// f32 lists are stored as they are, but for the one code of NaN. A list of codes is finished already.
static void expandCommit(CommitOp op) {
  CodeBuilder b(op.getLoc(), op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RealsType>(operand.get().getType()))
      continue;
    Value element = getElement(b, operand.get());
    if (auto encode = element.getDefiningOp<EncodeOp>(); encode && encode.getFormat().isF32())
      continue;
    Value code = encodeNumber(b, element, FormatAttr::getNamed(op.getContext(), "f32"));
    operand.set(collect(b, operand.get().getType(), code));
  }
}

static void expand(Operation &op) {
  if (auto commit = dyn_cast<CommitOp>(op))
    return expandCommit(commit);
  CodeBuilder b(op.getLoc(), &op);
  llvm::TypeSwitch<Operation *>(&op).Case<DequantizeOp, RecodeOp, LoadOp, ElementOp, QuantizeOp, JoinOp, SplitOp>(
      [&](auto expanded) {
        Results results = expand(b, expanded);
        if (results[0] == op.getResult(0))
          return;
        op.replaceAllUsesWith(results);
        op.erase();
      });
}

namespace {
struct ExpandFormats : altgrad::impl::ExpandFormatsPassBase<ExpandFormats> {
  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::MatricesExpanded, Form::Element)))
      return signalPassFailure();
    Block &body = getOperation().getBody().front();
    for (Operation &op : llvm::make_early_inc_range(body))
      expand(op);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isa<CollectOp, LoadOp, DecodeOp, JoinCodesOp>(op) && op.use_empty())
        op.erase();
  }
};
} // namespace

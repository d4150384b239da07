// decode, encode, halves, powers and functions ==> integer code, instructions, polynomials.
#include "codegen/Passes.h"
#include "codegen/numerics/BookTable.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/Arithmetic.h"
#include "dialect/builders/Codes.h"
#include "passes/Forms.h"
#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERNUMERICSPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// By the first codec that has a way.
template <auto way, typename Op> static Value convert(CodeBuilder &b, Op op, const Target &target) {
  Value converted;
  for (const Codec *codec : codecs)
    if (!converted)
      converted = (codec->*way)(b, op, target);
  return converted;
}

// A code that all elements share is decoded once.
static void decodeBroadcast(DecodeOp op) {
  auto all = op.getCode().getDefiningOp<vector::BroadcastOp>();
  if (!all || isa<VectorType>(all.getSource().getType()))
    return;
  CodeBuilder b(op->getLoc(), op);
  Value one = DecodeOp::create(b, b.getF32Type(), all.getSource(), op.getFormat());
  op.getNumber().replaceAllUsesWith(b.broadcast(op.getNumber().getType(), one));
  op.erase();
}

static void expandRound(RoundOp op) {
  CodeBuilder b(op->getLoc(), op);
  FormatAttr format = op.getFormat();
  op.replaceAllUsesWith(decodeNumber(b, encodeNumber(b, op.getNumber(), format), format));
  op.erase();
}

static void lowerQuotient(ScaledQuotientOp op) {
  CodeBuilder b(op->getLoc(), op);
  Value near = b.mulF(op.getNumber(), op.getInverse());
  Value back = b.negF(near);
  Value rest = b.fma(back, op.getScale(), op.getNumber());
  op.replaceAllUsesWith(b.fma(rest, op.getInverse(), near));
  op.erase();
}

static bool isOfF64(Operation *op) { return op->getNumResults() == 1 && op->getResult(0).getType().isF64(); }

// Null: `op` is no function.
static Value lowerFunction(CodeBuilder &b, Operation *op, bool many) {
  StringRef name = getRowName(*op);
  if (name == "math.copysign")
    return copySign(b, op->getOperand(0), op->getOperand(1));
  if (!isOfF64(op))
    return lowerElementFunction(b, op);
  return name == "math.exp"   ? exponential(b, op->getOperand(0), many)
         : name == "math.log" ? logarithm(b, op->getOperand(0))
                              : Value();
}

namespace {
struct LowerNumerics : altgrad::impl::LowerNumericsPassBase<LowerNumerics> {
  using LowerNumericsPassBase::LowerNumericsPassBase;

  void runOnOperation() override {
    const Target *machine = findTarget(target, getOperation());
    if (!machine || failed(checkLowered(getOperation(), getArgument())))
      return signalPassFailure();
    getOperation()->walk(decodeBroadcast);
    getOperation()->walk(expandRound);
    if (machine->isPtx())
      copyBooksToShared(getOperation());
    size_t exponentials = 0;
    getOperation()->walk([&](Operation *op) { exponentials += isOfF64(op) && getRowName(*op) == "math.exp"; });
    getOperation()->walk([&](Operation *op) {
      CodeBuilder b(op->getLoc(), op);
      if (auto move = dyn_cast<AdvanceCodeOp>(op))
        return lowerAdvanceCode(b, move, /*inWords=*/machine->isPtx());
      Value lowered = llvm::TypeSwitch<Operation *, Value>(op)
                          .Case([&](EncodeOp op) { return convert<&Codec::encode>(b, op, *machine); })
                          .Case([&](DecodeOp op) { return convert<&Codec::decode>(b, op, *machine); })
                          .Case([&](UpperCodeOp op) { return lowerUpperCode(b, op); })
                          .Case([&](LowerCodeOp op) { return lowerLowerCode(b, op); })
                          .Case([&](JoinCodesOp op) { return lowerJoinCodes(b, op, machine->isPtx()); })
                          .Case([&](UniformOp op) { return uniformNumber(b, op.getBits()); })
                          .Case([&](BinadeOp op) { return roundToBinade(b, op.getNumber()); })
                          .Case([&](math::FPowIOp op) { return powerBySquaring(b, op.getLhs(), op.getRhs()); })
                          .Default([&](Operation *op) { return lowerFunction(b, op, exponentials > 16); });
      if (!lowered)
        return;
      op->getResult(0).replaceAllUsesWith(lowered);
      op->erase();
    });
    getOperation()->walk(lowerQuotient); // now that no code asks for its parts
  }
};
} // namespace

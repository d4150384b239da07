// decode, encode, halves, fpowi, exp, log ==> integer code, instructions, polynomials.
#include "codegen/Passes.h"
#include "codegen/numerics/BookTable.h"
#include "codegen/numerics/Codec.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/Dialect.h"
#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERNUMERICSPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

static Value lowerEncode(CodeBuilder &b, EncodeOp op, const Target &target) {
  Value code;
  for (const Codec *codec : codecs)
    if (!code)
      code = codec->encode(b, op, target);
  return code;
}

static Value lowerDecode(CodeBuilder &b, DecodeOp op, const Target &target);

// A code that all elements share is decoded once; nothing where they have their own.
static Value decodeShared(CodeBuilder &b, DecodeOp op, const Target &target) {
  auto all = op.getCode().getDefiningOp<vector::BroadcastOp>();
  if (!all || isa<VectorType>(all.getSource().getType()))
    return {};
  auto one = DecodeOp::create(b, b.getF32Type(), all.getSource(), op.getFormat());
  Value number = lowerDecode(b, one, target);
  one.erase();
  return b.spread(op.getNumber().getType(), number);
}

static Value lowerDecode(CodeBuilder &b, DecodeOp op, const Target &target) {
  Value number = decodeShared(b, op, target);
  for (const Codec *codec : codecs)
    if (!number)
      number = codec->decode(b, op, target);
  return number;
}

// What is encoded and at once decoded again is rounded, and has no code.
static void roundInPlace(Operation *root) {
  llvm::SetVector<Operation *> encodings;
  root->walk([&](DecodeOp op) {
    auto encode = op.getCode().getDefiningOp<EncodeOp>();
    if (!encode || encode.getFormat() != op.getFormat())
      return;
    CodeBuilder b(op->getLoc(), op);
    Value rounded = roundByBits(b, encode);
    if (!rounded)
      return;
    op.getNumber().replaceAllUsesWith(rounded);
    op.erase();
    encodings.insert(encode);
  });
  for (Operation *encode : encodings)
    if (encode->use_empty())
      encode->erase();
}

static Value lowerRound(CodeBuilder &b, RoundOp op, const Target &target) {
  FormatAttr format = op.getFormat();
  auto encode = EncodeOp::create(b, format.getCodeType(), op.getNumber(), format, Round::NearestEven, /*draw=*/Value(),
                                 OverflowMode::NonFinite,
                                 /*neverNan=*/false);
  auto decode = DecodeOp::create(b, b.getF32Type(), lowerEncode(b, encode, target), format);
  Value rounded = lowerDecode(b, decode, target);
  decode.erase();
  encode.erase();
  return rounded;
}

static void lowerQuotient(ScaledQuotientOp op) {
  CodeBuilder b(op->getLoc(), op);
  Value near = b.mulF(op.getNumber(), op.getInverse());
  Value back = b.negF(near);
  Value rest = b.fma(back, op.getScale(), op.getNumber());
  op.replaceAllUsesWith(b.fma(rest, op.getInverse(), near));
  op.erase();
}

namespace {
struct LowerNumerics : altgrad::impl::LowerNumericsPassBase<LowerNumerics> {
  using LowerNumericsPassBase::LowerNumericsPassBase;

  void runOnOperation() override {
    const Target *machine = findTarget(target);
    if (!machine) {
      getOperation()->emitError() << "unknown target '" << target << "'";
      return signalPassFailure();
    }
    roundInPlace(getOperation());
    if (machine->isPtx())
      shareBooks(getOperation());
    size_t exponentials = 0;
    getOperation()->walk([&](math::ExpOp) { ++exponentials; });
    getOperation()->walk([&](Operation *op) {
      CodeBuilder b(op->getLoc(), op);
      if (auto move = dyn_cast<MoveOp>(op))
        return lowerMove(b, move, /*inWords=*/machine->isPtx());
      Value lowered = llvm::TypeSwitch<Operation *, Value>(op)
                          .Case([&](EncodeOp op) { return lowerEncode(b, op, *machine); })
                          .Case([&](DecodeOp op) { return lowerDecode(b, op, *machine); })
                          .Case([&](RoundOp op) { return lowerRound(b, op, *machine); })
                          .Case([&](UpperCodeOp op) { return upperHalf(b, op); })
                          .Case([&](LowerCodeOp op) { return lowerHalf(b, op); })
                          .Case([&](JoinCodesOp op) { return joinHalves(b, op, machine->isPtx()); })
                          .Case([&](BinadeOp op) { return binadeOf(b, op.getNumber()); })
                          .Case([&](math::FPowIOp op) { return powerBySquaring(b, op.getLhs(), op.getRhs()); })
                          .Case([&](math::ExpOp op) { return exponential(b, op.getOperand(), exponentials > 16); })
                          .Case([&](math::LogOp op) { return logarithm(b, op.getOperand()); })
                          .Case([&](math::CopySignOp op) { return copySign(b, op.getLhs(), op.getRhs()); })
                          .Default(Value());
      if (!lowered)
        return;
      op->getResult(0).replaceAllUsesWith(lowered);
      op->erase();
    });
    getOperation()->walk(lowerQuotient); // now that no code asks for its parts
  }
};
} // namespace

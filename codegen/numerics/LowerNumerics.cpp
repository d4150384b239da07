// decode, encode, halves, fpowi, exp, log ==> integer code, instructions, polynomials.
#include "codegen/Passes.h"
#include "codegen/numerics/BookTable.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/Dialect.h"
#include "llvm/ADT/TypeSwitch.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERNUMERICSPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// Packed conversion by the GPU's own instruction: two numbers, one i16.
static Value encodePairs(CodeBuilder &b, EncodeOp op) {
  FormatAttr format = op.getFormat();
  auto type = cast<VectorType>(op.getNumber().getType());
  Type i16 = b.getI16Type(), f8 = Float8E5M2Type::get(b.getContext());
  if (format.toFormat() == ocpE4M3Format)
    f8 = Float8E4M3FNType::get(b.getContext());
  SmallVector<Value> pairs;
  for (int64_t i = 0; i < type.getNumElements(); i += 2) {
    Value low = b.element(op.getNumber(), i);
    Value high = vector::ExtractOp::create(b, op.getNumber(), ArrayRef<int64_t>{i + 1});
    pairs.push_back(NVVM::ConvertF32x2ToF8x2Op::create(b, i16, high, low, NVVM::FPRoundingMode::RN,
                                                       NVVM::SaturationMode::SATFINITE, /*relu=*/false, f8));
  }
  auto packed = VectorType::get({type.getNumElements() / 2}, i16);
  Value all = b.vectorOf(packed, pairs);
  return vector::BitCastOp::create(b, op.getCode().getType(), all);
}

// The instructions take and give two elements at once.
static bool hasPairs(FormatAttr attribute, Value number, const Target &target) {
  Format format = attribute.toFormat();
  auto type = dyn_cast<VectorType>(number.getType());
  return target.convertsF8 && (format == ocpE4M3Format || format == ocpE5M2Format) && type &&
         type.getNumElements() % 2 == 0;
}

// x86 has no bf16 conversion that keeps subnormals, a GPU has.
static bool hasConversion(FormatAttr format, const Target &target) {
  StringRef name = format.getKnownName();
  return name == "f16" || (name == "bf16" && target.isPtx());
}

static Value lowerEncode(CodeBuilder &b, EncodeOp op, const Target &target) {
  bool nearest = op.getRounding() == Round::NearestEven;
  if (op.getFormat().isBook())
    return encodeByBook(b, op, target);
  if (nearest && op.getOverflow() == OverflowMode::Saturate && hasPairs(op.getFormat(), op.getNumber(), target))
    return encodePairs(b, op);
  if (nearest && hasConversion(op.getFormat(), target))
    return encodeByConversion(b, op);
  return encodeByBits(b, op);
}

// The halves of a word are one instruction each; a GPU has registers of 16 bits
// on paper alone.
static Value decodeHalves(CodeBuilder &b, DecodeOp op) {
  auto type = cast<VectorType>(op.getNumber().getType());
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto constant = [&](uint32_t value) -> Value { return arith::ConstantIntOp::create(b, i32, int32_t(value)); };
  Value words = vector::BitCastOp::create(b, VectorType::get({type.getNumElements() / 2}, i32), op.getCode());
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < type.getNumElements() / 2; ++i) {
    Value word = b.element(words, i);
    Value low = b.left(word, constant(16));
    Value high = b.both(word, constant(0xffff0000));
    for (Value bits : {low, high})
      numbers.push_back(b.cast(f32, bits));
  }
  return b.vectorOf(type, numbers);
}

static bool hasHalves(DecodeOp op, const Target &target) {
  auto type = dyn_cast<VectorType>(op.getCode().getType());
  return target.isPtx() && op.getFormat().getKnownName() == "bf16" && type && type.getNumElements() % 2 == 0;
}

// Two codes, two f16, which hold every number of both formats.
static Value decodePairs(CodeBuilder &b, DecodeOp op) {
  auto type = cast<VectorType>(op.getNumber().getType());
  StringRef name =
      op.getFormat().toFormat() == ocpE4M3Format ? "llvm.nvvm.e4m3x2.to.f16x2.rn" : "llvm.nvvm.e5m2x2.to.f16x2.rn";
  int64_t count = type.getNumElements() / 2;
  Type halves = VectorType::get({2}, b.getF16Type());
  Value words = vector::BitCastOp::create(b, VectorType::get({count}, b.getI16Type()), op.getCode());
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < count; ++i) {
    Value word = b.element(words, i);
    Value pair = LLVM::CallIntrinsicOp::create(b, halves, b.getStringAttr(name), ValueRange{word}).getResult(0);
    for (int64_t j : {0, 1}) {
      Value half = b.element(pair, j);
      numbers.push_back(arith::ExtFOp::create(b, b.getF32Type(), half));
    }
  }
  return b.vectorOf(type, numbers);
}

// One by one: LLVM would take 16-bit halves of words for vectors of two, and fill the
// last one with registers that nobody has written.
static Value decodeSingly(CodeBuilder &b, DecodeOp op) {
  auto type = cast<VectorType>(op.getNumber().getType());
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    Value code = b.element(op.getCode(), i);
    numbers.push_back(decodeByBits(b, code, op.getFormat()));
  }
  return b.vectorOf(type, numbers);
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
  if (Value shared = decodeShared(b, op, target))
    return shared;
  if (op.getFormat().isBook())
    return decodeByBook(b, op, target);
  if (hasHalves(op, target))
    return decodeHalves(b, op);
  if (hasPairs(op.getFormat(), op.getNumber(), target))
    return decodePairs(b, op);
  if (op.getFormat().getKnownName() == "f16")
    return decodeByConversion(b, op.getCode());
  if (target.isPtx() && isa<VectorType>(op.getCode().getType()))
    return decodeSingly(b, op);
  return decodeByBits(b, op.getCode(), op.getFormat());
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

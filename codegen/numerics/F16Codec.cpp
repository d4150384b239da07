// encode and decode of f16 and bf16 by conversions that a target has, and by the halves of words.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/Numerics.h"

using namespace mlir;
using namespace altgrad;

// x86 has no bf16 conversion that keeps subnormals, a GPU has. A NaN is made canonical.
static Value toCode(CodeBuilder &b, EncodeOp op, const Target &target) {
  Value number = op.getNumber();
  Format format = op.getFormat().toFormat();
  bool isF16 = format == f16Format, has = isF16 || (format == bf16Format && target.isPtx());
  if (op.getRounding() != Round::NearestEven || !has)
    return {};
  Integers codes{b, withElementType(number.getType(), b.getI16Type())};
  Value rounded = arith::TruncFOp::create(b, codes.of(isF16 ? Type(b.getF16Type()) : b.getBF16Type()), number);
  Value code = b.cast(codes.type, rounded);
  if (op.getOverflow() == OverflowMode::Saturate) {
    Value magnitude = codes.bitAnd(code, codes.constant(0x7fff));
    Value infinite = b.equal(magnitude, codes.constant(format.infCode()));
    code = codes.select(infinite, codes.bitOr(codes.bitXor(code, magnitude), codes.constant(format.maxCode())), code);
  }
  return op.getNeverNan() ? code : codes.select(b.isNan(number), codes.constant(format.nanCode()), code);
}

// The halves of a word are one instruction each; a GPU has registers of 16 bits on paper alone.
static Value decodeBf16Words(CodeBuilder &b, DecodeOp op) {
  auto type = cast<VectorType>(op.getNumber().getType());
  Type i32 = b.getI32Type();
  Value words = b.castVector(VectorType::get({type.getNumElements() / 2}, i32), op.getCode());
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < type.getNumElements() / 2; ++i) {
    Value word = b.element(words, i);
    Value low = b.shiftLeft(word, b.integer(i32, 16)), high = b.bitAnd(word, b.integer(i32, 0xffff0000));
    for (Value bits : {low, high})
      numbers.push_back(b.cast(b.getF32Type(), bits));
  }
  return b.fromElements(type, numbers);
}

static Value toNumber(CodeBuilder &b, DecodeOp op, const Target &target) {
  Format format = op.getFormat().toFormat();
  auto type = dyn_cast<VectorType>(op.getCode().getType());
  if (target.isPtx() && format == bf16Format && type && type.getNumElements() % 2 == 0)
    return decodeBf16Words(b, op);
  if (!(format == f16Format))
    return {};
  Value half = b.cast(withElementType(op.getCode().getType(), b.getF16Type()), op.getCode());
  return arith::ExtFOp::create(b, op.getNumber().getType(), half);
}

const Codec altgrad::f16Codec{toCode, toNumber};

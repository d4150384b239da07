// upper_code, lower_code, join_codes ==> shifts and additions.
#include "codegen/numerics/Numerics.h"

#include "codegen/numerics/Bits.h"

using namespace mlir;
using namespace altgrad;

static Value bitsOfNumber(const Bits &bits, Value number) { return bits.cast(canonicalNan(bits.b, number), bits.type); }

static Value truncate(const Bits &bits, Value word) { return bits.b.truncate(bits.of(bits.b.getI16Type()), word); }

// The half that is added carries where the lower half is negative.
Value altgrad::lowerUpperCode(CodeBuilder &b, UpperCodeOp op) {
  Bits bits{b, op.getNumber().getType()};
  Value word = bitsOfNumber(bits, op.getNumber());
  return truncate(bits, bits.shiftRight(bits.add(word, bits.constant(0x8000u)), 16));
}

// What rounding to nearest even takes, in 127ths of half a place of the result:
// d steps of the f32 of 2^-15 each, or 2^-16 where it reached the next binade.
static Value correction(const Bits &bits, Value word) {
  Value odd = bits.bitAnd(bits.shiftRight(word, 16), bits.constant(1u));
  Value upper = bits.bitAnd(bits.add(bits.add(word, bits.constant(0x7fffu)), odd), bits.constant(0xffff0000u));
  Value steps = bits.sub(word, upper), zero = bits.constant(0u);
  Value below = bits.greater(zero, steps);
  Value size = bits.select(below, bits.sub(zero, steps), steps);
  Value field = bits.bitAnd(upper, bits.constant(0x7fff0000u));
  Value power = bits.b.equal(bits.bitAnd(upper, bits.constant(0x007f0000u)), zero);
  Value higher = bits.greater(field, bits.constant(0x00800000u));
  Value finer = bits.bitAnd(bits.bitAnd(below, power), higher);
  Value share = bits.b.mul(size, bits.constant(127u));
  Value code = bits.select(finer, bits.shiftRight(bits.add(share, bits.constant(0x8000u)), 16),
                           bits.shiftRight(bits.add(share, bits.constant(0x4000u)), 15));
  code = bits.select(bits.greater(bits.constant(f32Infinity), field), code, zero);
  // Steps are away from zero: of a negative number they are downwards.
  Value down = bits.greater(zero, bits.bitXor(word, steps));
  return bits.select(down, bits.sub(zero, code), code);
}

Value altgrad::lowerLowerCode(CodeBuilder &b, LowerCodeOp op) {
  Bits bits{b, op.getNumber().getType()};
  Type code = getElementTypeOrSelf(op.getCode().getType());
  if (code.isInteger(8))
    return b.truncate(bits.of(code), correction(bits, bitsOfNumber(bits, op.getNumber())));
  return truncate(bits, bitsOfNumber(bits, op.getNumber()));
}

// What no number was split into is a NaN: the upper half then counts alone.
static Value join(const Bits &bits, Value upper, Value lower) {
  Value word = bits.add(upper, lower);
  Value nan = bits.greater(bits.bitAnd(word, bits.constant(0x7fffffffu)), bits.constant(f32Infinity));
  return bits.cast(bits.select(nan, upper, word), bits.f32());
}

// A GPU has registers of 16 bits on paper alone: words hold two codes each.
static Value joinWords(CodeBuilder &b, JoinCodesOp op) {
  auto type = cast<VectorType>(op.getNumber().getType());
  Bits bits{b, b.getF32Type()};
  auto getWords = [&](Value codes) -> Value {
    return vector::BitCastOp::create(b, VectorType::get({type.getNumElements() / 2}, bits.type), codes);
  };
  Value upper = getWords(op.getUpper()), lower = getWords(op.getLower());
  Value sixteen = bits.constant(16u);
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < type.getNumElements() / 2; ++i) {
    Value high = b.element(upper, i);
    Value low = b.element(lower, i);
    Value even = b.shiftRightSigned(bits.shiftLeft(low, 16), sixteen);
    Value odd = b.shiftRightSigned(low, sixteen);
    numbers.push_back(join(bits, bits.shiftLeft(high, 16), even));
    numbers.push_back(join(bits, bits.bitAnd(high, bits.constant(0xffff0000u)), odd));
  }
  return b.fromElements(type, numbers);
}

// upper + (code / 127) * u / 2: u is 2^-7 of the power of two at or below, of
// the smallest normal one for what is smaller. The quotient is Markstein's.
static Value correct(CodeBuilder &b, Value upper, Value code) {
  Bits bits{b, Integers{b, upper.getType()}.of(b.getF32Type())};
  Value word = bits.shiftLeft(b.extendUnsigned(bits.type, upper), 16);
  Value part = arith::SIToFPOp::create(b, bits.f32(), code);
  Value inverse = bits.constant(1.0f / 127.0f);
  Value guess = b.mulF(part, inverse);
  Value rest = b.fma(guess, bits.constant(-127.0f), part);
  Value quotient = b.fma(rest, inverse, guess);
  Value field = b.maxSigned(bits.bitAnd(word, bits.constant(0x7f800000u)), bits.constant(0x00800000u));
  Value eighth = b.mulF(quotient, bits.constant(0x1p-8f));
  Value off = b.mulF(eighth, bits.cast(field, bits.f32()));
  Value number = bits.cast(word, bits.f32());
  Value finite = bits.greater(bits.constant(f32Infinity), field);
  return bits.select(finite, b.addF(number, off), number);
}

// One by one on a GPU, as codes of formats are.
static Value joinCorrection(CodeBuilder &b, JoinCodesOp op, bool singly) {
  auto corrected = [&](ValueRange parts) { return correct(b, parts[0], parts[1]); };
  return singly ? scalarize(b, op.getNumber().getType(), op->getOperands(), corrected) : corrected(op->getOperands());
}

Value altgrad::lowerJoinCodes(CodeBuilder &b, JoinCodesOp op, bool byWords) {
  if (getElementTypeOrSelf(op.getLower().getType()).isInteger(8))
    return joinCorrection(b, op, byWords);
  auto vector = dyn_cast<VectorType>(op.getNumber().getType());
  if (byWords && vector && vector.getNumElements() % 2 == 0)
    return joinWords(b, op);
  Bits bits{b, op.getNumber().getType()};
  Value upper = b.extendUnsigned(bits.type, op.getUpper());
  Value lower = b.extendSigned(bits.type, op.getLower());
  return join(bits, bits.shiftLeft(upper, 16), lower);
}

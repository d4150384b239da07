// encode and decode of every format as arithmetic.
#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace altgrad;

namespace {
// i32 arithmetic on a scalar or on each element of a vector.
struct Bits {
  ImplicitLocOpBuilder &b;
  Type like; // f32, or a vector of it

  Type type(Type element) const {
    if (auto vector = dyn_cast<VectorType>(like))
      return VectorType::get(vector.getShape(), element);
    return element;
  }
  Type i32() const { return type(b.getI32Type()); }
  Value constant(uint32_t value) const {
    return splat(b.getI32IntegerAttr(static_cast<int32_t>(value)), i32());
  }
  Value constant(float value) const {
    return splat(b.getF32FloatAttr(value), type(b.getF32Type()));
  }
  Value splat(TypedAttr value, Type type) const {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(
          b, DenseElementsAttr::get(vector, Attribute(value)));
    return arith::ConstantOp::create(b, value);
  }
  Value cast(Value value, Type to) const {
    return arith::BitcastOp::create(b, to, value);
  }
  Value add(Value x, Value y) const { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, Value y) const { return arith::SubIOp::create(b, x, y); }
  Value both(Value x, Value y) const { return arith::AndIOp::create(b, x, y); }
  Value either(Value x, Value y) const { return arith::OrIOp::create(b, x, y); }
  Value xors(Value x, Value y) const { return arith::XOrIOp::create(b, x, y); }
  Value left(Value x, unsigned by) const {
    return by ? arith::ShLIOp::create(b, x, constant(by)).getResult() : x;
  }
  Value right(Value x, unsigned by) const {
    return by ? arith::ShRUIOp::create(b, x, constant(by)).getResult() : x;
  }
  Value above(Value x, Value y) const {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, x, y);
  }
  Value choose(Value condition, Value x, Value y) const {
    return arith::SelectOp::create(b, condition, x, y);
  }
};

// Codes without their sign.
struct Codes {
  uint32_t largest; // finite
  uint32_t infinity;
  uint32_t nan;
};
} // namespace

static constexpr uint32_t f32Infinity = 0x7f800000;

static Codes codesOf(FormatAttr format) {
  unsigned m = format.getMantissa(), bits = format.getBits();
  uint32_t all = (1u << (bits - 1)) - 1;
  uint32_t top = all & ~((1u << m) - 1);
  Codes codes{all, top, all};
  if (format.getInf() || format.getNan() == Nan::Ieee)
    codes.largest = top - 1;
  else if (format.getNan() == Nan::AllOnes)
    codes.largest = all - 1;
  if (format.getNan() == Nan::None)
    codes.nan = 0;
  else if (format.getNan() == Nan::Ieee && bits > 8)
    codes.nan = top | 1u << (m - 1);
  return codes;
}

static float powerOfTwo(int exponent) { return std::ldexp(1.0f, exponent); }

// Rounding to nearest even: in the normal range by adding half an ulp to the
// bits, below it by an addition whose last place is the format's smallest step.
static Value roundMagnitude(const Bits &bits, Value magnitude,
                            FormatAttr format) {
  unsigned m = format.getMantissa(), drop = 23 - m;
  int bias = format.getBias();
  Value odd = bits.both(bits.right(magnitude, drop), bits.constant(1u));
  if (m == 0 && (127 - bias) % 2) // the code's last bit is not the exponent's
    odd = bits.xors(odd, bits.constant(1u));
  Value half = bits.constant((1u << (drop - 1)) - 1);
  Value rounded = bits.add(bits.add(magnitude, half), odd);
  Value code = bits.sub(bits.right(rounded, drop),
                        bits.constant(static_cast<uint32_t>(127 - bias) << m));
  if (bias == 127) // the exponents of f32, its subnormals too
    return code;
  float step = powerOfTwo(24 - bias - static_cast<int>(m));
  Value number = bits.cast(magnitude, bits.type(bits.b.getF32Type()));
  Value shifted =
      arith::AddFOp::create(bits.b, number, bits.constant(step));
  uint32_t stepBits;
  std::memcpy(&stepBits, &step, sizeof step);
  Value small = bits.sub(bits.cast(shifted, bits.i32()),
                         bits.constant(stepBits));
  Value isSmall = bits.above(
      bits.constant(static_cast<uint32_t>(128 - bias) << 23), magnitude);
  return bits.choose(isSmall, small, code);
}

static Value truncate(const Bits &bits, Value code, FormatAttr format) {
  return arith::TruncIOp::create(bits.b, bits.type(format.getCodeType()), code);
}

namespace {
// The bits of an f32 or f64, or of a vector of them, as integers of that width.
struct Words {
  ImplicitLocOpBuilder &b;
  Type numbers, words;
  bool wide;

  Words(ImplicitLocOpBuilder &b, Type numbers)
      : b(b), numbers(numbers),
        wide(getElementTypeOrSelf(numbers).isF64()) {
    words = b.getIntegerType(wide ? 64 : 32);
    if (auto vector = dyn_cast<VectorType>(numbers))
      words = VectorType::get(vector.getShape(), words);
  }
  Value constant(uint32_t f32Bits, uint64_t f64Bits) const {
    TypedAttr value = b.getIntegerAttr(
        getElementTypeOrSelf(words),
        APInt(wide ? 64 : 32, wide ? f64Bits : f32Bits));
    if (auto vector = dyn_cast<VectorType>(words))
      return arith::ConstantOp::create(
          b, DenseElementsAttr::get(vector, Attribute(value)));
    return arith::ConstantOp::create(b, value);
  }
  Value of(Value number) const {
    return arith::BitcastOp::create(b, words, number);
  }
  Value number(Value word) const {
    return arith::BitcastOp::create(b, numbers, word);
  }
};
} // namespace

// In integers: to LLVM any NaN is as good as another, and it folds a choice
// between two of them.
Value altgrad::canonicalNan(ImplicitLocOpBuilder &b, Value number) {
  Words words(b, number.getType());
  Value raw = words.of(number);
  Value magnitude = arith::AndIOp::create(
      b, raw, words.constant(0x7fffffff, 0x7fffffffffffffff));
  Value nan =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, magnitude,
                            words.constant(f32Infinity, 0x7ff0000000000000));
  return words.number(arith::SelectOp::create(
      b, nan, words.constant(0x7fc00000, 0x7ff8000000000000), raw));
}

Value altgrad::copySign(ImplicitLocOpBuilder &b, Value x, Value y) {
  Words words(b, x.getType());
  Value sign = arith::AndIOp::create(
      b, words.of(canonicalNan(b, y)),
      words.constant(0x80000000, 0x8000000000000000));
  Value magnitude = words.of(math::AbsFOp::create(b, x));
  return words.number(arith::OrIOp::create(b, magnitude, sign));
}

// A format with the exponents of f32: half an ulp is added to the bits as they
// stand, sign included, and the carry of the largest number runs into infinity.
static Value roundBits(const Bits &bits, Value number, FormatAttr format,
                       bool neverNan) {
  unsigned drop = 23 - format.getMantissa();
  Value raw = bits.cast(number, bits.i32());
  Value odd = bits.both(bits.right(raw, drop), bits.constant(1u));
  Value half = bits.constant((1u << (drop - 1)) - 1);
  if (neverNan)
    return bits.right(bits.add(bits.add(raw, half), odd), drop);
  Value nan =
      arith::CmpFOp::create(bits.b, arith::CmpFPredicate::UNO, number, number);
  Value most = bits.choose(nan, bits.constant(codesOf(format).nan << drop),
                           bits.add(raw, half));
  return bits.right(bits.add(most, odd), drop);
}

Value altgrad::encodeByBits(ImplicitLocOpBuilder &b, EncodeOp op) {
  Value number = op.getNumber();
  FormatAttr format = op.getFormat();
  OverflowMode overflow = op.getOverflow();
  Bits bits{b, number.getType()};
  if (format.isF32())
    return op.getNeverNan() ? number : canonicalNan(b, number);
  if (format.getKnownName() == "bf16" && overflow == OverflowMode::NonFinite)
    return truncate(bits, roundBits(bits, number, format, op.getNeverNan()),
                    format);
  Codes codes = codesOf(format);
  Value raw = bits.cast(number, bits.i32());
  Value magnitude = bits.both(raw, bits.constant(0x7fffffffu));
  Value sign = bits.right(bits.xors(raw, magnitude), 32 - format.getBits());
  Value code = roundMagnitude(bits, magnitude, format);
  Value tooLarge = bits.above(code, bits.constant(codes.largest));
  Value nan = bits.above(magnitude, bits.constant(f32Infinity));
  if (overflow == OverflowMode::Saturate || format.getInf()) {
    uint32_t beyond =
        overflow == OverflowMode::Saturate ? codes.largest : codes.infinity;
    code = bits.choose(tooLarge, bits.constant(beyond), code);
  } else {
    nan = bits.either(nan, tooLarge);
  }
  Value signedCode = bits.either(code, sign);
  return truncate(bits, bits.choose(nan, bits.constant(codes.nan), signedCode),
                  format);
}

Value altgrad::encodeByConversion(ImplicitLocOpBuilder &b, EncodeOp op) {
  Value number = op.getNumber();
  FormatAttr format = op.getFormat();
  Bits bits{b, number.getType()};
  Codes codes = codesOf(format);
  Type half = format.getKnownName() == "f16" ? Type(b.getF16Type())
                                             : Type(b.getBF16Type());
  Value rounded = arith::TruncFOp::create(b, bits.type(half), number);
  Value code = bits.cast(rounded, bits.type(b.getI16Type()));
  auto constant = [&](uint32_t value) {
    return bits.splat(b.getI16IntegerAttr(static_cast<int16_t>(value)),
                      code.getType());
  };
  if (op.getOverflow() == OverflowMode::Saturate) {
    Value magnitude = bits.both(code, constant(0x7fff));
    Value infinite = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                           magnitude, constant(codes.infinity));
    code = bits.choose(infinite,
                       bits.either(bits.xors(code, magnitude),
                                   constant(codes.largest)),
                       code);
  }
  if (op.getNeverNan())
    return code;
  Value nan =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, number, number);
  return bits.choose(nan, constant(codes.nan), code);
}

Value altgrad::decodeByBits(ImplicitLocOpBuilder &b, Value code,
                            FormatAttr format) {
  Type f32 = b.getF32Type();
  if (auto vector = dyn_cast<VectorType>(code.getType()))
    f32 = VectorType::get(vector.getShape(), f32);
  Bits bits{b, f32};
  unsigned width = format.getBits(), m = format.getMantissa();
  Value wide = arith::ExtUIOp::create(b, bits.i32(), code);
  if (format.getExponent() == 8 && format.getBias() == 127)
    return bits.cast(bits.left(wide, 32 - width), f32);
  Codes codes = codesOf(format);
  Value magnitude = bits.both(wide, bits.constant((1u << (width - 1)) - 1));
  Value sign = bits.left(bits.xors(wide, magnitude), 32 - width);
  Value unscaled = bits.cast(bits.left(magnitude, 23 - m), f32);
  Value scaled = arith::MulFOp::create(
      b, unscaled, bits.constant(powerOfTwo(127 - format.getBias())));
  Value raw = bits.cast(scaled, bits.i32());
  if (format.getNan() != Nan::None || format.getInf()) {
    Value special = bits.constant(0x7fc00000u);
    if (format.getInf()) {
      Value infinite = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                             magnitude,
                                             bits.constant(codes.infinity));
      special = bits.choose(infinite, bits.constant(f32Infinity), special);
    }
    raw = bits.choose(bits.above(magnitude, bits.constant(codes.largest)),
                      special, raw);
  }
  return bits.cast(bits.either(raw, sign), f32);
}

Value altgrad::decodeByConversion(ImplicitLocOpBuilder &b, Value code) {
  Type half = b.getF16Type(), f32 = b.getF32Type();
  if (auto vector = dyn_cast<VectorType>(code.getType())) {
    half = VectorType::get(vector.getShape(), half);
    f32 = VectorType::get(vector.getShape(), f32);
  }
  Value number = arith::BitcastOp::create(b, half, code);
  return arith::ExtFOp::create(b, f32, number);
}

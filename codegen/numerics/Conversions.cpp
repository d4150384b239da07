// encode of every format as arithmetic.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/builders/Instructions.h"

using namespace mlir;
using namespace altgrad;

// The code of a number below the second binade: an addition whose last place is
// the format's smallest step rounds to nearest even.
static Value roundSmall(const Bits &bits, Value magnitude, const Shape &shape) {
  int step = shape.unit() + 23;
  Value number = bits.cast(magnitude, bits.f32());
  if (step > 127) { // what the product loses lies far below half a step
    number = bits.b.mulF(number, bits.number(powerBits(-64)));
    step -= 64;
  }
  Value shifted = bits.b.addF(number, bits.number(powerBits(step)));
  return bits.sub(bits.cast(shifted, bits.type), bits.constant(powerBits(step)));
}

// Codes of powers of two: 1 from the middle between 0 and the smallest on, and in the
// middle where that is where a tie goes.
static Value roundSmallest(const Bits &bits, Value magnitude, const Shape &shape, const Format &format) {
  bool up = format.ties == Ties::Up || (format.ties == Ties::Even && !format.hasZero);
  Value middle = bits.constant(powerBits(-shape.bias) - up);
  return bits.b.extendUnsigned(bits.type, bits.greater(magnitude, middle));
}

// Numbers of a format that begins below f32's normal ones, as of one that begins with them; `shape` is then that one's.
// The largest may be an infinity as a product, but not as bits.
static Value toF32Bias(const Bits &bits, Value magnitude, const Format &format, Shape &shape) {
  int by = shape.bias - 127;
  shape.bias = 127;
  Value number = bits.cast(magnitude, bits.f32());
  Value product = bits.cast(bits.b.mulF(number, bits.number(powerBits(by))), bits.type);
  if (format.exponentBits < 8)
    return product;
  return bits.select(bits.greater(bits.constant(powerBits(0)), magnitude), product,
                     bits.add(magnitude, bits.constant(uint32_t(by) << 23)));
}

// Half a step is added to the bits, and what is below the code dropped.
static Value roundToNearest(const Bits &bits, Value magnitude, const Format &format) {
  Shape shape(format);
  if (shape.bias > 127)
    magnitude = toF32Bias(bits, magnitude, format, shape);
  else if (shape.uniform && shape.bias < 127)
    return roundSmall(bits, magnitude, shape);
  unsigned m = shape.mantissa, drop = 23 - m;
  int bias = shape.bias;
  Value half = bits.constant((1u << (drop - 1)) - (format.ties != Ties::Up));
  Value rounded = bits.add(magnitude, half);
  if (format.ties == Ties::Even) {
    Value odd = bits.bitAnd(bits.shiftRight(magnitude, drop), bits.constant(1u));
    bool differs = (127 - bias) % 2 != int(!format.hasZero);
    if (m == 0 && differs) // the code's last bit is not the exponent's
      odd = bits.bitXor(odd, bits.constant(1u));
    rounded = bits.add(rounded, odd);
  }
  Value code = bits.sub(bits.shiftRight(rounded, drop), bits.constant(static_cast<uint32_t>(127 - bias) << m));
  if (bias == 127) // the exponents of f32, its subnormals too
    return code;
  Value small = m == 0 ? roundSmallest(bits, magnitude, shape, format) : roundSmall(bits, magnitude, shape);
  return bits.select(bits.greater(bits.constant(powerBits(1 - bias)), magnitude), small, code);
}

//===-- By a direction: toward zero, or away from it where a draw says so -----===//

// x * 2^power, exact as long as nothing is too large: a power below 0 is for
// numbers that have no whole part afterwards.
static Value scaleByPowerOfTwo(const Bits &bits, Value x, int power) {
  for (; power; power -= std::min(power, 127))
    x = bits.b.mulF(x, bits.constant(std::ldexp(1.0f, std::min(power, 127))));
  return x;
}

// A number of steps, and a draw of 32 bits below them, by halves of the fraction: an i32
// holds no more.
static Value addLongDraw(const Bits &bits, Value number, Value draw) {
  auto whole = [&](Value x) -> Value { return arith::FPToSIOp::create(bits.b, bits.type, x); };
  auto rest = [&](Value x, Value whole) {
    Value back = arith::SIToFPOp::create(bits.b, bits.f32(), whole);
    return scaleByPowerOfTwo(bits, bits.b.subF(x, back), 16);
  };
  Value code = whole(number), upper = rest(number, code);
  Value high = whole(upper), low = whole(rest(upper, high));
  Value fraction = bits.bitOr(bits.shiftLeft(high, 16), low);
  Value carry = arith::CmpIOp::create(bits.b, arith::CmpIPredicate::ult, bits.add(fraction, draw), fraction);
  return bits.add(code, bits.b.extendUnsigned(bits.type, carry));
}

// The code of a magnitude as a number of steps of 2^unit.
static Value addDraw(const Bits &bits, Value magnitude, int unit, Value draw, unsigned drawBits) {
  Value number = bits.cast(magnitude, bits.f32());
  if (draw && drawBits == 32)
    return addLongDraw(bits, scaleByPowerOfTwo(bits, number, -unit), draw);
  number = scaleByPowerOfTwo(bits, number, -unit + (draw ? int(drawBits) : 0));
  Value code = arith::FPToSIOp::create(bits.b, bits.type, number);
  return draw ? bits.shiftRight(bits.add(code, draw), drawBits) : code;
}

// Steps of one size: a number of steps, cut at the largest that is a number, above which no
// direction leads.
static Value roundSteps(const Bits &bits, Value magnitude, Value draw, unsigned drawBits, const Format &format) {
  int unit = Shape(format).unit();
  float end = std::ldexp(float(format.maxCode()), unit);
  Value within = bits.minSigned(magnitude, bits.constant(__builtin_bit_cast(uint32_t, end)));
  return addDraw(bits, within, unit, draw, drawBits);
}

// The code of a magnitude rounded toward zero, or where there is a draw, `drawBits` of an i32, stochastically; beyond
// the largest one too, and one more where there is no zero. In the normal range the draw is added to the first bits
// that the format drops, below it to those of the fraction as a number of steps, which a product gives exactly. Toward
// zero is a draw of 0.
static Value roundDirected(const Bits &bits, Value magnitude, Value draw, unsigned drawBits, const Format &format) {
  Shape shape(format);
  // An i32 holds so many steps, with 16 bits of a draw below.
  if (shape.uniform && format.hasZero && !format.complement && shape.bias <= 127 && shape.mantissa + 16 < 31)
    return roundSteps(bits, magnitude, draw, drawBits, format);
  if (shape.bias > 127)
    magnitude = toF32Bias(bits, magnitude, format, shape);
  unsigned m = shape.mantissa, drop = 23 - m;
  Value normal = magnitude;
  if (draw)
    normal = bits.add(magnitude,
                      drop < drawBits ? bits.shiftRight(draw, drawBits - drop) : bits.shiftLeft(draw, drop - drawBits));
  normal = bits.shiftRight(normal, drop);
  if (shape.bias == 127) // the exponents of f32, its subnormals too
    return normal;
  normal = bits.sub(normal, bits.constant(static_cast<uint32_t>(127 - shape.bias) << m));
  Value small = addDraw(bits, magnitude, shape.unit(), draw, drawBits);
  Value isSmall = bits.greater(bits.constant(powerBits(1 - shape.bias)), magnitude);
  return bits.select(isSmall, small, normal);
}

//===-- Magnitudes ----------------------------------------------------------===//

// The code of a magnitude, beyond the largest one too; one more where there is
// no zero.
static Value roundMagnitude(const Bits &bits, Value magnitude, const Format &format, Round rounding, Value draw) {
  if (rounding == Round::NearestEven)
    return roundToNearest(bits, magnitude, format);
  unsigned drawBits = draw ? getElementTypeOrSelf(draw.getType()).getIntOrFloatBitWidth() : 0;
  if (draw && drawBits < 32)
    draw = bits.b.extendUnsigned(bits.type, draw);
  return roundDirected(bits, magnitude, draw, drawBits, format);
}

static Value truncate(const Bits &bits, Value code, FormatAttr format) {
  return bits.b.truncate(bits.of(format.getCodeType()), code);
}

// The bits of an f32 or f64, or of a vector of them, as integers of that width.
static Integers getWords(CodeBuilder &b, Type numbers) {
  unsigned bits = getElementTypeOrSelf(numbers).getIntOrFloatBitWidth();
  return {b, withElementType(numbers, b.getIntegerType(bits))};
}

static Value constant(const Integers &words, uint32_t ofF32, uint64_t ofF64) {
  return words.constant(getElementTypeOrSelf(words.type).isInteger(64) ? ofF64 : ofF32);
}

// In integers: to LLVM any NaN is as good as another, and it folds a choice
// between two of them.
Value altgrad::canonicalNan(CodeBuilder &b, Value number) {
  Integers words = getWords(b, number.getType());
  Value raw = b.cast(words.type, number);
  Value magnitude = b.bitAnd(raw, constant(words, 0x7fffffff, 0x7fffffffffffffff));
  Value nan = b.greater(magnitude, constant(words, f32Infinity, 0x7ff0000000000000));
  return b.cast(number.getType(), b.select(nan, constant(words, 0x7fc00000, 0x7ff8000000000000), raw));
}

// A product makes subnormal numbers normal, whose exponent is masked out, and another one
// takes it back: exact, but for large numbers, which have none.
Value altgrad::roundToBinade(CodeBuilder &b, Value x) {
  Bits bits{b, x.getType()};
  Value raw = bits.cast(x, bits.type), exponent = bits.constant(f32Infinity);
  Value raised = b.mulF(x, bits.number(powerBits(24)));
  Value low = bits.bitAnd(bits.cast(raised, bits.type), exponent);
  Value lowered = b.mulF(bits.cast(low, bits.f32()), bits.number(powerBits(-24)));
  Value plain = bits.bitAnd(raw, exponent);
  Value isPlain = bits.greater(plain, bits.constant(0u));
  Value magnitude = bits.bitAnd(raw, bits.constant(0x7fffffffu));
  Value nan = bits.greater(magnitude, exponent);
  Value power = bits.select(isPlain, plain, bits.cast(lowered, bits.type));
  return bits.cast(bits.select(nan, bits.constant(0x7fc00000u), power), bits.f32());
}

// Below 2^24 a signed integer is an f32, and so is its product with a power of two.
Value altgrad::uniformNumber(CodeBuilder &b, Value bits) {
  Bits words{b, bits.getType()};
  Value upper = b.shiftRight(bits, b.integer(bits.getType(), 8));
  return b.mulF(arith::SIToFPOp::create(b, words.f32(), upper), words.number(powerBits(-24)));
}

Value altgrad::copySign(CodeBuilder &b, Value x, Value y) {
  Integers words = getWords(b, x.getType());
  Value raw = b.cast(words.type, canonicalNan(b, y));
  Value sign = b.bitAnd(raw, constant(words, 0x80000000, 0x8000000000000000));
  Value magnitude = b.cast(words.type, b.absF(x));
  return b.cast(x.getType(), b.bitOr(magnitude, sign));
}

// AVX2 compares numbers by one instruction and unsigned words by three. LLVM does not look into the intrinsic.
static Value canonicalNanByAvx(CodeBuilder &b, Value number) {
  Integers words = getWords(b, number.getType());
  Value unordered = b.integer(b.getI8Type(), 3);
  Value nan =
      b.cast(words.type, intrinsic(b, "llvm.x86.avx.cmp.ps.256", number.getType(), {number, number, unordered}));
  Value raw = b.cast(words.type, number);
  return b.cast(number.getType(), b.select(b.less(nan, words.constant(0)), words.constant(0x7fc00000), raw));
}

// A format with the exponents of f32: half an ulp is added to the bits as they
// stand, sign included, and the carry of the largest number runs into infinity.
static Value roundBits(const Bits &bits, Value number, FormatAttr format, bool neverNan) {
  unsigned drop = 23 - format.getMantissa();
  Value raw = bits.cast(number, bits.type);
  Value odd = bits.bitAnd(bits.shiftRight(raw, drop), bits.constant(1u));
  Value half = bits.constant((1u << (drop - 1)) - 1);
  if (neverNan)
    return bits.shiftRight(bits.add(bits.add(raw, half), odd), drop);
  Value nan = bits.b.isNan(number);
  Value most = bits.select(nan, bits.constant(format.toFormat().nanCode() << drop), bits.add(raw, half));
  return bits.shiftRight(bits.add(most, odd), drop);
}

// The code with its sign.
static Value withSign(const Bits &bits, Value raw, Value magnitude, Value code, const Format &format) {
  if (!format.complement)
    return bits.bitOr(code, bits.shiftRight(bits.bitXor(raw, magnitude), 32 - format.bits()));
  Value all = bits.b.shiftRightSigned(raw, bits.constant(31u));
  Value word = bits.sub(bits.bitXor(code, all), all);
  return bits.bitAnd(word, bits.constant(2 * format.magnitudes() - 1));
}

Value altgrad::encodeByBits(CodeBuilder &b, EncodeOp op, const Target &target) {
  Value number = op.getNumber();
  Format format = op.getFormat().toFormat();
  Bits bits{b, number.getType()};
  if (op.getFormat().isF32() && op.getNeverNan())
    return number;
  if (op.getFormat().isF32()) {
    auto vector = dyn_cast<VectorType>(number.getType());
    bool avx = !target.isPtx() && vector && vector.getNumElements() == 8;
    return avx ? canonicalNanByAvx(b, number) : canonicalNan(b, number);
  }
  bool clamp = op.getOverflow() == OverflowMode::Saturate || format.nan == NanCode::None;
  bool toNearest = op.getRounding() == Round::NearestEven;
  if (format == bf16Format && !clamp && toNearest)
    return truncate(bits, roundBits(bits, number, op.getFormat(), op.getNeverNan()), op.getFormat());
  Value raw = bits.cast(number, bits.type);
  Value magnitude = bits.bitAnd(raw, bits.constant(0x7fffffffu));
  Value nan = bits.greater(magnitude, bits.constant(f32Infinity));
  Value code = roundMagnitude(bits, magnitude, format, op.getRounding(), op.getDraw());
  Value zero = bits.constant(0u), below;
  if (!format.hasSign) {
    below = bits.greater(zero, raw);
    if (!clamp) // what rounds to a zero is none
      below = bits.bitAnd(below, bits.greater(code, zero));
  }
  if (!format.hasZero)
    code = b.maxSigned(bits.sub(code, bits.constant(1u)), zero);
  Value largest = bits.constant(format.maxCode());
  if (format.complement) // one more is below zero
    largest = bits.add(largest, bits.shiftRight(raw, 31));
  Value tooLarge = bits.greater(code, largest);
  if (!toNearest) { // a direction takes no finite number beyond the largest
    code = b.minSigned(code, largest);
    tooLarge = b.equal(magnitude, bits.constant(f32Infinity));
  }
  if (clamp)
    code = bits.select(tooLarge, largest, code);
  else if (format.hasInf)
    code = bits.select(tooLarge, bits.constant(format.infCode()), code);
  else
    nan = bits.bitOr(nan, tooLarge);
  if (format.hasSign)
    code = withSign(bits, raw, magnitude, code, format);
  else if (clamp)
    code = bits.select(below, zero, code);
  else
    nan = bits.bitOr(nan, below);
  Value nanCode = format.nan == NanCode::None ? zero : bits.constant(format.nanCode());
  return truncate(bits, bits.select(nan, nanCode, code), op.getFormat());
}

// A direction takes nothing beyond the largest, for which an infinity stands, too.
Value altgrad::stepsByBits(CodeBuilder &b, Value number, const Format &format, Round rounding, Value draw) {
  Bits bits{b, number.getType()};
  Value magnitude = bits.bitAnd(bits.cast(number, bits.type), bits.constant(0x7fffffffu));
  Value nan = bits.greater(magnitude, bits.constant(f32Infinity));
  Value steps = roundMagnitude(bits, magnitude, format, rounding, draw);
  if (rounding == Round::NearestEven)
    steps = bits.minSigned(steps, bits.constant(format.maxCode()));
  return bits.select(nan, bits.constant(0u), steps);
}

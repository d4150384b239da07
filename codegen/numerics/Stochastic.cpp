// The code of a magnitude by a direction: toward zero, or away from it where a
// draw says so.
#include "codegen/numerics/Bits.h"

using namespace mlir;
using namespace altgrad;

// x * 2^power, exact as long as nothing is too large: a power below 0 is for
// numbers that have no whole part afterwards.
static Value timesPowerOfTwo(const Bits &bits, Value x, int power) {
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
    return timesPowerOfTwo(bits, bits.b.subF(x, back), 16);
  };
  Value code = whole(number), upper = rest(number, code);
  Value high = whole(upper), low = whole(rest(upper, high));
  Value fraction = bits.either(bits.left(high, 16), low);
  Value carry = arith::CmpIOp::create(bits.b, arith::CmpIPredicate::ult, bits.add(fraction, draw), fraction);
  return bits.add(code, bits.b.widen(bits.type, carry));
}

// The code of a magnitude as a number of steps of 2^unit.
static Value addDraw(const Bits &bits, Value magnitude, int unit, Value draw, unsigned drawBits) {
  Value number = bits.cast(magnitude, bits.f32());
  if (draw && drawBits == 32)
    return addLongDraw(bits, timesPowerOfTwo(bits, number, -unit), draw);
  number = timesPowerOfTwo(bits, number, -unit + (draw ? int(drawBits) : 0));
  Value code = arith::FPToSIOp::create(bits.b, bits.type, number);
  return draw ? bits.right(bits.add(code, draw), drawBits) : code;
}

// Steps of one size: a number of steps, cut at the largest that is a number, above which no
// direction leads.
static Value roundSteps(const Bits &bits, Value magnitude, Value draw, unsigned drawBits, const Format &format) {
  int unit = Shape(format).unit();
  float end = std::ldexp(float(format.maxCode()), unit);
  Value within = bits.least(magnitude, bits.constant(__builtin_bit_cast(uint32_t, end)));
  return addDraw(bits, within, unit, draw, drawBits);
}

// In the normal range the draw is added to the first bits that the format
// drops, below it to those of the fraction as a number of steps, which a product
// gives exactly. Toward zero is a draw of 0.
Value altgrad::roundDirected(const Bits &bits, Value magnitude, Value draw, unsigned drawBits, const Format &format) {
  Shape shape(format);
  // An i32 holds so many steps, with 16 bits of a draw below.
  if (shape.uniform && format.hasZero && !format.complement && shape.bias <= 127 && shape.mantissa + 16 < 31)
    return roundSteps(bits, magnitude, draw, drawBits, format);
  if (shape.bias > 127)
    magnitude = raise(bits, magnitude, format, shape);
  unsigned m = shape.mantissa, drop = 23 - m;
  Value normal = magnitude;
  if (draw)
    normal =
        bits.add(magnitude, drop < drawBits ? bits.right(draw, drawBits - drop) : bits.left(draw, drop - drawBits));
  normal = bits.right(normal, drop);
  if (shape.bias == 127) // the exponents of f32, its subnormals too
    return normal;
  normal = bits.sub(normal, bits.constant(static_cast<uint32_t>(127 - shape.bias) << m));
  Value small = addDraw(bits, magnitude, shape.unit(), draw, drawBits);
  Value isSmall = bits.above(bits.constant(powerBits(1 - shape.bias)), magnitude);
  return bits.choose(isSmall, small, normal);
}

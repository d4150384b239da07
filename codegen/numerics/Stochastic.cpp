// The code of a magnitude by a direction: toward zero, or away from it where a
// draw says so.
#include "codegen/numerics/Rounding.h"

using namespace mlir;
using namespace altgrad;

static constexpr unsigned drawBits = 16;

// x * 2^power, exact as long as nothing is too large: a power below 0 is for
// numbers that have no whole part afterwards.
static Value timesPowerOfTwo(const Bits &bits, Value x, int power) {
  for (; power; power -= std::min(power, 127))
    x = arith::MulFOp::create(
        bits.b, x, bits.constant(std::ldexp(1.0f, std::min(power, 127))));
  return x;
}

// Steps of one size: a number of steps, cut just below the first that has no code. What is
// beyond is cut, too, and becomes the largest for the same reason.
static Value roundSteps(const Bits &bits, Value magnitude, Value draw,
                        const Format &format) {
  int unit = Shape(format).unit();
  float end = std::ldexp(float(format.magnitudes()), unit);
  Value within = bits.least(
      magnitude, bits.constant(__builtin_bit_cast(uint32_t, end) - 1));
  Value number = timesPowerOfTwo(bits, bits.cast(within, bits.f32()),
                                 -unit + (draw ? int(drawBits) : 0));
  Value code = arith::FPToSIOp::create(bits.b, bits.type, number);
  return draw ? bits.right(bits.add(code, draw), drawBits) : code;
}

// In the normal range the draw is added to the first bits that the format
// drops, below it to those of the fraction as a number of steps, which a product
// gives exactly. Toward zero is a draw of 0.
Value altgrad::roundDirected(const Bits &bits, Value magnitude, Value draw,
                             const Format &format) {
  Shape shape(format);
  // An i32 holds so many steps, with a draw's bits below.
  if (shape.uniform && format.hasZero && !format.complement &&
      shape.bias <= 127 && shape.mantissa + drawBits < 31)
    return roundSteps(bits, magnitude, draw, format);
  if (shape.bias > 127)
    magnitude = raise(bits, magnitude, format, shape);
  unsigned m = shape.mantissa, drop = 23 - m;
  Value normal = magnitude;
  if (draw)
    normal =
        bits.add(magnitude, drop < drawBits ? bits.right(draw, drawBits - drop)
                                            : bits.left(draw, drop - drawBits));
  normal = bits.right(normal, drop);
  if (shape.bias == 127) // the exponents of f32, its subnormals too
    return normal;
  normal =
      bits.sub(normal, bits.constant(static_cast<uint32_t>(127 - shape.bias) << m));
  Value number = bits.cast(magnitude, bits.f32());
  number = timesPowerOfTwo(bits, number,
                           -shape.unit() + (draw ? int(drawBits) : 0));
  Value small = arith::FPToSIOp::create(bits.b, bits.type, number);
  if (draw)
    small = bits.right(bits.add(small, draw), drawBits);
  Value isSmall = bits.above(bits.constant(powerBits(1 - shape.bias)), magnitude);
  return bits.choose(isSmall, small, normal);
}

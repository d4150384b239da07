// encode by a direction: toward zero, or away from it where a draw says so.
#include "codegen/numerics/Integers.h"
#include "codegen/numerics/Numerics.h"

using namespace mlir;
using namespace altgrad;

static constexpr uint32_t f32Infinity = 0x7f800000;
static constexpr unsigned drawBits = 16;

// x * 2^power, exact as long as nothing is too large: a power below 0 is for
// numbers that have no whole part afterwards.
static Value timesPowerOfTwo(const Integers &bits, Value x, int power) {
  for (; power; power -= std::min(power, 127))
    x = arith::MulFOp::create(bits.b, x,
                              bits.splat(bits.b.getF32FloatAttr(
                                  std::ldexp(1.0f, std::min(power, 127)))));
  return x;
}

// The code of a magnitude, too large a one where it is beyond the format. In
// the normal range the draw is added to the first bits that the format drops,
// below it to those of the fraction as a number of steps, which a product gives
// exactly. Toward zero is a draw of 0.
static Value directedCode(const Integers &bits, Value magnitude, Value draw,
                          FormatAttr format) {
  unsigned m = format.getMantissa(), drop = 23 - m;
  // Without an exponent all numbers are subnormal ones, below 1.
  int bias = format.getExponent() ? format.getBias() : 1;
  Value normal = magnitude;
  if (draw)
    normal =
        bits.add(magnitude, drop < drawBits ? bits.right(draw, drawBits - drop)
                                            : bits.left(draw, drop - drawBits));
  normal = bits.right(normal, drop);
  if (bias == 127) // the exponents of f32, its subnormals too
    return normal;
  normal = bits.sub(normal, bits.constant(uint64_t(127 - bias) << m));
  Value number =
      arith::BitcastOp::create(bits.b, bits.of(bits.b.getF32Type()), magnitude);
  number = timesPowerOfTwo(bits, number,
                           bias - 1 + int(m) + (draw ? int(drawBits) : 0));
  Value small = arith::FPToSIOp::create(bits.b, bits.type, number);
  if (draw)
    small = bits.right(bits.add(small, draw), drawBits);
  Value isSmall =
      bits.above(bits.constant(uint64_t(128 - bias) << 23), magnitude);
  return bits.choose(isSmall, small, normal);
}

Value altgrad::encodeDirected(ImplicitLocOpBuilder &b, EncodeOp op) {
  FormatAttr attr = op.getFormat();
  Format format = attr.toFormat();
  Integers number{b, op.getNumber().getType()};
  Integers bits{b, number.of(b.getI32Type())};
  Value draw;
  if (op.getDraw())
    draw = arith::ExtUIOp::create(b, bits.type, op.getDraw());
  Value raw = arith::BitcastOp::create(b, bits.type, op.getNumber());
  Value magnitude = bits.both(raw, bits.constant(0x7fffffff));
  Value sign = bits.right(bits.exclusive(raw, magnitude), 32 - format.bits());
  Value code = bits.least(directedCode(bits, magnitude, draw, attr),
                          bits.constant(format.maxCode()));
  Value infinity = bits.constant(f32Infinity);
  Value nan = bits.constant(format.nan == NanCode::None ? 0 : format.nanCode());
  if (op.getOverflow() == OverflowMode::NonFinite &&
      format.nan != NanCode::None) {
    Value infinite =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, magnitude, infinity);
    if (format.hasInf) {
      code = bits.choose(infinite, bits.constant(format.infCode()), code);
    } else {
      code = bits.choose(infinite, nan, code);
      sign = bits.choose(infinite, bits.constant(0), sign);
    }
  }
  code = bits.either(code, sign);
  if (!op.getNeverNan())
    code = bits.choose(bits.above(magnitude, infinity), nan, code);
  return arith::TruncIOp::create(b, bits.of(attr.getCodeType()), code);
}

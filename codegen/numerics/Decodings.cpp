// decode of every format as arithmetic.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/Numerics.h"

using namespace mlir;
using namespace altgrad;

// An integer below 2^17 times the format's smallest number.
static Value decodeUniform(const Bits &bits, Value magnitude, const Shape &shape) {
  int step = shape.unit() + 23, scale = step > 127 ? shape.unit() : 0;
  Value base = bits.constant(powerBits(scale ? 23 : step));
  Value sum = bits.cast(bits.bitOr(magnitude, base), bits.f32());
  Value number = bits.b.subF(sum, bits.cast(base, bits.f32()));
  if (!scale)
    return number;
  return bits.b.mulF(number, bits.number(powerBits(scale)));
}

// Begins below f32's normal numbers: an exact product, but where the code's
// exponent would be an infinity's.
static Value decodeLow(const Bits &bits, Value magnitude, const Shape &shape, unsigned exponentBits) {
  Value field = bits.shiftLeft(magnitude, 23 - shape.mantissa);
  Value product = bits.b.mulF(bits.cast(field, bits.f32()), bits.number(powerBits(127 - shape.bias)));
  if (exponentBits < 8)
    return product;
  Value lower = bits.sub(field, bits.constant(uint32_t(shape.bias - 127) << 23));
  return bits.select(bits.greater(bits.constant(128u << shape.mantissa), magnitude), product,
                     bits.cast(lower, bits.f32()));
}

// The f32 of a code that is a number. No subnormal f32 is an operand where the
// result is none: CPUs take a hundred cycles for one.
static Value decodeMagnitude(const Bits &bits, Value magnitude, const Format &format) {
  Shape shape(format);
  if (shape.uniform)
    return decodeUniform(bits, magnitude, shape);
  if (!format.hasZero)
    magnitude = bits.add(magnitude, bits.constant(1u));
  if (shape.bias > 127)
    return decodeLow(bits, magnitude, shape, format.exponentBits);
  unsigned m = shape.mantissa;
  Value field = bits.shiftLeft(magnitude, 23 - m);
  if (shape.bias == 127)
    return bits.cast(field, bits.f32());
  Value normal = bits.add(field, bits.constant(uint32_t(127 - shape.bias) << 23));
  Value small = bits.constant(0.0f);
  if (m > 0)
    small = bits.b.subF(bits.cast(bits.add(normal, bits.constant(1u << 23)), bits.f32()),
                        bits.number(powerBits(1 - shape.bias)));
  return bits.select(bits.greater(bits.constant(1u << m), magnitude), small, bits.cast(normal, bits.f32()));
}

static Value decodeComplement(const Bits &bits, Value wide, const Format &format) {
  unsigned unused = 32 - format.bits();
  Value word = bits.b.shiftRightSigned(bits.shiftLeft(wide, unused), bits.constant(unused));
  Value number = arith::SIToFPOp::create(bits.b, bits.f32(), word);
  return bits.b.mulF(number, bits.number(powerBits(Shape(format).unit())));
}

// Formats whose codes are the f16's, but for a power of two: f16 to f32 is an
// instruction everywhere, which minds no subnormals.
static bool isLikeF16(const Format &format) {
  unsigned e = format.exponentBits;
  return format.bits() <= 8 && format.hasZero && (e == 5 ? format.nan == NanCode::Ieee : e > 1 && e < 5) &&
         std::abs(format.bias) <= 64;
}

static Value decodeByF16(CodeBuilder &b, Value code, const Format &format) {
  Integers words{b, withElementType(code.getType(), b.getI16Type())};
  Bits bits{b, words.of(b.getF32Type())};
  Value wide = b.extendUnsigned(words.type, code), word;
  unsigned e = format.exponentBits, up = 10 - format.mantissaBits;
  if (e == 5 && format.hasSign) {
    word = words.shiftLeft(wide, up); // the sign goes to its place as well
  } else {
    Value magnitude = words.bitAnd(wide, words.constant(format.magnitudes() - 1));
    word = words.shiftLeft(magnitude, up);
    if (format.nan != NanCode::None && e < 5)
      word = words.select(words.greater(magnitude, words.constant(format.maxCode())), words.constant(0x7e00), word);
    if (format.hasInf && e < 5) {
      Value infinite = b.equal(magnitude, words.constant(format.infCode()));
      word = words.select(infinite, words.constant(0x7c00), word);
    }
    if (format.hasSign)
      word =
          words.bitOr(word, words.shiftLeft(words.bitAnd(wide, words.constant(format.signBit())), 16 - format.bits()));
  }
  Value number = arith::ExtFOp::create(b, bits.f32(), b.cast(words.of(b.getF16Type()), word));
  return format.bias == 15 ? number : b.mulF(number, bits.number(powerBits(15 - format.bias)));
}

static Value decodeByBits(CodeBuilder &b, Value code, FormatAttr attribute) {
  Format format = attribute.toFormat();
  if (isLikeF16(format))
    return decodeByF16(b, code, format);
  Type f32 = withElementType(code.getType(), b.getF32Type());
  Bits bits{b, f32};
  Value wide = b.extendUnsigned(bits.type, code);
  if (format.complement)
    return decodeComplement(bits, wide, format);
  if (format.hasInf && format.exponentBits == 8 && format.bias == 127 && format.hasSign)
    return bits.cast(bits.shiftLeft(wide, 32 - format.bits()), f32);
  Value magnitude = bits.bitAnd(wide, bits.constant(format.magnitudes() - 1));
  Value number = decodeMagnitude(bits, magnitude, format);
  if (format.nan == NanCode::None && !format.hasSign)
    return number;
  Value raw = bits.cast(number, bits.type);
  if (format.nan != NanCode::None) {
    Value special = bits.constant(0x7fc00000u);
    if (format.hasInf) {
      Value infinite = b.equal(magnitude, bits.constant(format.infCode()));
      special = bits.select(infinite, bits.constant(f32Infinity), special);
    }
    raw = bits.select(bits.greater(magnitude, bits.constant(format.maxCode())), special, raw);
  }
  if (format.hasSign)
    raw = bits.bitOr(raw, bits.shiftLeft(bits.bitXor(wide, magnitude), 32 - format.bits()));
  return bits.cast(raw, f32);
}

// One by one on a GPU: LLVM would take 16-bit halves of words for vectors of two, and fill the
// last one with registers that nobody has written.
static Value toNumber(CodeBuilder &b, DecodeOp op, const Target &target) {
  auto decoded = [&](ValueRange code) { return decodeByBits(b, code[0], op.getFormat()); };
  return target.isPtx() ? scalarize(b, op.getNumber().getType(), op.getCode(), decoded) : decoded(op.getCode());
}

const Codec altgrad::bitCodec{encodeByBits, toNumber};

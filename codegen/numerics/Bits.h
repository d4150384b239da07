// Formats and f32 as integer arithmetic takes them.
#ifndef ALTGRAD_CODEGEN_NUMERICS_BITS_H
#define ALTGRAD_CODEGEN_NUMERICS_BITS_H

#include "dialect/builders/Integers.h"

namespace altgrad {

constexpr uint32_t f32Infinity = 0x7f800000;

/// The bits of the f32 2^exponent, from -149 to 127.
constexpr uint32_t powerBits(int exponent) {
  return exponent < -126 ? 1u << (exponent + 149) : uint32_t(exponent + 127) << 23;
}

/// A format as the arithmetic takes it: fixed point is the lowest two binades
/// of one exponent bit, and where there is no zero every code is one more, and
/// 0 a zero.
struct Shape {
  unsigned mantissa;
  int bias;
  bool uniform; // all codes are equally far apart

  constexpr explicit Shape(const Format &format)
      : mantissa(format.mantissaBits), bias(format.bias), uniform(format.exponentBits <= 1) {
    if (format.exponentBits == 0) {
      mantissa -= 1;
      bias += 2;
    } else if (!format.hasZero) {
      bias += 1;
    }
  }
  /// The exponent of the smallest number.
  constexpr int unit() const { return 1 - bias - int(mantissa); }
};

// i32 arithmetic on the bits of an f32, or of each of a vector of them.
struct Bits : Integers {
  /// `like`: f32, or a vector of it.
  Bits(CodeBuilder &b, Type like) : Integers{b, Integers{b, like}.of(b.getI32Type())} {}
  Type f32() const { return of(b.getF32Type()); }
  Value constant(uint32_t value) const { return Integers::constant(value); }
  Value constant(float value) const { return b.f32(value, type); }
  Value number(uint32_t bits) const { return constant(__builtin_bit_cast(float, bits)); }
  Value cast(Value value, Type to) const { return b.cast(to, value); }
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_BITS_H

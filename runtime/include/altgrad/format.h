// Number formats as data, and the one codec that constant folding, tests and
// host code share. Definitions: sign-magnitude codes, E exponent bits, M
// mantissa bits; exponent field 0 holds the subnormals, and E = 0 is fixed
// point.
#ifndef ALTGRAD_FORMAT_H
#define ALTGRAD_FORMAT_H

#include <cstdint>

namespace altgrad {

enum class NanCode : uint8_t {
  None,    // every code is a number
  AllOnes, // only the code whose magnitude bits are all ones (OCP E4M3)
  Ieee     // the top exponent with a non-zero mantissa
};

// A format narrower than or as wide as f32. A plain aggregate: presets below,
// others by their numbers.
struct Format {
  uint8_t exponentBits;
  uint8_t mantissaBits;
  int16_t bias;
  bool hasInf; // the top exponent with mantissa 0 is infinity
  NanCode nan;

  constexpr unsigned bits() const { return 1u + exponentBits + mantissaBits; }
  // The codes of +NaN and +inf, and of the largest number; signs are one bit
  // above. The top exponent is reserved only where there is an infinity.
  constexpr uint32_t signBit() const { return 1u << (bits() - 1); }
  constexpr uint32_t topExponent() const {
    return ((1u << exponentBits) - 1) << mantissaBits;
  }
  constexpr uint32_t infCode() const { return topExponent(); }
  constexpr uint32_t maxCode() const {
    return nan == NanCode::Ieee      ? topExponent() - hasInf
           : nan == NanCode::AllOnes ? signBit() - 2
                                     : signBit() - 1;
  }
  // One canonical NaN, without a sign: the quiet bit alone above 8 bits, all
  // ones in 8 and fewer, as in the tables of OCP's 8-bit formats.
  constexpr uint32_t nanCode() const {
    return nan == NanCode::Ieee && bits() > 8
               ? topExponent() | 1u << (mantissaBits - 1)
               : signBit() - 1;
  }
  // Whether every number of the format is an f32 and the words above make
  // sense; the codec is for these.
  constexpr bool valid() const {
    int top = (1 << exponentBits) - 1 - (hasInf ? 1 : 0) - bias;
    bool numbers =
        exponentBits == 0 || (top <= 127 && 1 - bias - mantissaBits >= -149);
    return exponentBits <= 8 && mantissaBits <= 23 &&
           exponentBits + mantissaBits >= 1 && numbers &&
           hasInf == (nan == NanCode::Ieee) &&
           (!hasInf || (exponentBits >= 1 && mantissaBits >= 1));
  }
};

// How a number between two codes is stored. The last two leave finite numbers
// finite: the largest stands for what is beyond it.
enum class Rounding : uint8_t {
  NearestEven, // ties to the even code
  TowardZero,
  Stochastic // away from zero where the 16 bits behind the code and a draw of
             // 16 bits have a sum of 65536 or more
};

// What a number beyond the largest becomes.
enum class Overflow : uint8_t {
  NonFinite, // infinity; NaN where there is none; the largest where neither is
  Saturate   // the largest number, for an infinity as well
};

inline constexpr Format f32Format{8, 23, 127, true, NanCode::Ieee};
inline constexpr Format bf16Format{8, 7, 127, true, NanCode::Ieee};
inline constexpr Format f16Format{5, 10, 15, true, NanCode::Ieee};
inline constexpr Format ocpE4M3Format{4, 3, 7, false, NanCode::AllOnes};
inline constexpr Format ocpE5M2Format{5, 2, 15, true, NanCode::Ieee};

namespace detail {

// Index of the highest set bit.
constexpr int topBit(uint32_t x) { return 31 - __builtin_clz(x); }

// The f32 sig * 2^exponent, for a product that is one exactly.
constexpr uint32_t composeF32(uint32_t sig, int exponent) {
  if (sig == 0)
    return 0;
  int top = topBit(sig), power = exponent + top;
  if (power < -126)
    return exponent >= -149 ? sig << (exponent + 149)
                            : sig >> (-149 - exponent);
  return uint32_t(power + 127) << 23 | ((sig << (23 - top)) & 0x7fffff);
}

// Exponent of the distance between the codes of the lowest binade.
constexpr int unitExponent(const Format &format) {
  return format.exponentBits == 0 ? -int(format.mantissaBits)
                                  : 1 - format.bias - format.mantissaBits;
}

// Whether the `shift` last bits of a significand, its rest, take the code
// before them to the next one.
constexpr bool roundsUp(uint64_t rest, int shift, bool odd, Rounding rounding,
                        uint32_t draw) {
  if (rounding == Rounding::TowardZero)
    return false;
  if (rounding == Rounding::Stochastic)
    return (shift < 16   ? rest << (16 - shift)
            : shift < 64 ? rest >> (shift - 16)
                         : 0) +
               (draw & 0xffff) >
           0xffff;
  if (shift > 25)
    return false;
  uint64_t half = uint64_t(1) << (shift - 1);
  return rest > half || (rest == half && odd);
}

// The code of a magnitude that is a number and not 0, before any overflow.
constexpr uint64_t roundToCode(const Format &format, uint32_t magnitude,
                               Rounding rounding = Rounding::NearestEven,
                               uint32_t draw = 0) {
  uint32_t field = magnitude >> 23;
  uint32_t sig = (magnitude & 0x7fffff) | (field ? 0x800000u : 0);
  int exponent = int(field ? field : 1) - 150;
  int shiftUp = 23 - topBit(sig); // an f32 subnormal becomes like the others
  sig <<= shiftUp;
  exponent -= shiftUp;

  // The binade's number, 0 for the subnormals and the first normal one. Where
  // there are no exponent bits, binade 0 already lies above the largest code.
  int unit = unitExponent(format);
  int binade = exponent + 23 - (unit + format.mantissaBits);
  if (binade < 0)
    binade = 0;
  int shift = unit + binade - exponent;
  // A mantissa that rounds up to the next power of two carries into the
  // exponent field by itself.
  uint64_t code = (uint64_t(binade) << format.mantissaBits) +
                  (shift < 32 ? sig >> shift : 0);
  if (shift == 0)
    return code;
  uint64_t rest = shift < 32 ? sig & ((uint64_t(1) << shift) - 1) : sig;
  return code + roundsUp(rest, shift, code & 1, rounding, draw);
}

} // namespace detail

// The code of an f32 given by its bits: one direct rounding, subnormals
// included, -0 kept, NaN canonical and 0 in a format without one. `saturated`
// is set, never cleared, when the number was beyond the largest. `draw` is for
// stochastic rounding.
constexpr uint32_t encodeBits(const Format &format, uint32_t bits,
                              Rounding rounding, Overflow overflow,
                              bool *saturated = nullptr, uint32_t draw = 0) {
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t sign = bits >> 31 ? format.signBit() : 0;
  if (magnitude > 0x7f800000)
    return format.nan == NanCode::None ? 0 : format.nanCode();
  bool infinite = magnitude == 0x7f800000;
  uint64_t code = magnitude == 0 ? 0
                  : infinite
                      ? uint64_t(format.maxCode()) + 1
                      : detail::roundToCode(format, magnitude, rounding, draw);
  if (code <= format.maxCode())
    return sign | uint32_t(code);
  bool clamp = overflow == Overflow::Saturate || format.nan == NanCode::None ||
               (rounding != Rounding::NearestEven && !infinite);
  if (clamp && saturated)
    *saturated = true;
  if (clamp)
    return sign | format.maxCode();
  return format.hasInf ? sign | format.infCode() : format.nanCode();
}

constexpr uint32_t encode(const Format &format, float value, Rounding rounding,
                          Overflow overflow, bool *saturated = nullptr,
                          uint32_t draw = 0) {
  return encodeBits(format, __builtin_bit_cast(uint32_t, value), rounding,
                    overflow, saturated, draw);
}

// The bits of the f32 that a code stands for; exact, and NaN canonical.
constexpr uint32_t decodeBits(const Format &format, uint32_t code) {
  uint32_t magnitude = code & (format.signBit() - 1);
  uint32_t sign = code & format.signBit() ? 0x80000000u : 0;
  if (magnitude > format.maxCode())
    return format.hasInf && magnitude == format.infCode() ? sign | 0x7f800000
                                                          : 0x7fc00000;
  uint32_t field = magnitude >> format.mantissaBits;
  uint32_t sig = magnitude & ((1u << format.mantissaBits) - 1);
  if (format.exponentBits == 0)
    return sign | detail::composeF32(magnitude, detail::unitExponent(format));
  if (field > 0)
    sig |= 1u << format.mantissaBits;
  return sign | detail::composeF32(sig, detail::unitExponent(format) +
                                            int(field > 0 ? field - 1 : 0));
}

constexpr float decode(const Format &format, uint32_t code) {
  return __builtin_bit_cast(float, decodeBits(format, code));
}

} // namespace altgrad

#endif // ALTGRAD_FORMAT_H

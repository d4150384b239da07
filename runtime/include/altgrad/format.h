// Number formats as data, and the one codec that constant folding, tests and
// host code share.
//
// A code has a sign and a magnitude, with E exponent bits and M mantissa bits.
// Exponent field 0 holds the subnormal numbers; E = 0 is fixed point. Codes of 2
// to 8 bits are stored in one byte, from its lowest bit on, and codes of 9 to 16
// bits in two bytes. Bits above a code are ignored. A packed list has two codes of
// 4 bits in a byte; after an odd number of codes its last byte ends in four zeros.
#ifndef ALTGRAD_FORMAT_H
#define ALTGRAD_FORMAT_H

#include "altgrad/book.h"

#include <cstdint>

namespace altgrad {

enum class NanCode : uint8_t {
  None,    // every code is a number
  AllOnes, // NaN is the code whose magnitude bits are all ones (OCP E4M3)
  Ieee     // NaN is the top exponent with a mantissa that is not 0
};

// To which code a number half-way between two codes is rounded.
enum class Ties : uint8_t {
  Even, // to the even code
  Down, // to the smaller magnitude
  Up    // to the larger one
};

// A format with at most the width of f32. It is a plain aggregate: the presets below, or
// any other numbers. Without exponent bits, a code of magnitude m is
// m * 2^(-mantissaBits - bias).
struct Format {
  uint8_t exponentBits;
  uint8_t mantissaBits;
  int16_t bias;
  bool hasInf; // the top exponent with mantissa 0 is infinity
  NanCode nan;
  bool hasSign = true; // false: no number is negative
  bool hasZero = true; // false: code 0 is 2^-bias (OCP E8M0)
  Ties ties = Ties::Even;
  bool complement = false; // two's complement; only for fixed point
  uint8_t book = 0;        // not 0: codes are places in books[book - 1]

  constexpr unsigned bits() const { return unsigned(hasSign) + exponentBits + mantissaBits; }
  // The number of codes without a sign; the sign is the bit above them.
  constexpr uint32_t magnitudes() const { return 1u << (exponentBits + mantissaBits); }
  constexpr uint32_t signBit() const { return hasSign ? magnitudes() : 0; }
  // The codes of +NaN and +inf, and of the largest number. The top exponent is
  // reserved only where there is an infinity.
  constexpr uint32_t topExponent() const { return ((1u << exponentBits) - 1) << mantissaBits; }
  constexpr uint32_t infCode() const { return topExponent(); }
  constexpr uint32_t maxCode() const {
    return nan == NanCode::Ieee      ? topExponent() - hasInf
           : nan == NanCode::AllOnes ? magnitudes() - 2
                                     : magnitudes() - 1;
  }
  // The one canonical NaN, without a sign. Above 8 bits it is the quiet bit alone;
  // in 8 bits and fewer it is all ones, as in the tables of OCP's 8-bit formats.
  constexpr uint32_t nanCode() const {
    return nan == NanCode::Ieee && bits() > 8 ? topExponent() | 1u << (mantissaBits - 1) : magnitudes() - 1;
  }
  // The code of a magnitude and a sign.
  constexpr uint32_t withSign(uint32_t magnitude, bool negative) const {
    if (complement)
      return (negative ? 0 - magnitude : magnitude) & (2 * magnitudes() - 1);
    return negative ? magnitude | signBit() : magnitude;
  }

  // With two codes in a byte: whether the even element's code is the upper half. OCP's
  // formats have it in the lower half, as torch.float4_e2m1fn_x2.
  constexpr bool canPack() const { return bits() == 4; }
  constexpr bool evenIsHigh() const { return book && books[book - 1].evenHigh; }

  // The biases for which every number is an f32.
  constexpr int smallestBias() const { return exponentBits == 0 ? -127 : int(maxCode() >> mantissaBits) - 127; }
  constexpr int largestBias() const { return (exponentBits == 0 || !hasZero ? 149 : 150) - mantissaBits; }
  // Whether the fields describe a format that the codec handles.
  constexpr bool valid() const {
    bool f32 = exponentBits == 8 && mantissaBits == 23 && hasSign;
    return exponentBits <= 8 && (f32 || (mantissaBits <= 16 && bits() <= 16)) && bits() >= 2 &&
           bias >= smallestBias() && bias <= largestBias() && book <= sizeof(books) / sizeof(*books) &&
           hasInf == (nan == NanCode::Ieee) && (!hasInf || (exponentBits >= 1 && mantissaBits >= 1)) &&
           (nan == NanCode::None || magnitudes() > 2) && (hasZero || (mantissaBits == 0 && !hasSign)) &&
           (ties == Ties::Even || (mantissaBits == 0 && exponentBits >= 2)) &&
           (!complement || (hasSign && exponentBits == 0 && nan == NanCode::None));
  }

  constexpr bool operator==(const Format &o) const {
    return exponentBits == o.exponentBits && mantissaBits == o.mantissaBits && bias == o.bias && hasInf == o.hasInf &&
           nan == o.nan && hasSign == o.hasSign && hasZero == o.hasZero && ties == o.ties &&
           complement == o.complement && book == o.book;
  }
};

// How a number between two codes is rounded. The last two leave finite numbers
// finite: a number beyond the largest becomes the largest.
enum class Rounding : uint8_t {
  NearestEven, // ties to the even code
  TowardZero,
  Stochastic // away from zero if the sum of the 16 bits behind the code and a
             // draw of 16 bits is 65536 or more; or with 32 bits and 2^32
};

// What a number beyond the largest becomes.
enum class Overflow : uint8_t {
  NonFinite, // infinity; NaN where there is none; the largest where neither is
  Saturate   // the largest number, for an infinity as well
};

// A code book as a format. Its numbers are those of the table; the other fields do not
// matter.
constexpr Format bookFormat(uint8_t book) {
  return {0, books[book - 1].bits, 0, false, NanCode::None, false, true, Ties::Up, /*complement=*/false, book};
}

inline constexpr Format f32Format{8, 23, 127, true, NanCode::Ieee};
inline constexpr Format bf16Format{8, 7, 127, true, NanCode::Ieee};
inline constexpr Format f16Format{5, 10, 15, true, NanCode::Ieee};
inline constexpr Format ocpE4M3Format{4, 3, 7, false, NanCode::AllOnes};
inline constexpr Format ocpE5M2Format{5, 2, 15, true, NanCode::Ieee};

// One row is one format. Its name is used in the dialect, in storage lines and in
// Python. If a format has two names, the first is printed.
struct Preset {
  const char *name;
  Format format;
};

inline constexpr Preset presets[] = {
    {"f32", f32Format},
    {"bf16", bf16Format},
    {"f16", f16Format},
    {"ocp.e4m3fn", ocpE4M3Format},
    {"ocp.e5m2", ocpE5M2Format},
    {"ocp.e2m3", {2, 3, 1, false, NanCode::None}},
    {"ocp.e3m2", {3, 2, 3, false, NanCode::None}},
    {"ocp.e2m1", {2, 1, 1, false, NanCode::None}},
    // A scale: powers of two from 2^-127, the NaN is 255.
    {"ocp.e8m0", {8, 0, 127, false, NanCode::AllOnes, false, false, Ties::Up}},
    {"altgrad.e0m7", {0, 7, 0, false, NanCode::None}},
    {"altgrad.e1m6", {1, 6, 0, false, NanCode::None}},
    {"altgrad.e2m5", {2, 5, 1, false, NanCode::None}},
    {"altgrad.e3m4", {3, 4, 3, false, NanCode::None}},
    {"altgrad.e3m4b1", {3, 4, 1, false, NanCode::None}}, // its first version
    {"altgrad.e4m3", {4, 3, 7, false, NanCode::None}},   // up to 480
    {"altgrad.e5m2", ocpE5M2Format},
    {"altgrad.e6m1", {6, 1, 31, false, NanCode::None}},
    {"altgrad.e7m0", {7, 0, 63, false, NanCode::None, true, true, Ties::Down}},
    {"altgrad.e0m15", {0, 15, 0, false, NanCode::None}},
    {"altgrad.e1m14", {1, 14, 0, false, NanCode::None}},
    {"altgrad.e2m13", {2, 13, 1, false, NanCode::None}},
    {"altgrad.e3m12", {3, 12, 3, false, NanCode::None}},
    {"altgrad.e4m11", {4, 11, 7, false, NanCode::None}},
    {"altgrad.e5m10", f16Format},
    {"altgrad.e6m9", {6, 9, 31, false, NanCode::None}},
    {"altgrad.e7m8", {7, 8, 63, false, NanCode::None}},
    // The integers themselves; a scale makes them fixed point.
    {"int8", {0, 7, -7, false, NanCode::None, true, true, Ties::Even, true}},
    {"int16", {0, 15, -15, false, NanCode::None, true, true, Ties::Even, true}},
    {"uint8", {0, 8, -8, false, NanCode::None, false}},
    // Code books: numbers up to 1, for states whose blocks have a scale.
    {"bnb8", bookFormat(1)},
    {"bnb8u", bookFormat(2)},
    {"torchao4", bookFormat(3)},
    {"torchao4u", bookFormat(4)},
};

// Short names of formats with a scale for each block, and what they mean in a storage
// line: format of elements, block, format of scales.
struct ScaledPreset {
  const char *name, *meaning;
};

inline constexpr ScaledPreset scaledPresets[] = {
    {"mxfp8", "ocp.e4m3fn:32:ocp.e8m0"},   {"mxfp8e5m2", "ocp.e5m2:32:ocp.e8m0"},
    {"mxfp6e2m3", "ocp.e2m3:32:ocp.e8m0"},                                    // one code in a byte, as all of them
    {"mxfp6e3m2", "ocp.e3m2:32:ocp.e8m0"}, {"mxfp4", "ocp.e2m1:32:ocp.e8m0"}, // two to a byte
    {"nvfp4", "ocp.e2m1:16:ocp.e4m3fn"},                                      // and a scale of the tensor
};

namespace detail {

// Index of the highest set bit.
constexpr int topBit(uint32_t x) { return 31 - __builtin_clz(x); }

// The f32 sig * 2^exponent, for a product that is one exactly.
constexpr uint32_t composeF32(uint32_t sig, int exponent) {
  if (sig == 0)
    return 0;
  int top = topBit(sig), power = exponent + top;
  if (power < -126)
    return exponent >= -149 ? sig << (exponent + 149) : sig >> (-149 - exponent);
  return uint32_t(power + 127) << 23 | ((sig << (23 - top)) & 0x7fffff);
}

// Exponent of the distance between the codes of the lowest binade. Where there
// is no zero, code 0 counts as a binade of its own.
constexpr int unitExponent(const Format &format) {
  int lowest = format.exponentBits == 0 || !format.hasZero ? 0 : 1;
  return lowest - format.bias - format.mantissaBits;
}

// Whether the `shift` last bits of a significand, its rest, take the code
// before them to the next one; `tieUp`: half of it does.
constexpr bool roundsUp(uint64_t rest, int shift, bool tieUp, Rounding rounding, uint32_t draw, int drawBits) {
  if (rounding == Rounding::TowardZero)
    return false;
  if (rounding == Rounding::Stochastic) {
    uint64_t all = (uint64_t(1) << drawBits) - 1;
    return (shift < drawBits ? rest << (drawBits - shift)
            : shift < 64     ? rest >> (shift - drawBits)
                             : 0) +
               (draw & all) >
           all;
  }
  if (shift > 25)
    return false;
  uint64_t half = uint64_t(1) << (shift - 1);
  return rest > half || (rest == half && tieUp);
}

// The code of a magnitude that is a number and not 0, before any overflow; one
// more where there is no zero.
constexpr uint64_t roundToCode(const Format &format, uint32_t magnitude, Rounding rounding = Rounding::NearestEven,
                               uint32_t draw = 0, int drawBits = 16) {
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
  uint64_t code = (uint64_t(binade) << format.mantissaBits) + (shift < 32 ? sig >> shift : 0);
  if (shift == 0)
    return code;
  uint64_t rest = shift < 32 ? sig & ((uint64_t(1) << shift) - 1) : sig;
  bool odd = (code & 1) == uint64_t(format.hasZero);
  bool tieUp = format.ties == Ties::Even ? odd : format.ties == Ties::Up;
  return code + roundsUp(rest, shift, tieUp, rounding, draw, drawBits);
}

constexpr uint32_t encodeByBook(const Book &book, float value, bool *saturated) {
  if (saturated && (value > 1 || value < (book.hasSign ? -1 : 0)))
    *saturated = true;
  return encode(book, value);
}

} // namespace detail

// The code of an f32 given by its bits: one direct rounding, subnormals
// included, -0 kept where there is a sign, NaN canonical and 0 in a format
// without one. What is negative and rounds to no zero lies beyond an unsigned
// format: its smallest number when saturating, otherwise NaN. `saturated` is
// set, never cleared, when a number beyond the format became one of its
// numbers. `draw` is for stochastic rounding, of 16 bits or 32. A code book has
// the nearest number, of two the higher one, its last ones for what is beyond
// them, and the code of 0 for NaN.
constexpr uint32_t encodeBits(const Format &format, uint32_t bits, Rounding rounding, Overflow overflow,
                              bool *saturated = nullptr, uint32_t draw = 0, int drawBits = 16) {
  uint32_t magnitude = bits & 0x7fffffff;
  bool negative = bits >> 31;
  if (format.book)
    return detail::encodeByBook(books[format.book - 1], __builtin_bit_cast(float, bits), saturated);
  if (magnitude > 0x7f800000)
    return format.nan == NanCode::None ? 0 : format.nanCode();
  uint32_t largest = format.maxCode() + (format.complement && negative);
  uint64_t code = magnitude == 0            ? 0
                  : magnitude == 0x7f800000 ? uint64_t(largest) + 2
                                            : detail::roundToCode(format, magnitude, rounding, draw, drawBits);
  bool below = negative && !format.hasSign && code > 0;
  if (!format.hasZero && code > 0)
    --code;
  if (!below && code <= largest)
    return format.withSign(uint32_t(code), negative);
  bool directed = rounding != Rounding::NearestEven && magnitude < 0x7f800000;
  bool clamp = overflow == Overflow::Saturate || format.nan == NanCode::None || (directed && !below);
  if (clamp && saturated)
    *saturated = true;
  if (below)
    return clamp ? 0 : format.nanCode();
  if (clamp)
    return format.withSign(largest, negative);
  return format.hasInf ? format.withSign(format.infCode(), negative) : format.nanCode();
}

constexpr uint32_t encode(const Format &format, float value, Rounding rounding, Overflow overflow,
                          bool *saturated = nullptr, uint32_t draw = 0, int drawBits = 16) {
  return encodeBits(format, __builtin_bit_cast(uint32_t, value), rounding, overflow, saturated, draw, drawBits);
}

// The bits of the f32 that a code stands for; exact, and NaN canonical.
constexpr uint32_t decodeBits(const Format &format, uint32_t code) {
  uint32_t magnitude = code & (format.magnitudes() - 1);
  if (format.book)
    return __builtin_bit_cast(uint32_t, books[format.book - 1].numbers[magnitude]);
  bool negative = code & format.signBit();
  uint32_t sign = negative ? 0x80000000u : 0;
  if (format.complement && negative)
    magnitude = format.magnitudes() - magnitude;
  else if (magnitude > format.maxCode())
    return format.hasInf && magnitude == format.infCode() ? sign | 0x7f800000 : 0x7fc00000;
  int unit = detail::unitExponent(format);
  if (!format.hasZero)
    return detail::composeF32(1, unit + int(magnitude));
  if (format.exponentBits == 0)
    return sign | detail::composeF32(magnitude, unit);
  uint32_t field = magnitude >> format.mantissaBits;
  uint32_t sig = magnitude & ((1u << format.mantissaBits) - 1);
  if (field > 0)
    sig |= 1u << format.mantissaBits;
  return sign | detail::composeF32(sig, unit + int(field > 0 ? field - 1 : 0));
}

constexpr float decode(const Format &format, uint32_t code) {
  return __builtin_bit_cast(float, decodeBits(format, code));
}

} // namespace altgrad

#endif // ALTGRAD_FORMAT_H

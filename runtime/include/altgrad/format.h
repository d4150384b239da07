// Number formats as data, and the one codec that constant folding, tests and
// host code share. Definitions: sign-magnitude codes, E exponent bits, M
// mantissa bits; exponent field 0 holds the subnormals, and E = 0 is fixed point.
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
};

inline constexpr Format f32Format{8, 23, 127, true, NanCode::Ieee};
inline constexpr Format bf16Format{8, 7, 127, true, NanCode::Ieee};
inline constexpr Format f16Format{5, 10, 15, true, NanCode::Ieee};
inline constexpr Format ocpE4M3Format{4, 3, 7, false, NanCode::AllOnes};
inline constexpr Format ocpE5M2Format{5, 2, 15, true, NanCode::Ieee};

} // namespace altgrad

#endif // ALTGRAD_FORMAT_H

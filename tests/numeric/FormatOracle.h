// What a float is stored as, from a table of midpoints in double. Shares
// nothing with the codec: the numbers of a format are listed in order, double
// holds the middles between neighbours exactly, and a float lies somewhere
// among them.
#ifndef ALTGRAD_TESTS_FORMAT_ORACLE_H
#define ALTGRAD_TESTS_FORMAT_ORACLE_H

#include "BookOracle.h"
#include "altgrad/format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace oracle {

using altgrad::Format;
using altgrad::NanCode;
using altgrad::Ties;

// The number of the code whose magnitude is i, were no code special.
inline double numberOf(const Format &f, uint32_t i) {
  uint32_t size = 1u << f.mantissaBits, field = i / size, m = i % size;
  if (f.exponentBits == 0)
    return std::ldexp(double(i) / size, -f.bias);
  if (!f.hasZero)
    return std::ldexp(1.0, int(i) - f.bias);
  if (field == 0)
    return std::ldexp(double(m) / size, 1 - f.bias);
  return std::ldexp(1.0 + double(m) / size, int(field) - f.bias);
}

inline float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

struct Expected {
  uint32_t nonFinite, saturate;
  bool saturated;
};

// For the floats of one sign; magnitudes in ascending order after seek().
class Oracle {
public:
  Oracle(const Format &f, bool negative) : f(f), negative(negative) {
    uint32_t all = 1u << (f.exponentBits + f.mantissaBits);
    count = f.nan == NanCode::AllOnes ? all - 1
            : f.nan == NanCode::Ieee  ? all - (1u << f.mantissaBits)
                                      : all;
    if (f.complement && negative)
      ++count;
    for (uint32_t i = 0; i < count; ++i)
      middles.push_back((numberOf(f, i) + numberOf(f, i + 1)) / 2);
    uint32_t quiet = all - (1u << f.mantissaBits) + (1u << f.mantissaBits >> 1);
    nanCode = f.nan == NanCode::None                   ? 0
              : f.bits() > 8 && f.nan == NanCode::Ieee ? quiet
                                                       : all - 1;
  }

  void seek(uint32_t magnitude) {
    double value = floatOf(std::min(magnitude, 0x7f800000u));
    if (f.book)
      return;
    auto at = std::lower_bound(middles.begin(), middles.end(), value);
    position = uint32_t(at - middles.begin());
  }

  Expected at(uint32_t magnitude) {
    if (f.book) {
      float value = floatOf(magnitude | uint32_t(negative) << 31);
      uint32_t code = bookCode(f.book, value);
      bool below = value < (f.book % 2 ? -1 : 0);
      return {code, code, value > 1 || below};
    }
    if (magnitude > 0x7f800000)
      return {nanCode, nanCode, false};
    double value = floatOf(magnitude);
    if (negative && !f.hasSign)
      return belowZero(value);
    while (position < count &&
           (value > middles[position] ||
            (value == middles[position] && tieGoesUp(position))))
      ++position;
    if (position < count)
      return {withSign(position), withSign(position), false};
    uint32_t largest = withSign(count - 1);
    uint32_t beyond = f.nan == NanCode::None ? largest
                      : f.hasInf             ? withSign(count)
                                             : nanCode;
    return {beyond, largest, true};
  }

private:
  bool tieGoesUp(uint32_t code) const {
    return f.ties == Ties::Even ? code % 2 == 1 : f.ties == Ties::Up;
  }
  // What rounds to zero is zero, the rest is nothing an unsigned format has;
  // where there is no zero, it would lie as far below the smallest number as
  // that is high.
  Expected belowZero(double value) const {
    double half = numberOf(f, f.hasZero) / 2;
    bool up = f.ties == Ties::Up || (f.ties == Ties::Even && !f.hasZero);
    if (value < half || (value == half && !up))
      return {0, 0, false};
    return {nanCode, 0, true};
  }
  uint32_t withSign(uint32_t magnitude) const {
    uint32_t codes = 1u << f.bits();
    if (!negative)
      return magnitude;
    return f.complement ? (codes - magnitude) % codes : magnitude + codes / 2;
  }

  const Format f;
  bool negative;
  uint32_t nanCode, count, position = 0;
  std::vector<double> middles;
};

// Magnitudes of floats in ascending order: every stride-th, or 2^23 in strata:
// with either sign 2^24 floats, of every exponent, with every start of the
// mantissa, and after it what lies at and next to the middles of codes.
struct Magnitudes {
  uint32_t stride; // 0: strata
  uint64_t count() const {
    return stride ? (0x80000000u + uint64_t(stride) - 1) / stride : 1u << 23;
  }
  uint32_t at(uint64_t i) const {
    static constexpr uint32_t ends[32] = {
        0,      1,      2,      3,      5,      8,      0x10,   0x20,
        0x40,   0x80,   0x100,  0x200,  0x400,  0x7ff,  0x800,  0x801,
        0xfff,  0x1000, 0x1001, 0x1234, 0x1555, 0x17ff, 0x1800, 0x1801,
        0x1aaa, 0x1bff, 0x1c00, 0x1e00, 0x1f00, 0x1fe0, 0x1ffe, 0x1fff};
    return stride ? uint32_t(i * stride)
                  : uint32_t(i / 32) << 13 | ends[i % 32];
  }
};

} // namespace oracle

#endif // ALTGRAD_TESTS_FORMAT_ORACLE_H

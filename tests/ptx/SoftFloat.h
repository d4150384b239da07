// Correctly rounded arithmetic on bit patterns, in integers only.
#ifndef ALTGRAD_TESTS_PTX_SOFTFLOAT_H
#define ALTGRAD_TESTS_PTX_SOFTFLOAT_H

#include "Format.h"

namespace ptx::soft {

enum class Order : uint8_t { Less, Equal, Greater, Unordered };

uint64_t add(const Format &, uint64_t a, uint64_t b, Rounding);
uint64_t mul(const Format &, uint64_t a, uint64_t b, Rounding);
/// a * b + c, rounded once.
uint64_t fma(const Format &, uint64_t a, uint64_t b, uint64_t c, Rounding);
uint64_t div(const Format &, uint64_t a, uint64_t b, Rounding);
uint64_t sqrt(const Format &, uint64_t a, Rounding);

Order compare(const Format &, uint64_t a, uint64_t b);
/// PTX order: -0 below +0; one NaN loses unless `propagateNaN`.
uint64_t minimum(const Format &, uint64_t a, uint64_t b, bool propagateNaN);
uint64_t maximum(const Format &, uint64_t a, uint64_t b, bool propagateNaN);

/// `saturate` turns overflow and infinity into the largest finite number.
uint64_t convert(const Format &from, const Format &to, uint64_t bits, Rounding,
                 bool saturate);
uint64_t roundToIntegral(const Format &, uint64_t bits, Rounding);

struct IntegerType {
  unsigned bits;
  bool isSigned;
};
/// Clamps; the result is sign or zero extended to 64 bits.
uint64_t toInteger(const Format &, uint64_t bits, IntegerType, Rounding);
uint64_t fromInteger(const Format &, uint64_t value, bool isSigned, Rounding);

inline uint64_t negate(const Format &f, uint64_t a) { return a ^ f.sign(); }

inline uint64_t flush(const Format &f, uint64_t a) {
  return f.isSubnormal(a) ? a & f.sign() : a;
}

/// `.sat`: the interval [+0, 1], NaN to +0.
inline uint64_t clampToUnit(const Format &f, uint64_t a) {
  if (f.isNaN(a) || f.isNegative(a))
    return 0;
  return a > f.one() ? f.one() : a;
}

/// `.relu`: negative numbers and -0 to +0, NaN stays the canonical NaN.
inline uint64_t relu(const Format &f, uint64_t a) {
  if (f.isNaN(a))
    return f.nan;
  return f.isNegative(a) ? 0 : a;
}

} // namespace ptx::soft

#endif

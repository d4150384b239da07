// Comparisons, and conversions between formats and to and from integers.
#include "SoftFloat.h"
#include "SoftParts.h"

using namespace ptx;
using namespace ptx::soft;

namespace {

/// Total order key of a number that is not NaN: -0 just below +0.
int64_t orderKey(const Format &f, uint64_t bits) {
  int64_t magnitude = int64_t(f.magnitude(bits));
  return f.isNegative(bits) ? -magnitude - 1 : magnitude;
}

uint64_t select(const Format &f, uint64_t a, uint64_t b, bool propagateNaN,
                bool wantLarger) {
  bool nanA = f.isNaN(a), nanB = f.isNaN(b);
  if ((nanA && nanB) || (propagateNaN && (nanA || nanB)))
    return f.nan;
  if (nanA)
    return b;
  if (nanB)
    return a;
  return (orderKey(f, a) > orderKey(f, b)) == wantLarger ? a : b;
}

} // namespace

Order soft::compare(const Format &f, uint64_t a, uint64_t b) {
  if (f.isNaN(a) || f.isNaN(b))
    return Order::Unordered;
  if (f.magnitude(a) == 0 && f.magnitude(b) == 0)
    return Order::Equal;
  int64_t x = orderKey(f, a), y = orderKey(f, b);
  return x < y ? Order::Less : x > y ? Order::Greater : Order::Equal;
}

uint64_t soft::minimum(const Format &f, uint64_t a, uint64_t b,
                       bool propagateNaN) {
  return select(f, a, b, propagateNaN, false);
}

uint64_t soft::maximum(const Format &f, uint64_t a, uint64_t b,
                       bool propagateNaN) {
  return select(f, a, b, propagateNaN, true);
}

uint64_t soft::convert(const Format &from, const Format &to, uint64_t bits,
                       Rounding mode, bool saturate) {
  if (from.isNaN(bits))
    return to.nan;
  if (from.isInfinity(bits)) {
    uint64_t large = saturate || !to.infinity ? to.maxFinite : to.infinity;
    return large | (from.isNegative(bits) ? to.sign() : 0);
  }
  return pack(to, unpack<uint64_t>(from, bits), mode, saturate);
}

uint64_t soft::roundToIntegral(const Format &f, uint64_t bits, Rounding mode) {
  if (f.isNaN(bits))
    return f.nan;
  if (f.isInfinity(bits))
    return bits;
  // No fraction bits: every large number is an integer.
  auto x = unpack<uint64_t>(f, bits);
  if (x.exponent >= 0)
    return bits;
  uint64_t whole =
      roundShift(x.significand, unsigned(-x.exponent), x.negative, mode);
  // Exact: a rounded integer never has more significant bits than x had.
  return pack(f, Parts<uint64_t>{x.negative, 0, whole}, mode);
}

uint64_t soft::toInteger(const Format &f, uint64_t bits, IntegerType type,
                         Rounding mode) {
  // The result carries its sign to 64 bits, so that callers can cut it to any
  // register.
  // PTX ISA, cvt: NaN gives 0, except from f64 or to 64 bits, where it gives
  // the top bit of the destination.
  if (f.isNaN(bits)) {
    if (f.width() < 64 && type.bits < 64)
      return 0;
    uint64_t top = uint64_t(1) << (type.bits - 1);
    return type.isSigned ? ~(top - 1) : top;
  }
  bool negative = f.isNegative(bits);
  uint64_t mask =
      type.bits == 64 ? ~uint64_t(0) : (uint64_t(1) << type.bits) - 1;
  uint64_t largest = type.isSigned ? mask >> 1 : mask;
  uint64_t smallest = type.isSigned ? ~(mask >> 1) : 0;
  uint64_t limit = negative ? smallest : largest;
  if (f.isInfinity(bits))
    return limit;
  auto x = unpack<uint64_t>(f, bits);
  if (x.significand == 0)
    return 0;
  uint64_t whole;
  if (x.exponent >= 0) {
    // 2^64 and beyond exceed every integer type.
    if (x.exponent + int(highestBit(x.significand)) > 63)
      return limit;
    whole = x.significand << x.exponent;
  } else {
    whole = roundShift(x.significand, unsigned(-x.exponent), negative, mode);
  }
  if (negative)
    return whole > uint64_t(0) - smallest ? smallest : uint64_t(0) - whole;
  return whole > largest ? largest : whole;
}

uint64_t soft::fromInteger(const Format &f, uint64_t value, bool isSigned,
                           Rounding mode) {
  bool negative = isSigned && int64_t(value) < 0;
  // In unsigned arithmetic: -2^63 has no positive twin.
  uint64_t magnitude = negative ? uint64_t(0) - value : value;
  return pack(f, Parts<uint64_t>{negative, 0, magnitude}, mode);
}

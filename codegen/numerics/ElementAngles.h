// Sine, cosine and the angle of a point, as ElementFunctions.h has functions.
#ifndef ALTGRAD_CODEGEN_NUMERICS_ELEMENTANGLES_H
#define ALTGRAD_CODEGEN_NUMERICS_ELEMENTANGLES_H

#include "codegen/numerics/ElementFunctions.h"

#include <array>

namespace altgrad::element {

// Pi in two parts; half of each is exact.
inline constexpr float piHigh = 0x1.921fb6p+1f, piLow = -0x1.777a5cp-24f;

// x = quarter * pi / 2 + angle, |angle| <= pi / 4.
template <typename Real> struct Reduced {
  typename Real::Word quarter;
  Pair<Real> angle;
};

// Four words of 2 / pi from the one at `index` on, from 0 to 4, chosen by a bit of it after the other, as a table would
// be a gather. The first word is of zeros.
template <typename Word> std::array<Word, 4> wordsOfQuarters(Word index) {
  auto four = equal(index & 4, 4), two = equal(index & 2, 2), one = equal(index & 1, 1);
  auto word = [&](uint32_t near, uint32_t far) { return choose(four, index.like(far), index.like(near)); };
  std::array all{word(0x00000000, 0xf534ddc0), word(0xa2f9836e, 0xdb629599), word(0x4e441529, 0x3c439041),
                 word(0xfc2757d1, 0xfe5163ab), index.like(0xf534ddc0),       index.like(0xdb629599),
                 index.like(0x3c439041)};
  for (int i = 0; i < 5; ++i)
    all[i] = choose(two, all[i + 2], all[i]);
  for (int i = 0; i < 4; ++i)
    all[i] = choose(one, all[i + 1], all[i]);
  return {all[0], all[1], all[2], all[3]};
}

// Payne and Hanek's: of a mantissa's product with 2 / pi only 64 bits behind the multiples of 4 matter, and these
// follow from 96 bits of 2 / pi from a place on that the exponent says.
template <typename Real> Reduced<Real> reducedByBits(Real size) {
  auto raw = bits(size), place = (raw >> 23) - 120u, by = place & 31;
  auto words = wordsOfQuarters(place >> 5);
  auto shifted = [&](int i) { return (words[i] << by) | ((words[i + 1] >> 1) >> (31u - by)); };
  auto mantissa = (raw & 0x7fffff) | 0x800000;
  // Modulo 4, in units of 2^-62.
  auto all = (product(mantissa, shifted(0)) << 32) + product(mantissa, shifted(1));
  all = all + wide(highWord(product(mantissa, shifted(2))));
  auto top = highWord(all), quarter = (top + 0x20000000u) >> 30;
  auto upper = top - (quarter << 30), lower = lowWord(all);
  // The signed 62 bits as three exact numbers, in units of 2^-22.
  Real a = toReal(shiftSigned(upper, 8));
  Real b = toReal(((upper & 0xff) << 16) | (lower >> 16)), c = toReal(lower & 0xffff);
  Pair<Real> turn = orderedSum(a, b * 0x1p-24f);
  turn.low = fused(c, c.like(0x1p-40f), turn.low);
  Real scale = size.like(piHigh * 0x1p-23f);
  Real high = turn.high * scale;
  Real low = fused(turn.high, scale, -high) + fused(turn.high, scale.like(piLow * 0x1p-23f), turn.low * scale);
  return {quarter, {high, low}};
}

// Sine, or cosine as the sine of a quarter more, which even |x| has.
template <typename Real> Real getSine(Real x, bool cosine) {
  Real size = magnitude(x);
  Reduced<Real> reduced = reducedByBits(size);
  auto small = size < 0x1.921fb4p-1f;
  Real r = choose(small, size, reduced.angle.high), low = choose(small, size.like(0.0f), reduced.angle.low);
  auto quarter = choose(small, reduced.quarter.like(0), reduced.quarter) + uint32_t(cosine);
  Real z = r * r;
  Real s = polynomial(z, {0x1.7c2c4ep-19f, -0x1.a05954p-13f, 0x1.111174p-7f, -0x1.555556p-3f});
  s = r + fused(r * z, s, fused(z * -0.5f, low, low));
  Real c = polynomial(z, {0x1.99e80cp-16f, -0x1.6c0c28p-10f, 0x1.55554ap-5f});
  Pair<Real> half = orderedSum(r.like(1.0f), z * -0.5f);
  c = half.high + fused(z * z, c, fused(-r, low, half.low));
  Real result = choose(equal(quarter & 1, 0), s, c);
  auto sign = (quarter & 2) << 30;
  if (!cosine)
    sign = sign ^ (bits(x) & signBit);
  return choose(size < infinity, number(bits(result) ^ sign), x - x);
}

template <typename Real> Real sin(Real x) { return getSine(x, /*cosine=*/false); }
template <typename Real> Real cos(Real x) { return getSine(x, /*cosine=*/true); }

// The angle of the smaller side over the larger one, counted from the nearest multiple of pi / 4.
template <typename Real> Real atan2(Real y, Real x) {
  Real height = magnitude(y), width = magnitude(x), zero = x.like(0.0f), one = x.like(1.0f);
  auto steep = height > width, behind = equal(bits(x) >> 31, 1);
  Real n = choose(steep, width, height), d = choose(steep, height, width);
  auto even = n == d; // 0 over 0 and infinity over infinity, too
  // So that no reciprocal and no rest is subnormal.
  Real scale = choose(d < 0x1p30f, x.like(0x1p60f), choose(d > 0x1p100f, x.like(0x1p-30f), one));
  n = choose(even, choose(d == 0.0f, zero, one), n * scale);
  d = choose(even, one, d * scale);
  auto boundless = d == infinity;
  n = choose(boundless, zero, n), d = choose(boundless, one, d);
  auto middle = n > d * 0x1.a82798p-2f;
  Pair<Real> less = orderedSum(-d, n), more = orderedSum(d, n);
  auto turned = [&](Real whole, Real part) { return choose(middle, whole, part); };
  Pair<Real> q =
      quotient<Real>({turned(less.high, n), turned(less.low, zero)}, {turned(more.high, d), turned(more.low, zero)});
  Real z = q.high * q.high;
  Real p = polynomial(
      z, {0x1.647458p-5f, -0x1.5347a2p-4f, 0x1.c2f3e0p-4f, -0x1.246fc6p-3f, 0x1.999890p-3f, -0x1.555554p-2f});
  Real low = fused(q.high * z, p, q.low);
  auto offset = [&](float quarter, float half, float three, float four) {
    return turned(choose(behind, x.like(three), x.like(quarter)),
                  choose(steep, x.like(half), choose(behind, x.like(four), zero)));
  };
  // Counted down from a side that is behind or steep, but up from one that is both.
  auto sign = choose(steep, bits(x) ^ signBit, bits(x)) & signBit;
  Pair<Real> sum = orderedSum(offset(piHigh / 4, piHigh / 2, 0x1.2d97c8p+1f, piHigh), number(bits(q.high) ^ sign));
  low = number(bits(low) ^ sign) + offset(piLow / 4, piLow / 2, -0x1.99bc5cp-28f, piLow);
  Real result = withSign(sum.high + (sum.low + low), y);
  return choose(x == x, choose(y == y, result, y), x);
}

} // namespace altgrad::element

#endif // ALTGRAD_CODEGEN_NUMERICS_ELEMENTANGLES_H

// Powers with any exponent, as ElementFunctions.h has functions.
#ifndef ALTGRAD_CODEGEN_NUMERICS_ELEMENTPOWERS_H
#define ALTGRAD_CODEGEN_NUMERICS_ELEMENTPOWERS_H

#include "codegen/numerics/ElementFunctions.h"

namespace altgrad::element {

template <typename Real> Pair<Real> operator*(Pair<Real> a, Pair<Real> b) {
  Pair<Real> product = exactProduct(a.high, b.high);
  return {product.high, product.low + fused(a.high, b.low, a.low * b.high)};
}

// The binary logarithm of a positive number as a pair, to within 2^-35 of it: with s = f / (2 + f) it is
// k + s (c1 + s^2 (c3 + s^2 q(s^2))), c1 = 2 / ln 2, c3 = c1 / 3.
template <typename Real> Pair<Real> log2Pair(Real x) {
  auto parts = logarithmParts(x);
  Real zero = x.like(0.0f);
  Pair<Real> s = quotient({parts.f, zero}, orderedSum(x.like(2.0f), parts.f));
  Pair<Real> square = s * s;
  Real q = polynomial(square.high, {0x1.59ee06p-2f, 0x1.a5bbfap-2f, 0x1.27770ep-1f});
  Pair<Real> third = orderedSum(x.like(0x1.ec709ep-1f), fused(square.high, q, x.like(-0x1.e2fe02p-28f)));
  Pair<Real> rest = square * third;
  Pair<Real> factor = orderedSum(x.like(0x1.715476p+1f), rest.high);
  factor.low = factor.low + (rest.low + 0x1.4ae0cp-25f);
  Pair<Real> product = s * factor;
  Pair<Real> sum = orderedSum(parts.k, product.high);
  return orderedSum(sum.high, sum.low + product.low);
}

// 2^x of a pair.
template <typename Real> Real exp2Pair(Pair<Real> x) {
  Real sum = x.high + rounder;
  Real turn = x.high - (sum - rounder);
  Pair<Real> r = exactProduct(turn, turn.like(0x1.62e43p-1f));
  r.low = r.low + fused(turn, turn.like(-0x1.05c61p-29f), x.low * 0x1.62e43p-1f);
  r = orderedSum(r.high, r.low);
  Exponential<Real> parts{bits(sum) - rounderBits, exponentialRest(r)};
  Pair<Real> all = orderedSum(turn.like(1.0f), parts.rest.high);
  return scaled(all.high + (all.low + parts.rest.low), parts.k);
}

template <typename Real> Real exp2(Real x) { return exp2Pair(Pair<Real>{clamped(x, -151.0f, 129.0f), x.like(0.0f)}); }

// Whether a magnitude is a whole number.
template <typename Real> auto isWhole(Real size) {
  return choose(size < 0x1p23f, (size + 0x1p23f) - 0x1p23f, size) == size;
}

// |x|^y by 2^(y log2 |x|), with the ends of C's pow.
template <typename Real> Real pow(Real x, Real y) {
  Real size = magnitude(x), one = x.like(1.0f), zero = x.like(0.0f);
  Pair<Real> logarithm = log2Pair(size);
  auto ordinary = [&](Real value, Real otherwise) {
    return choose(size > 0.0f, choose(size < infinity, value, otherwise), otherwise);
  };
  Real end = choose(size == 0.0f, x.like(-infinity), size);
  logarithm = {ordinary(logarithm.high, end), ordinary(logarithm.low, zero)};
  Pair<Real> product = exactProduct(y, logarithm.high);
  product.low = fused(y, logarithm.low, product.low);
  Real high = clamped(product.high, -160.0f, 160.0f);
  Real low = choose(magnitude(product.high) < 160.0f, product.low, zero);
  Real result = choose(size == 1.0f, one, exp2Pair(Pair<Real>{high, low}));
  Real exponent = magnitude(y);
  auto whole = isWhole(exponent), even = isWhole(exponent * 0.5f);
  auto below = equal(bits(x) >> 31, 1);
  Real negative =
      choose(whole, choose(even, result, -result), choose(ordinary(one, zero) == 1.0f, x.like(notANumber), result));
  result = choose(below, negative, result);
  result = choose(x == x, choose(y == y, result, y), x);
  return choose(y == 0.0f, one, choose(x == 1.0f, one, result));
}

} // namespace altgrad::element

#endif // ALTGRAD_CODEGEN_NUMERICS_ELEMENTPOWERS_H

// Functions of elements in f32, to within a unit in the last place, by operations that every target rounds alike.
//
// `Real` is an f32 under whatever computes: the compiler's operations (ElementFunctions.cpp), or a CPU's
// (tests/numeric/functions.cpp, which tries every float). It has + - * / and comparisons, also with a constant, and
// `fused`, `root`, `magnitude`, `bits`, `choose`; its `Word` wraps modulo 2^32, its `Long` modulo 2^64. No function
// branches or reads a table. Where a comment speaks of a pair, a number is the sum of two, the second small: it is the
// error that `fused` tells exactly. f64 would be simpler, but GPUs for graphics have few units for it, and a vector of
// a CPU has half as many. Vectors and fast paths are made before: divisions and roots in here are the target's own.
#ifndef ALTGRAD_CODEGEN_NUMERICS_ELEMENTFUNCTIONS_H
#define ALTGRAD_CODEGEN_NUMERICS_ELEMENTFUNCTIONS_H

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace altgrad::element {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
inline constexpr uint32_t signBit = 0x80000000;

template <typename Real> struct Pair {
  Real high, low;
};

//===-- Sums and products with their errors ------------------------------------===//

// Of |a| >= |b|, or a = 0.
template <typename Real> Pair<Real> orderedSum(Real a, Real b) {
  Real sum = a + b;
  return {sum, b - (sum - a)};
}

template <typename Real> Pair<Real> exactSum(Real a, Real b) {
  Real sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

template <typename Real> Pair<Real> exactProduct(Real a, Real b) {
  Real product = a * b;
  return {product, fused(a, b, -product)};
}

// Horner's rule, the highest coefficient first.
template <typename Real> Real polynomial(Real x, std::initializer_list<float> coefficients) {
  const float *next = coefficients.begin();
  Real sum = fused(x, x.like(next[0]), x.like(next[1]));
  for (next += 2; next != coefficients.end(); ++next)
    sum = fused(sum, x, x.like(*next));
  return sum;
}

// n / d of pairs, from one division: `d` is no subnormal number and its reciprocal none.
template <typename Real> Pair<Real> quotient(Pair<Real> n, Pair<Real> d) {
  Real inverse = 1.0f / d.high;
  Real near = n.high * inverse;
  Real rest = fused(-near, d.high, n.high) + (n.low - near * d.low);
  return {near, rest * inverse};
}

template <typename Real> Real withSign(Real size, Real x) {
  return number((bits(size) & (signBit - 1)) | (bits(x) & signBit));
}

//===-- Powers of two ----------------------------------------------------------===//

// 2^k, k from -126 to 127.
template <typename Word> auto powerOfTwo(Word k) { return number((k + 127) << 23); }

// x * 2^k, rounded once where x is about 1; |k| <= 252.
template <typename Real, typename Word> Real scaled(Real x, Word k) {
  Word half = shiftSigned(k, 1);
  return x * powerOfTwo(half) * powerOfTwo(k - half);
}

// 1.5 * 2^23: in a sum with it a number is rounded to an integer, which stands in the last bits.
inline constexpr float rounder = 0x1.8p23f;
inline constexpr uint32_t rounderBits = 0x4b400000;

//===-- Exponentials -----------------------------------------------------------===//

// e^x = 2^k (1 + high + low) with |high| <= 0.35.
template <typename Real> struct Exponential {
  typename Real::Word k;
  Pair<Real> rest;

  // 1 + high + low.
  Pair<Real> mantissa() const {
    Pair<Real> sum = orderedSum(rest.high.like(1.0f), rest.high);
    return orderedSum(sum.high, sum.low + rest.low);
  }
};

// e^r - 1 of |r| <= 0.35, whose first part is the first of r.
template <typename Real> Pair<Real> exponentialRest(Pair<Real> r) {
  Real q = polynomial(r.high, {0x1.9c6534p-13f, 0x1.6d4c84p-10f, 0x1.1113aap-7f, 0x1.5554eap-5f, 0x1.555554p-3f, 0.5f});
  return {r.high, fused(r.high * r.high, q, fused(r.high, r.low, r.low))};
}

// Of |x| <= 104.
template <typename Real> Exponential<Real> exponentialParts(Real x) {
  Real sum = fused(x, x.like(0x1.715476p+0f), x.like(rounder));
  Real n = -(sum - rounder);
  // ln 2 in two parts, of which the first has 15 bits: its product is exact.
  Real near = fused(n, x.like(0x1.62e4p-1f), x), low = x.like(0x1.7f7d1cp-20f);
  Real r = fused(n, low, near);
  return {bits(sum) - rounderBits, exponentialRest<Real>({r, fused(n, low, near - r)})};
}

// Within [low, high]; a NaN stays.
template <typename Real> Real clamped(Real x, float low, float high) {
  return choose(x < low, x.like(low), choose(x > high, x.like(high), x));
}

template <typename Real> Real exponential(Real x) {
  auto parts = exponentialParts(clamped(x, -104.0f, 89.0f));
  Pair<Real> sum = orderedSum(x.like(1.0f), parts.rest.high);
  return scaled(sum.high + (sum.low + parts.rest.low), parts.k);
}

// e^x - 1 of |x| <= 88.
template <typename Real> Pair<Real> exponentialMinusOne(Real x) {
  auto parts = exponentialParts(x);
  Real power = powerOfTwo(parts.k);
  Pair<Real> sum = orderedSum(power - 1.0f, power * parts.rest.high);
  return {sum.high, fused(power, parts.rest.low, sum.low)};
}

// From 88 on it is e^x, of which half is formed so that its power of two is a number.
template <typename Real> Real expm1(Real x) {
  auto parts = exponentialParts(clamped(x, -20.0f, 89.0f));
  auto large = x > 80.0f;
  Real power = powerOfTwo(choose(large, parts.k - 1, parts.k));
  Pair<Real> less = exactSum(power, choose(large, x.like(-0.5f), x.like(-1.0f)));
  Pair<Real> sum = orderedSum(less.high, power * parts.rest.high);
  Real result = sum.high + fused(power, parts.rest.low, sum.low + less.low);
  return choose(x == 0.0f, x, choose(large, result + result, result));
}

// (e^2x - 1) / (e^2x - 1 + 2).
template <typename Real> Real tanh(Real x) {
  Real size = magnitude(x);
  Pair<Real> n = exponentialMinusOne(clamped(size + size, 0.0f, 20.0f));
  n = orderedSum(n.high, n.low);
  Pair<Real> d = exactSum(n.high, x.like(2.0f));
  Pair<Real> q = quotient(n, {d.high, d.low + n.low});
  return withSign(q.high + q.low, x);
}

// e^-|x| / (1 + e^-|x|) or 1 / (1 + e^-|x|); the power of two of the first numerator is put back last.
template <typename Real> Real sigmoid(Real x) {
  auto parts = exponentialParts(-clamped(magnitude(x), 0.0f, 104.0f));
  Pair<Real> e = parts.mantissa();
  Real power = powerOfTwo(choose(less(parts.k, -126), parts.k.like(-126), parts.k));
  Pair<Real> d = orderedSum(x.like(1.0f), power * e.high);
  d.low = fused(power, e.low, d.low);
  auto below = x < 0.0f;
  Pair<Real> n{choose(below, e.high, x.like(1.0f)), choose(below, e.low, x.like(0.0f))};
  Pair<Real> q = quotient(n, d);
  return choose(x == x, scaled(q.high + q.low, choose(below, parts.k, parts.k.like(0))), x);
}

// Up to 1 a polynomial; from there on 1 - e^-(x + x q(x)), which is 1 from 4 on.
template <typename Real> Real erf(Real x) {
  Real size = magnitude(x), z = x * x;
  Real small = polynomial(z, {0x1.4771fep-14f, -0x1.a3515ep-11f, 0x1.53f224p-8f, -0x1.b7f71ap-6f, 0x1.ce2ce6p-4f,
                              -0x1.81273ep-2f, 0x1.06eba8p-3f});
  small = fused(small, x, x);
  size = clamped(size, 0.0f, 4.0f);
  Real q = polynomial(size, {0x1.d46cdap-17f, -0x1.6f9aaep-12f, 0x1.ec7e5ap-9f, -0x1.896142p-6f, 0x1.b459acp-4f,
                             0x1.451abap-1f, 0x1.0790e6p-3f});
  auto parts = exponentialParts(-fused(q, size, size));
  Pair<Real> e = parts.mantissa();
  Real power = powerOfTwo(parts.k);
  Pair<Real> rest = orderedSum(x.like(1.0f), -(power * e.high));
  Real large = withSign(rest.high + fused(-power, e.low, rest.low), x);
  return choose(size > 1.0f, large, small);
}

//===-- Logarithms -------------------------------------------------------------===//

// x = 2^k (1 + f), f from -0.293 to 0.414.
template <typename Real> struct Logarithm {
  Real k, f;
};

template <typename Real> typename Real::Word getExponent(Real x) { return shiftSigned(bits(x) - 0x3f3504f3, 23); }

// Of a positive number.
template <typename Real> Logarithm<Real> logarithmParts(Real x) {
  auto tiny = x < 0x1p-126f;
  Real safe = choose(tiny, x * 0x1p24f, x);
  auto k = getExponent(safe);
  Real m = number(bits(safe) - (k << 23));
  return {toReal(k) - choose(tiny, x.like(24.0f), x.like(0.0f)), m - 1.0f};
}

// (ln(1 + f) - f + f^2 / 2) / f^3.
template <typename Real> Real logarithmTail(Real f) {
  return polynomial(f, {0x1.1326d4p-4f, -0x1.dce586p-4f, 0x1.e6bd44p-4f, -0x1.fc532ap-4f, 0x1.233dcep-3f,
                        -0x1.555b48p-3f, 0x1.99a460p-3f, -0x1.000008p-2f, 0x1.555548p-2f});
}

// ln(1 + f) - f, a product of two.
template <typename Real> Pair<Real> logarithmRest(Real f) { return {f * f, fused(logarithmTail(f), f, f.like(-0.5f))}; }

// k ln 2 + ln(1 + f) + low. The first part of ln 2 has 15 bits.
template <typename Real> Pair<Real> naturalLogarithm(Logarithm<Real> parts, Real low) {
  Pair<Real> sum = orderedSum(parts.k * 0x1.62e4p-1f, parts.f), rest = logarithmRest(parts.f);
  low = fused(parts.k, low.like(0x1.7f7d1cp-20f), sum.low + low);
  return {sum.high, fused(rest.high, rest.low, low)};
}

// What a logarithm is where x is no positive number.
template <typename Real> Real logarithmEnds(Real x, Real result) {
  result = choose(x < infinity, result, x);
  result = choose(x == 0.0f, x.like(-infinity), result);
  return choose(x < 0.0f, x.like(notANumber), result);
}

template <typename Real> Real logarithm(Real x) {
  Pair<Real> sum = naturalLogarithm(logarithmParts(x), x.like(0.0f));
  return logarithmEnds(x, sum.high + sum.low);
}

// (f - f^2 / 2) / ln 2 is a pair.
template <typename Real> Real log2(Real x) {
  auto parts = logarithmParts(x);
  float inverse = 0x1.715476p+0f, rest = 0x1.4ae0cp-26f;
  Pair<Real> square = exactProduct(parts.f, parts.f), two = orderedSum(parts.f, square.high * -0.5f);
  Real small = fused(square.high * parts.f, logarithmTail(parts.f), fused(square.low, x.like(-0.5f), two.low));
  Pair<Real> near = exactProduct(two.high, x.like(inverse)), sum = orderedSum(parts.k, near.high);
  Real low = fused(two.high, x.like(rest), sum.low + near.low);
  return logarithmEnds(x, sum.high + fused(small, x.like(inverse), low));
}

// 1 / (1 + f) to a twentieth: of what the last place has lost.
template <typename Real> Real roughInverse(Real f) { return polynomial(f, {0.85f, -1.0f, 1.0f}); }

// 1 + x is a pair.
template <typename Real> Real log1p(Real x) {
  Pair<Real> sum = exactSum(x.like(1.0f), x);
  auto k = getExponent(sum.high);
  Real f = number(bits(sum.high) - (k << 23)) - 1.0f;
  Real lost = choose(x > 0x1p60f, x.like(0.0f), sum.low * number(0x3f800000 - (k << 23)));
  auto near = equal(k, 0);
  f = choose(near, x, f);
  lost = choose(near, x.like(0.0f), lost * roughInverse(f));
  Pair<Real> result = naturalLogarithm({toReal(k), f}, lost);
  Real all = choose(x < infinity, result.high + result.low, x);
  all = choose(x == 0.0f, x, choose(x == -1.0f, x.like(-infinity), all));
  return choose(x < -1.0f, x.like(notANumber), all);
}

// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|).
template <typename Real> Real softplus(Real x) {
  auto parts = exponentialParts(-clamped(magnitude(x), 0.0f, 104.0f));
  Pair<Real> e = parts.mantissa();
  auto tiny = less(parts.k, -40);
  Real power = powerOfTwo(choose(tiny, parts.k.like(-40), parts.k));
  Pair<Real> small{power * e.high, power * e.low}, sum = orderedSum(x.like(1.0f), small.high);
  auto near = small.high < 0.41f;
  Real f = choose(near, small.high, sum.high * 0.5f - 1.0f);
  Real lost = choose(near, small.low, (sum.low + small.low) * 0.5f) * roughInverse(f);
  Pair<Real> rest = naturalLogarithm({choose(near, x.like(0.0f), x.like(1.0f)), f}, lost);
  Pair<Real> all = exactSum(choose(x > 0.0f, x, x.like(0.0f)), rest.high);
  Real result = choose(x > 100.0f, x, all.high + (all.low + rest.low));
  // There e^x is the first term alone, and may be subnormal.
  result = choose(tiny, choose(x < 0.0f, scaled(e.high, parts.k), x), result);
  return choose(x == x, result, x);
}

//===-- Roots ------------------------------------------------------------------===//

// The quotient, and the step of Newton's that takes both roundings back.
template <typename Real> Real rsqrt(Real x) {
  Real near = 1.0f / root(x);
  Pair<Real> product = exactProduct(x, near);
  Real rest = fused(-product.high, near, x.like(1.0f)) - product.low * near;
  return choose(x > 0.0f, choose(x < infinity, fused(near * 0.5f, rest, near), near), near);
}

// |x| = 2^3q m, m from 0.5 to 4; r = m^-1/3 by a polynomial and a step of Newton's, the root m r^2 by another.
template <typename Real> Real cbrt(Real x) {
  Real size = magnitude(x);
  auto tiny = size < 0x1p-126f;
  auto word = bits(choose(tiny, size * 0x1p24f, size));
  auto exponent = word >> 23, third = (exponent * 171u) >> 9; // its third, from 0 to 254
  auto left = exponent - third * 3u;
  Real m = number((word & 0x7fffff) | 0x3f800000);
  Real r = polynomial(m, {-0x1.991534p-5f, 0x1.456216p-2f, -0x1.9eb318p-1f, 0x1.8ab91ap+0f});
  auto ofThree = [&](float zero, float one, float two) {
    return choose(equal(left, 0), x.like(zero), choose(equal(left, 1), x.like(one), x.like(two)));
  };
  r = r * ofThree(0x1.428a3p+0f, 1.0f, 0x1.965feap-1f);
  m = m * ofThree(0.5f, 1.0f, 2.0f);
  r = fused(r * 0x1.555556p-2f, fused(-(m * r), r * r, x.like(1.0f)), r);
  Real square = r * r, y = m * square;
  Pair<Real> squared = exactProduct(y, y);
  Real rest = fused(-y, squared.high, m) - y * squared.low;
  y = fused(rest, square * 0x1.555556p-2f, y);
  // The bias is 3 * 42 + 1.
  Real result = y * powerOfTwo(third - choose(tiny, third.like(42 + 24 / 3), third.like(42)));
  return choose(size > 0.0f, choose(size < infinity, withSign(result, x), x), x);
}

} // namespace altgrad::element

#endif // ALTGRAD_CODEGEN_NUMERICS_ELEMENTFUNCTIONS_H

// The five operations: special values first, then exact integers, then one
// rounding.
#include "SoftFloat.h"
#include "SoftParts.h"

#include <utility>

using namespace ptx;
using namespace ptx::soft;

namespace {

/// Puts the highest bit at `place`.
template <class Word> void normalise(Parts<Word> &x, unsigned place) {
  int shift = int(place) - int(highestBit(x.significand));
  if (shift >= 0)
    x.significand <<= shift;
  else
    x.significand >>= -shift; // callers have room, nothing is lost
  x.exponent -= shift;
}

template <class Word>
Parts<Word> sum(Parts<Word> x, Parts<Word> y, Rounding mode) {
  if (x.significand == 0 && y.significand == 0)
    return {x.negative == y.negative ? x.negative : mode == Rounding::Down, 0,
            0};
  if (x.significand == 0)
    return y;
  if (y.significand == 0)
    return x;
  // Room above for the carry. An f32 product has 48 bits, an f64 product 106:
  // the word keeps at least 14 zeros below it.
  constexpr unsigned Top = widthOf<Word> - 3;
  normalise(x, Top);
  normalise(y, Top);
  if (x.exponent < y.exponent ||
      (x.exponent == y.exponent && x.significand < y.significand))
    std::swap(x, y);
  // Bits of y are lost only when it lies far below x; then at most one place
  // cancels and the sticky bit stays under the rounding position.
  y.significand =
      shiftRightJam(y.significand, unsigned(x.exponent - y.exponent));
  if (x.negative == y.negative) {
    x.significand += y.significand;
    return x;
  }
  x.significand -= y.significand;
  if (x.significand == 0)
    x.negative = mode == Rounding::Down;
  return x;
}

template <class Word>
uint64_t fmaIn(const Format &f, uint64_t a, uint64_t b, uint64_t c,
               Rounding mode) {
  if (f.isNaN(a) || f.isNaN(b) || f.isNaN(c))
    return f.nan;
  bool negative = f.isNegative(a) != f.isNegative(b);
  bool infinite = f.isInfinity(a) || f.isInfinity(b);
  if (infinite && (f.magnitude(a) == 0 || f.magnitude(b) == 0))
    return f.nan;
  if (infinite) {
    if (f.isInfinity(c) && f.isNegative(c) != negative)
      return f.nan;
    return f.infinity | (negative ? f.sign() : 0);
  }
  if (f.isInfinity(c))
    return c;
  auto x = unpack<Word>(f, a), y = unpack<Word>(f, b);
  Parts<Word> product{negative, x.exponent + y.exponent,
                      x.significand * y.significand};
  return pack(f, sum(product, unpack<Word>(f, c), mode), mode);
}

template <class Word>
uint64_t mulIn(const Format &f, uint64_t a, uint64_t b, Rounding mode) {
  auto x = unpack<Word>(f, a), y = unpack<Word>(f, b);
  return pack(f,
              Parts<Word>{x.negative != y.negative, x.exponent + y.exponent,
                          x.significand * y.significand},
              mode);
}

template <class Word>
uint64_t divIn(const Format &f, uint64_t a, uint64_t b, Rounding mode) {
  auto x = unpack<Word>(f, a), y = unpack<Word>(f, b);
  // Subnormals get full significands here, so the quotient has enough bits.
  normalise(x, f.mantissaBits);
  normalise(y, f.mantissaBits);
  unsigned extra = f.mantissaBits + 3;
  Word numerator = x.significand << extra;
  Word quotient = numerator / y.significand;
  // The remainder only matters as zero or not.
  quotient |= Word(quotient * y.significand != numerator);
  return pack(f,
              Parts<Word>{x.negative != y.negative,
                          x.exponent - y.exponent - int(extra), quotient},
              mode);
}

template <class Word>
uint64_t sqrtIn(const Format &f, uint64_t a, Rounding mode) {
  auto x = unpack<Word>(f, a);
  normalise(x, 2 * (f.mantissaBits + 3));
  if (x.exponent & 1) {
    x.significand <<= 1;
    x.exponent -= 1;
  }
  // Digit by digit: floor of the root, and what is left of the radicand.
  Word root = 0, rest = x.significand;
  unsigned start = (highestBit(x.significand) / 2) * 2;
  for (Word bit = Word(1) << start; bit; bit >>= 2) {
    if (rest >= root + bit) {
      rest -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return pack(
      f, Parts<Word>{false, x.exponent / 2 - 1, (root << 1) | Word(rest != 0)},
      mode);
}

} // namespace

uint64_t soft::add(const Format &f, uint64_t a, uint64_t b, Rounding mode) {
  if (f.isNaN(a) || f.isNaN(b))
    return f.nan;
  // Infinities of opposite sign have no sum.
  if (f.isInfinity(a))
    return f.isInfinity(b) && a != b ? f.nan : a;
  if (f.isInfinity(b))
    return b;
  if (f.width() > 32)
    return pack(f, sum(unpack<Wide>(f, a), unpack<Wide>(f, b), mode), mode);
  return pack(f, sum(unpack<uint64_t>(f, a), unpack<uint64_t>(f, b), mode),
              mode);
}

uint64_t soft::mul(const Format &f, uint64_t a, uint64_t b, Rounding mode) {
  if (f.isNaN(a) || f.isNaN(b))
    return f.nan;
  bool negative = f.isNegative(a) != f.isNegative(b);
  if (f.isInfinity(a) || f.isInfinity(b)) {
    if (f.magnitude(a) == 0 || f.magnitude(b) == 0)
      return f.nan;
    return f.infinity | (negative ? f.sign() : 0);
  }
  return f.width() > 32 ? mulIn<Wide>(f, a, b, mode)
                        : mulIn<uint64_t>(f, a, b, mode);
}

uint64_t soft::fma(const Format &f, uint64_t a, uint64_t b, uint64_t c,
                   Rounding mode) {
  return f.width() > 32 ? fmaIn<Wide>(f, a, b, c, mode)
                        : fmaIn<uint64_t>(f, a, b, c, mode);
}

uint64_t soft::div(const Format &f, uint64_t a, uint64_t b, Rounding mode) {
  if (f.isNaN(a) || f.isNaN(b))
    return f.nan;
  uint64_t sign = f.isNegative(a) != f.isNegative(b) ? f.sign() : 0;
  bool zeroA = f.magnitude(a) == 0, zeroB = f.magnitude(b) == 0;
  if ((zeroA && zeroB) || (f.isInfinity(a) && f.isInfinity(b)))
    return f.nan;
  if (f.isInfinity(a) || zeroB)
    return sign | f.infinity;
  if (zeroA || f.isInfinity(b))
    return sign;
  return f.width() > 32 ? divIn<Wide>(f, a, b, mode)
                        : divIn<uint64_t>(f, a, b, mode);
}

uint64_t soft::sqrt(const Format &f, uint64_t a, Rounding mode) {
  if (f.isNaN(a))
    return f.nan;
  if (f.magnitude(a) == 0)
    return a; // the root of -0 is -0
  if (f.isNegative(a))
    return f.nan;
  if (f.isInfinity(a))
    return a;
  return f.width() > 32 ? sqrtIn<Wide>(f, a, mode)
                        : sqrtIn<uint64_t>(f, a, mode);
}

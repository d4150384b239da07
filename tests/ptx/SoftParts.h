// A finite number as exact integers, and the one step that rounds it into a
// format.
#ifndef ALTGRAD_TESTS_PTX_SOFTPARTS_H
#define ALTGRAD_TESTS_PTX_SOFTPARTS_H

#include "Format.h"

namespace ptx::soft {

__extension__ typedef unsigned __int128 Wide;

/// A finite number: significand * 2^exponent, exactly.
template <class Word> struct Parts {
  bool negative;
  int exponent;
  Word significand;
};

inline unsigned highestBit(uint64_t w) { return 63 - __builtin_clzll(w); }
inline unsigned highestBit(Wide w) {
  uint64_t high = uint64_t(w >> 64);
  return high ? 64 + highestBit(high) : highestBit(uint64_t(w));
}

template <class Word> constexpr unsigned widthOf = sizeof(Word) * 8;

/// Shifts right and keeps "something was lost" in the lowest bit.
template <class Word> Word shiftRightJam(Word w, unsigned count) {
  if (count == 0)
    return w;
  if (count >= widthOf<Word>)
    return w != 0;
  Word lost = w & ((Word(1) << count) - 1);
  return (w >> count) | Word(lost != 0);
}

template <class Word> Parts<Word> unpack(const Format &f, uint64_t bits) {
  uint64_t magnitude = f.magnitude(bits);
  uint64_t fraction = magnitude & (f.minNormal() - 1);
  int biased = int(magnitude >> f.mantissaBits);
  int lowest = 1 - f.bias - int(f.mantissaBits);
  if (biased == 0)
    return {f.isNegative(bits), lowest, Word(fraction)};
  return {f.isNegative(bits), lowest + biased - 1,
          Word(fraction | f.minNormal())};
}

inline bool roundsUp(Rounding mode, bool negative, bool odd,
                     int remainderVersusHalf, bool inexact) {
  switch (mode) {
  case Rounding::NearestEven:
    return remainderVersusHalf > 0 || (remainderVersusHalf == 0 && odd);
  case Rounding::TowardZero:
    return false;
  case Rounding::Down:
    return inexact && negative;
  case Rounding::Up:
    return inexact && !negative;
  }
  return false;
}

/// significand / 2^shift to an integer.
template <class Word>
Word roundShift(Word significand, unsigned shift, bool negative,
                Rounding mode) {
  if (shift == 0)
    return significand;
  // Far below the last place: any value strictly under one half will do.
  if (shift >= widthOf<Word>) {
    significand = Word(significand != 0);
    shift = widthOf<Word> - 1;
  }
  Word keep = significand >> shift;
  Word rest = significand & ((Word(1) << shift) - 1);
  Word half = Word(1) << (shift - 1);
  int versus = rest > half ? 1 : rest == half ? 0 : -1;
  return keep + Word(roundsUp(mode, negative, keep & 1, versus, rest != 0));
}

inline uint64_t overflow(const Format &f, bool negative, Rounding mode,
                         bool saturate) {
  bool staysFinite = saturate || !f.infinity || mode == Rounding::TowardZero ||
                     (mode == Rounding::Down && !negative) ||
                     (mode == Rounding::Up && negative);
  return (staysFinite ? f.maxFinite : f.infinity) | (negative ? f.sign() : 0);
}

/// Whether the number lies below the normal ones after rounding, if exponents
/// had no end: its last place is 2^last then.
template <class Word>
bool isTiny(Parts<Word> x, int last, int lowest, unsigned mantissaBits,
            Rounding mode) {
  if (last >= lowest || last < lowest - 1 || last <= x.exponent)
    return last < lowest;
  Word kept = roundShift(x.significand, unsigned(last - x.exponent), x.negative,
                         mode);
  return kept < Word(2) << mantissaBits;
}

/// The only place where a significand becomes a format's bits.
template <class Word>
uint64_t pack(const Format &f, Parts<Word> x, Rounding mode,
              bool saturate = false) {
  uint64_t sign = x.negative ? f.sign() : 0;
  if (x.significand == 0)
    return sign;
  int lowest = 1 - f.bias - int(f.mantissaBits);
  int last = x.exponent + int(highestBit(x.significand)) - int(f.mantissaBits);
  if (f.flushes && isTiny(x, last, lowest, f.mantissaBits, mode))
    return sign;
  if (last < lowest)
    last = lowest; // subnormal
  uint64_t kept;
  if (last >= x.exponent)
    kept = uint64_t(roundShift(x.significand, unsigned(last - x.exponent),
                               x.negative, mode));
  else
    kept = uint64_t(x.significand << unsigned(x.exponent - last));
  if (last - lowest > int(1u << f.exponentBits))
    return overflow(f, x.negative, mode, saturate);
  // A carry out of the significand moves into the exponent field by itself:
  // `last - lowest` counts binades above the lowest, whose implicit bit is
  // kept.
  uint64_t bits = (uint64_t(last - lowest) << f.mantissaBits) + kept;
  if (bits > f.maxFinite)
    return overflow(f, x.negative, mode, saturate);
  return sign | bits;
}

} // namespace ptx::soft

#endif

// The CPU's own f32 as the functions of elements take it.
#ifndef ALTGRAD_TESTS_NUMERIC_NATIVEREAL_H
#define ALTGRAD_TESTS_NUMERIC_NATIVEREAL_H

#include <cmath>
#include <cstdint>

namespace native {

struct Word {
  uint32_t value;
  Word(uint32_t value) : value(value) {}
  Word like(uint32_t other) const { return other; }
};

struct Long {
  uint64_t value;
};

struct Real {
  using Word = native::Word;
  float value;
  Real(float value) : value(value) {}
  Real like(float other) const { return other; }
};

inline Real operator+(Real a, Real b) { return a.value + b.value; }
inline Real operator-(Real a, Real b) { return a.value - b.value; }
inline Real operator*(Real a, Real b) { return a.value * b.value; }
inline Real operator/(Real a, Real b) { return a.value / b.value; }
inline Real operator-(Real a) { return -a.value; }
inline bool operator<(Real a, Real b) { return a.value < b.value; }
inline bool operator>(Real a, Real b) { return a.value > b.value; }
inline bool operator==(Real a, Real b) { return a.value == b.value; }
inline Real fused(Real a, Real b, Real c) { return __builtin_fmaf(a.value, b.value, c.value); }
inline Real root(Real a) { return __builtin_sqrtf(a.value); }
inline Real magnitude(Real a) { return __builtin_fabsf(a.value); }
inline Word bits(Real a) { return __builtin_bit_cast(uint32_t, a.value); }
inline Real number(Word a) { return __builtin_bit_cast(float, a.value); }
inline Real toReal(Word a) { return float(int32_t(a.value)); }
inline Real choose(bool which, Real a, Real b) { return which ? a : b; }
inline Word choose(bool which, Word a, Word b) { return which ? a : b; }

inline Word operator+(Word a, Word b) { return a.value + b.value; }
inline Word operator-(Word a, Word b) { return a.value - b.value; }
inline Word operator*(Word a, Word b) { return a.value * b.value; }
inline Word operator&(Word a, Word b) { return a.value & b.value; }
inline Word operator|(Word a, Word b) { return a.value | b.value; }
inline Word operator^(Word a, Word b) { return a.value ^ b.value; }
inline Word operator<<(Word a, Word by) { return a.value << by.value; }
inline Word operator>>(Word a, Word by) { return a.value >> by.value; }
inline Word shiftSigned(Word a, unsigned by) { return uint32_t(int32_t(a.value) >> by); }
inline bool less(Word a, Word b) { return int32_t(a.value) < int32_t(b.value); }
inline bool equal(Word a, Word b) { return a.value == b.value; }

inline Long product(Word a, Word b) { return {uint64_t(a.value) * b.value}; }
inline Long operator+(Long a, Long b) { return {a.value + b.value}; }
inline Long operator-(Long a, Long b) { return {a.value - b.value}; }
inline Long operator<<(Long a, unsigned by) { return {a.value << by}; }
inline Long wide(Word a) { return {a.value}; }
inline Word highWord(Long a) { return uint32_t(a.value >> 32); }
inline Word lowWord(Long a) { return uint32_t(a.value); }

} // namespace native

#endif // ALTGRAD_TESTS_NUMERIC_NATIVEREAL_H

// The float formats PTX computes in, as rows of one table, and the words for
// rounding.
#ifndef ALTGRAD_TESTS_PTX_FORMAT_H
#define ALTGRAD_TESTS_PTX_FORMAT_H

#include <cstdint>

namespace ptx {

enum class Rounding : uint8_t { NearestEven, TowardZero, Down, Up };

struct Format {
  unsigned exponentBits;
  unsigned mantissaBits;
  int bias;
  uint64_t maxFinite;
  uint64_t infinity; // 0: the format has none
  uint64_t nan;      // what arithmetic returns, never a payload
  bool flushes = false; // .ftz: what is tiny becomes 0

  constexpr unsigned width() const { return 1 + exponentBits + mantissaBits; }
  constexpr uint64_t sign() const { return uint64_t(1) << (width() - 1); }
  constexpr uint64_t one() const { return uint64_t(bias) << mantissaBits; }
  constexpr uint64_t minNormal() const { return uint64_t(1) << mantissaBits; }
  constexpr uint64_t magnitude(uint64_t bits) const {
    return bits & (sign() - 1);
  }
  constexpr bool isNegative(uint64_t bits) const { return bits & sign(); }
  constexpr bool isNaN(uint64_t bits) const {
    return magnitude(bits) > (infinity ? infinity : maxFinite);
  }
  constexpr bool isInfinity(uint64_t bits) const {
    return infinity && magnitude(bits) == infinity;
  }
  constexpr bool isSubnormal(uint64_t bits) const {
    return magnitude(bits) != 0 && magnitude(bits) < minNormal();
  }
};

// clang-format off
//                             exp  man  bias  max finite             infinity               NaN
constexpr Format F16       = {   5,  10,   15, 0x7bff,                0x7c00,                0x7fff};
constexpr Format BF16      = {   8,   7,  127, 0x7f7f,                0x7f80,                0x7fff};
constexpr Format F32       = {   8,  23,  127, 0x7f7fffff,            0x7f800000,            0x7fffffff};
constexpr Format F64       = {  11,  52, 1023, 0x7fefffffffffffff,    0x7ff0000000000000,    0xfff8000000000000};
constexpr Format E4M3      = {   4,   3,    7, 0x7e,                  0,                     0x7f};
constexpr Format E5M2      = {   5,   2,   15, 0x7b,                  0x7c,                  0x7f};
// clang-format on

constexpr Format flushing(Format f) {
  f.flushes = true;
  return f;
}
constexpr Format F16Ftz = flushing(F16), F32Ftz = flushing(F32);

} // namespace ptx

#endif

// Soft arithmetic against the host's own unit in all four rounding modes, and
// by enumeration.
#include "SoftFloat.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>

using namespace ptx;

namespace {

template <class T> T decode(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> uint64_t encode(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

const std::pair<Rounding, int> Modes[] = {{Rounding::NearestEven, FE_TONEAREST},
                                          {Rounding::TowardZero, FE_TOWARDZERO},
                                          {Rounding::Down, FE_DOWNWARD},
                                          {Rounding::Up, FE_UPWARD}};

/// Bits near the edges: exponents clustered, mantissas sparse.
uint64_t draw(std::mt19937_64 &random, const Format &f) {
  uint64_t bits = random() & (f.sign() | (f.sign() - 1));
  switch (random() % 4) {
  case 0: // close to one
    return (bits & (f.sign() | (f.minNormal() - 1))) |
           ((uint64_t(f.bias) - 3 + random() % 7) << f.mantissaBits);
  case 1: // few bits set
    return bits & random() & random();
  case 2: // the lowest two binades
    return bits & (f.sign() | (4 * f.minNormal() - 1));
  default:
    return bits;
  }
}

/// The host may return any NaN; the soft result must be the format's own.
template <class T> void same(const Format &f, uint64_t soft, T host) {
  if (std::isnan(host))
    ASSERT_EQ(soft, f.nan);
  else
    ASSERT_EQ(soft, encode(host));
}

template <class T> void arithmeticEqualsHost(const Format &f, unsigned rounds) {
  std::mt19937_64 random(1);
  for (unsigned n = 0; n < rounds; ++n)
    for (auto [mode, host] : Modes) {
      uint64_t a = draw(random, f), b = draw(random, f), c = draw(random, f);
      volatile T x = decode<T>(a), y = decode<T>(b), z = decode<T>(c);
      std::fesetround(host);
      volatile T sum = x + y, product = x * y, quotient = x / y;
      volatile T root = std::sqrt(T(x)), fused = std::fma(T(x), T(y), T(z));
      std::fesetround(FE_TONEAREST);
      same<T>(f, soft::add(f, a, b, mode), sum);
      same<T>(f, soft::mul(f, a, b, mode), product);
      same<T>(f, soft::div(f, a, b, mode), quotient);
      same<T>(f, soft::sqrt(f, a, mode), root);
      same<T>(f, soft::fma(f, a, b, c, mode), fused);
      if (testing::Test::HasFatalFailure()) {
        FAIL() << std::hex << a << " " << b << " " << c << " mode " << host;
      }
    }
}

} // namespace

TEST(SoftFloat, singleEqualsHostInAllModes) {
  arithmeticEqualsHost<float>(F32, 300000);
}
TEST(SoftFloat, doubleEqualsHostInAllModes) {
  arithmeticEqualsHost<double>(F64, 100000);
}

TEST(SoftFloat, everyHalfHasTheRightRoot) {
  // The double root of a half is off by less than a quarter of a half's ulp
  // from a tie, and no half's root is a tie: rounding it is rounding the root.
  for (uint64_t a = 1; a < 0x7c00; ++a) {
    double exact = decode<double>(
        soft::convert(F16, F64, a, Rounding::NearestEven, false));
    uint64_t want = soft::convert(F64, F16, encode(std::sqrt(exact)),
                                  Rounding::NearestEven, false);
    ASSERT_EQ(soft::sqrt(F16, a, Rounding::NearestEven), want) << a;
  }
}

TEST(SoftFloat, halvesMultiplyAndAddExactlyInDouble) {
  std::mt19937_64 random(2);
  for (const Format *f : {&F16, &BF16})
    for (unsigned n = 0; n < 200000; ++n) {
      uint64_t a = draw(random, *f), b = draw(random, *f);
      auto wide = [&](uint64_t x) {
        return decode<double>(
            soft::convert(*f, F64, x, Rounding::NearestEven, false));
      };
      // 11 + 11 bits fit 53: the product is exact, hence rounded once here.
      uint64_t want = soft::convert(F64, *f, encode(wide(a) * wide(b)),
                                    Rounding::NearestEven, false);
      ASSERT_EQ(soft::mul(*f, a, b, Rounding::NearestEven), want)
          << std::hex << a << " " << b;
    }
}

TEST(SoftFloat, everyCodeOfTheSmallFormatsSurvivesTheRoundTrip) {
  for (const Format *small : {&E4M3, &E5M2, &F16, &BF16})
    for (uint64_t code = 0; code < (uint64_t(1) << small->width()); ++code) {
      uint64_t wide =
          soft::convert(*small, F32, code, Rounding::NearestEven, false);
      uint64_t back =
          soft::convert(F32, *small, wide, Rounding::NearestEven, true);
      bool infinite = small->isInfinity(code);
      uint64_t want = small->isNaN(code) ? small->nan
                      : infinite ? small->maxFinite | (code & small->sign())
                                 : code;
      ASSERT_EQ(back, want) << code;
    }
}

TEST(SoftFloat, bytesTakeTheNearestOfAllCodes) {
  // By search among all codes: nothing shared with the rounding under test.
  std::mt19937_64 random(3);
  for (const Format *f : {&E4M3, &E5M2})
    for (unsigned n = 0; n < 20000; ++n) {
      uint64_t bits = draw(random, F32);
      float x = decode<float>(bits);
      if (std::isnan(x))
        continue;
      uint64_t best = 0;
      double distance = INFINITY;
      for (uint64_t code = 0; code <= f->maxFinite; ++code) {
        double y = decode<float>(
            soft::convert(*f, F32, code, Rounding::NearestEven, false));
        double d = std::fabs(std::fabs(double(x)) - y);
        if (d < distance || (d == distance && code % 2 == 0)) {
          best = code;
          distance = d;
        }
      }
      float largest = decode<float>(
          soft::convert(*f, F32, f->maxFinite, Rounding::NearestEven, false));
      if (std::fabs(x) > largest) // saturates; the distance itself is rounded
        best = f->maxFinite;
      ASSERT_EQ(soft::convert(F32, *f, bits, Rounding::NearestEven, true),
                best | (std::signbit(x) ? f->sign() : 0))
          << x;
    }
}

TEST(SoftFloat, fmaRoundsOnce) {
  // 1 + 2^-23 squared is 1 + 2^-22 + 2^-46; less 1 + 2^-22 leaves 2^-46.
  uint64_t r =
      soft::fma(F32, 0x3f800001, 0x3f800001, 0xbf800002, Rounding::NearestEven);
  EXPECT_EQ(decode<float>(r), std::ldexp(1.0f, -46));
}

TEST(SoftFloat, floatsToIntegersClampAndNaNFollowsTheIsa) {
  auto to = [](float x, unsigned bits, bool isSigned) {
    return soft::toInteger(F32, encode(x), {bits, isSigned},
                           Rounding::TowardZero);
  };
  EXPECT_EQ(to(3e9f, 32, true), 0x7fffffffu);
  EXPECT_EQ(to(-3e9f, 32, true), 0xffffffff80000000u);
  EXPECT_EQ(to(-1.5f, 32, false), 0u);
  EXPECT_EQ(to(300.0f, 8, false), 255u);
  EXPECT_EQ(to(NAN, 32, true), 0u);
  EXPECT_EQ(to(NAN, 64, true), 0x8000000000000000u);
  EXPECT_EQ(soft::toInteger(F64, F64.nan, {32, true}, Rounding::TowardZero),
            0xffffffff80000000u);
}

TEST(SoftFloat, minimumAndMaximumOrderTheZeros) {
  EXPECT_EQ(soft::minimum(F32, 0, 0x80000000, false), 0x80000000u);
  EXPECT_EQ(soft::maximum(F32, 0x80000000, 0, false), 0u);
  EXPECT_EQ(soft::minimum(F32, 0x7fc00001, 0x3f800000, false), 0x3f800000u);
  EXPECT_EQ(soft::minimum(F32, 0x7fc00001, 0x3f800000, true), 0x7fffffffu);
  EXPECT_EQ(soft::maximum(F32, 0x7fc00001, 0xffc00000, false), 0x7fffffffu);
}

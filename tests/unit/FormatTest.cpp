// The codec against tables of IEEE 754 and OCP's 8-bit formats and against its own grid.
#include "altgrad/format.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace altgrad;

namespace {

constexpr Format e0m7{0, 7, 0, false, NanCode::None};
constexpr Format e1m6{1, 6, 0, false, NanCode::None};
constexpr Format e3m4{3, 4, 3, false, NanCode::None};
constexpr Format e4m3Full{4, 3, 7, false, NanCode::None};
constexpr Format e6m1{6, 1, 31, false, NanCode::None};
constexpr Format e7m0{7, 0, 63, false, NanCode::None};
constexpr Format fp6e2m3{2, 3, 1, false, NanCode::None};
constexpr Format fp6e3m2{3, 2, 3, false, NanCode::None};
constexpr Format fp4{2, 1, 1, false, NanCode::None};
constexpr Format e7m8{7, 8, 63, false, NanCode::None};
constexpr Format e0m15{0, 15, 0, false, NanCode::None};

const std::vector<Format> narrow = {
    bf16Format, f16Format, ocpE4M3Format, ocpE5M2Format, e0m7,
    e1m6,       e3m4,      e4m3Full,      e6m1,          e7m0,
    fp6e2m3,    fp6e3m2,   fp4,           e7m8,          e0m15};

uint32_t nearest(const Format &format, float value) {
  return encode(format, value, Rounding::NearestEven, Overflow::NonFinite);
}

uint32_t clamped(const Format &format, float value) {
  return encode(format, value, Rounding::NearestEven, Overflow::Saturate);
}

uint32_t bitsOf(float value) { return __builtin_bit_cast(uint32_t, value); }

// Of all draws as many go away as 65536ths of the way to the next code lie
// behind.
TEST(Format, AsManyDrawsAsTheFraction) {
  for (const Format &format :
       {bf16Format, f16Format, ocpE4M3Format, ocpE5M2Format, e0m7, e7m0, fp4})
    for (uint32_t bits = 0x30000000; bits < 0x3f800000; bits += 0x0013579b) {
      auto code = [&](Rounding rounding, uint32_t draw) {
        return encodeBits(format, bits, rounding, Overflow::Saturate, nullptr,
                          draw);
      };
      uint32_t low = code(Rounding::TowardZero, 0), away = 0;
      double below = decode(format, low), above = decode(format, low + 1);
      double number = __builtin_bit_cast(float, bits);
      for (uint32_t draw = 0; draw < 65536; ++draw)
        away += code(Rounding::Stochastic, draw) - low;
      if (low < format.maxCode()) {
        EXPECT_EQ(away, std::floor((number - below) / (above - below) * 65536))
            << bits;
      } else {
        EXPECT_EQ(away, 0u) << bits;
      }
    }
}

TEST(Format, DirectionsKeepNanAndInfinity) {
  for (uint32_t draw : {0u, 65535u})
    for (Rounding rounding : {Rounding::TowardZero, Rounding::Stochastic}) {
      auto code = [&](uint32_t bits, Overflow overflow) {
        return encodeBits(bf16Format, bits, rounding, overflow, nullptr, draw);
      };
      for (uint32_t nan : {0x7fffffffu, 0x7fff0001u, 0x7f800001u, 0xffffffffu})
        EXPECT_EQ(code(nan, Overflow::NonFinite), 0x7fc0u);
      EXPECT_EQ(code(0xff800000, Overflow::NonFinite), 0xff80u);
      EXPECT_EQ(code(0xff800000, Overflow::Saturate), 0xff7fu);
      EXPECT_EQ(code(0x7f7fffff, Overflow::NonFinite), 0x7f7fu);
      EXPECT_EQ(code(0x80000000, Overflow::NonFinite), 0x8000u);
    }
}

TEST(Format, EncodesWhileCompiling) {
  static_assert(encode(bf16Format, 1.0f, Rounding::NearestEven,
                       Overflow::NonFinite) == 0x3f80);
  static_assert(decode(ocpE4M3Format, 0x7e) == 448.0f);
  static_assert(!Format{8, 7, 127, false, NanCode::None}.valid(),
                "2^128 is no f32");
  for (const Format &format : narrow)
    EXPECT_TRUE(format.valid());
  EXPECT_TRUE(f32Format.valid());
}

TEST(Format, EveryCodeComesBack) {
  for (const Format &format : narrow)
    for (uint32_t code = 0; code < 2 * format.signBit(); ++code) {
      float value = decode(format, code);
      uint32_t expected = std::isnan(value) ? format.nanCode() : code;
      ASSERT_EQ(nearest(format, value), expected)
          << int(format.exponentBits) << "," << int(format.mantissaBits);
    }
}

TEST(Format, CodesAreInOrder) {
  for (const Format &format : narrow)
    for (uint32_t code = 0; code < format.maxCode(); ++code)
      ASSERT_LT(decode(format, code), decode(format, code + 1));
}

// Every midpoint goes to the even code, its two f32 neighbours to either side.
TEST(Format, MidpointsAreTiesToTheEvenCode) {
  for (const Format &format : narrow)
    for (uint32_t code = 0; code < format.maxCode(); ++code) {
      double low = decode(format, code), high = decode(format, code + 1);
      float middle = float((low + high) / 2);
      if (double(middle) != (low + high) / 2)
        continue; // finer than f32: bf16 below its first normal number
      for (float sign : {1.0f, -1.0f}) {
        uint32_t s = sign < 0 ? format.signBit() : 0;
        float below = std::nextafter(middle, 0.0f);
        float above = std::nextafter(middle, INFINITY);
        ASSERT_EQ(nearest(format, sign * middle), s | ((code + 1) & ~1u));
        ASSERT_EQ(nearest(format, sign * below), s | code);
        ASSERT_EQ(nearest(format, sign * above), s | (code + 1));
      }
    }
}

TEST(Format, TableOfDefinitions) {
  struct Row {
    Format format;
    float largest, smallest;
  } rows[] = {{ocpE4M3Format, 448, 0x1p-9f},
              {ocpE5M2Format, 57344, 0x1p-16f},
              {fp6e2m3, 7.5, 0.125},
              {fp6e3m2, 28, 0.0625},
              {fp4, 6, 0.5},
              {e0m7, 127.0f / 128, 1.0f / 128},
              {e1m6, 3.96875, 1.0f / 32},
              {e3m4, 31, 0x1p-6f},
              {e4m3Full, 480, 0x1p-9f},
              {e6m1, 6442450944.0f, 0x1p-31f},
              {e7m0, 0x1p64f, 0x1p-62f},
              {e0m15, 32767.0f / 32768, 0x1p-15f},
              {f16Format, 65504, 0x1p-24f}};
  for (const Row &row : rows) {
    EXPECT_EQ(decode(row.format, row.format.maxCode()), row.largest);
    EXPECT_EQ(decode(row.format, 1), row.smallest);
    EXPECT_EQ(nearest(row.format, row.smallest / 2), 0u) << "tie to zero";
  }
}

TEST(Format, OverflowOfE4M3) {
  EXPECT_EQ(nearest(ocpE4M3Format, 464.0f), 0x7eu);
  EXPECT_EQ(nearest(ocpE4M3Format, std::nextafter(464.0f, 500.0f)), 0x7fu);
  EXPECT_EQ(nearest(ocpE4M3Format, INFINITY), 0x7fu);
  EXPECT_EQ(clamped(ocpE4M3Format, 480.0f), 0x7eu);
  EXPECT_EQ(clamped(ocpE4M3Format, -INFINITY), 0xfeu);
  EXPECT_EQ(nearest(ocpE4M3Format, 0x1p-10f), 0u);
  EXPECT_EQ(nearest(ocpE4M3Format, 0.000977f), 1u);
}

TEST(Format, OverflowOfE5M2) {
  EXPECT_EQ(nearest(ocpE5M2Format, std::nextafter(61440.0f, 0.0f)), 0x7bu);
  EXPECT_EQ(nearest(ocpE5M2Format, 61440.0f), 0x7cu);
  EXPECT_EQ(nearest(ocpE5M2Format, -INFINITY), 0xfcu);
  EXPECT_EQ(clamped(ocpE5M2Format, 61440.0f), 0x7bu);
  EXPECT_EQ(clamped(ocpE5M2Format, INFINITY), 0x7bu);
}

TEST(Format, SaturationIsReported) {
  struct Row {
    float value;
    bool expected;
  } rows[] = {{448, false}, {450, false},     {464, false}, {465, true},
              {-1e9, true}, {INFINITY, true}, {NAN, false}, {0, false}};
  for (const Row &row : rows) {
    bool saturated = false;
    encode(ocpE4M3Format, row.value, Rounding::NearestEven, Overflow::Saturate,
           &saturated);
    EXPECT_EQ(saturated, row.expected) << row.value;
  }
}

TEST(Format, NanIsCanonical) {
  for (uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffc00000u, 0x7f800001u}) {
    float nan = __builtin_bit_cast(float, bits);
    EXPECT_EQ(nearest(f32Format, nan), 0x7fc00000u);
    EXPECT_EQ(nearest(bf16Format, nan), 0x7fc0u);
    EXPECT_EQ(nearest(f16Format, nan), 0x7e00u);
    EXPECT_EQ(nearest(ocpE4M3Format, nan), 0x7fu);
    EXPECT_EQ(clamped(ocpE5M2Format, nan), 0x7fu);
    EXPECT_EQ(nearest(e3m4, nan), 0u);
  }
  EXPECT_EQ(bitsOf(decode(f16Format, 0xfc01)), 0x7fc00000u);
  EXPECT_EQ(bitsOf(decode(ocpE4M3Format, 0xff)), 0x7fc00000u);
}

TEST(Format, NegativeZeroStays) {
  for (const Format &format : narrow) {
    EXPECT_EQ(nearest(format, -0.0f), format.signBit());
    EXPECT_EQ(nearest(format, -1e-45f), format.signBit());
    EXPECT_EQ(bitsOf(decode(format, format.signBit())), 0x80000000u);
  }
}

TEST(Format, F32IsItself) {
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 65521) {
    float value = __builtin_bit_cast(float, uint32_t(bits));
    uint32_t expected = std::isnan(value) ? 0x7fc00000u : uint32_t(bits);
    ASSERT_EQ(nearest(f32Format, value), expected);
    ASSERT_EQ(decodeBits(f32Format, uint32_t(bits)), expected);
  }
  EXPECT_EQ(clamped(f32Format, INFINITY), 0x7f7fffffu);
}

// f32 -> f16 -> e5m2 would round twice.
TEST(Format, RoundsOnce) {
  float value = 1.125f + 0x1p-12f; // just above the tie of 1 and 1.25
  EXPECT_EQ(decode(ocpE5M2Format, nearest(ocpE5M2Format, value)), 1.25f);
  float twice = decode(f16Format, nearest(f16Format, value));
  EXPECT_EQ(decode(ocpE5M2Format, nearest(ocpE5M2Format, twice)), 1.0f);
}

} // namespace

// The codec against tables of IEEE 754 and OCP's 8-bit formats and against its
// own grid.
#include "altgrad/format.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <string_view>
#include <vector>

using namespace altgrad;

namespace {

constexpr const Format &named(std::string_view name) {
  for (const Preset &preset : presets)
    if (name == preset.name)
      return preset.format;
  return f32Format;
}

constexpr Format e3m4 = named("altgrad.e3m4"), e8m0 = named("ocp.e8m0");
constexpr Format e7m0 = named("altgrad.e7m0"), int8 = named("int8");

// Every preset but f32 and code books, and formats at the edges of what there may be.
std::vector<Format> narrowFormats() {
  std::vector<Format> formats = {
      {0, 1, 0, false, NanCode::None},           // -1/2, 0, 1/2
      {1, 0, 0, false, NanCode::None},           // -2, 0, 2
      {4, 3, 147, false, NanCode::None},         // subnormal in f32 too
      {4, 3, -112, false, NanCode::None},        // up to 1.875 * 2^127
      {8, 3, 147, false, NanCode::AllOnes},      // the least bias is 128
      {5, 3, 15, true, NanCode::Ieee, false},    // unsigned, with infinity
      {8, 8, 127, true, NanCode::Ieee, false},   // a bf16 without a sign
      {0, 16, -16, false, NanCode::None, false}, // 0 to 65535
      {0, 3, -3, false, NanCode::None, true, true, Ties::Even, true}};
  for (const Preset &preset : presets)
    if (preset.format.bits() <= 16 && !preset.format.book)
      formats.push_back(preset.format);
  return formats;
}
const std::vector<Format> narrow = narrowFormats();

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
       {bf16Format, f16Format, ocpE4M3Format, ocpE5M2Format, e7m0, e8m0, int8,
        named("altgrad.e0m7"), named("ocp.e2m1"), named("uint8")})
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

// Of draws of 32 bits those from 2^32 less the fraction on go away, the others stay.
TEST(Format, ADrawOf32BitsTurnsAtTheFraction) {
  for (const Format &format :
       {bf16Format, f16Format, ocpE4M3Format, ocpE5M2Format, e7m0, e8m0, int8,
        named("altgrad.e0m7"), named("ocp.e2m1"), named("uint8")})
    for (uint32_t bits = 0x20000000; bits < 0x3f800000; bits += 0x00013577) {
      auto code = [&](Rounding rounding, uint64_t draw) {
        return encodeBits(format, bits, rounding, Overflow::Saturate, nullptr,
                          uint32_t(draw), 32);
      };
      uint32_t low = code(Rounding::TowardZero, 0);
      if (low >= format.maxCode())
        continue;
      double below = decode(format, low), above = decode(format, low + 1);
      double share = (__builtin_bit_cast(float, bits) - below) / (above - below);
      auto way = uint64_t(share * 0x1p32);
      EXPECT_EQ(code(Rounding::Stochastic, 0), low) << bits;
      EXPECT_EQ(code(Rounding::Stochastic, 0xffffffff - way), low) << bits;
      if (way)
        EXPECT_EQ(code(Rounding::Stochastic, (uint64_t(1) << 32) - way), low + 1)
            << bits;
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
    for (uint32_t code = 0; code < 1u << format.bits(); ++code) {
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

// Every midpoint goes where its format says, its two f32 neighbours to either
// side.
TEST(Format, MidpointsAreTies) {
  for (const Format &format : narrow)
    for (uint32_t code = 0; code < format.maxCode(); ++code) {
      double low = decode(format, code), high = decode(format, code + 1);
      float middle = float((low + high) / 2);
      if (double(middle) != (low + high) / 2)
        continue; // finer than f32: bf16 below its first normal number
      uint32_t tie = format.ties == Ties::Even   ? (code + 1) & ~1u
                     : format.ties == Ties::Down ? code
                                                 : code + 1;
      for (bool negative : {false, true}) {
        if (negative && !format.hasSign)
          continue;
        float sign = negative ? -1.0f : 1.0f;
        float below = std::nextafter(middle, 0.0f);
        float above = std::nextafter(middle, INFINITY);
        ASSERT_EQ(nearest(format, sign * middle),
                  format.withSign(tie, negative));
        ASSERT_EQ(nearest(format, sign * below),
                  format.withSign(code, negative));
        ASSERT_EQ(nearest(format, sign * above),
                  format.withSign(code + 1, negative));
      }
    }
}

TEST(Format, TableOfDefinitions) {
  struct Row {
    Format format;
    float largest, smallest;
  } rows[] = {{ocpE4M3Format, 448, 0x1p-9f},
              {ocpE5M2Format, 57344, 0x1p-16f},
              {named("ocp.e2m3"), 7.5, 0.125},
              {named("ocp.e3m2"), 28, 0.0625},
              {named("ocp.e2m1"), 6, 0.5},
              {named("altgrad.e0m7"), 127.0f / 128, 1.0f / 128},
              {named("altgrad.e1m6"), 3.96875, 1.0f / 32},
              {named("altgrad.e2m5"), 7.875, 1.0f / 32},
              {e3m4, 31, 0x1p-6f},
              {named("altgrad.e3m4b1"), 124, 0x1p-4f},
              {named("altgrad.e4m3"), 480, 0x1p-9f},
              {named("altgrad.e5m2"), 57344, 0x1p-16f},
              {named("altgrad.e6m1"), 6442450944.0f, 0x1p-31f},
              {e7m0, 0x1p64f, 0x1p-62f},
              {named("altgrad.e0m15"), 32767.0f / 32768, 0x1p-15f},
              {named("altgrad.e1m14"), 3.9998779296875f, 0x1p-13f},
              {named("altgrad.e2m13"), 7.99951171875f, 0x1p-13f},
              {named("altgrad.e3m12"), 31.99609375f, 0x1p-14f},
              {named("altgrad.e4m11"), 511.875f, 0x1p-17f},
              {named("altgrad.e6m9"), 8581545984.0f, 0x1p-39f},
              {named("altgrad.e7m8"), 0x1.ffp64f, 0x1p-70f},
              {int8, 127, 1},
              {named("int16"), 32767, 1},
              {named("uint8"), 255, 1},
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
    uint32_t zero = format.complement ? 0 : format.signBit();
    EXPECT_EQ(nearest(format, -0.0f), zero);
    if (!zero)
      continue;
    EXPECT_EQ(bitsOf(decode(format, zero)), 0x80000000u);
    if (format.bias < 127)
      EXPECT_EQ(nearest(format, -1e-45f), zero);
  }
}

// What is below zero saturates to the smallest number and is no number
// otherwise.
TEST(Format, UnsignedFormatsHoldNothingBelowZero) {
  EXPECT_EQ(nearest(e8m0, -1.0f), 0xffu);
  EXPECT_EQ(clamped(e8m0, -1.0f), 0u);
  EXPECT_EQ(nearest(named("uint8"), -0.5f), 0u);
  bool saturated = false;
  auto flag = [&](float value) {
    saturated = false;
    encode(named("uint8"), value, Rounding::NearestEven, Overflow::Saturate,
           &saturated);
    return saturated;
  };
  EXPECT_FALSE(flag(-0.5f));
  EXPECT_TRUE(flag(-0.51f));
  EXPECT_TRUE(flag(255.5f));
}

// ml_dtypes and torch agree on these; 0 and what is below 2^-127 is the
// smallest.
TEST(Format, ScalesOfPowersOfTwo) {
  EXPECT_EQ(nearest(e8m0, 1.0f), 127u);
  EXPECT_EQ(nearest(e8m0, 1.5f), 128u) << "ties go up";
  EXPECT_EQ(nearest(e8m0, std::nextafter(1.5f, 0.0f)), 127u);
  EXPECT_EQ(nearest(e8m0, 0.0f), 0u);
  EXPECT_EQ(nearest(e8m0, 0x1p-149f), 0u);
  EXPECT_EQ(nearest(e8m0, 0x1.8p-127f), 1u);
  EXPECT_EQ(nearest(e8m0, INFINITY), 0xffu);
  EXPECT_EQ(clamped(e8m0, INFINITY), 0xfeu);
  EXPECT_EQ(clamped(e8m0, NAN), 0xffu);
  EXPECT_EQ(decode(e8m0, 0), 0x1p-127f);
  EXPECT_EQ(decode(e8m0, 0xfe), 0x1p127f);
  EXPECT_TRUE(std::isnan(decode(e8m0, 0xff)));
}

TEST(Format, TiesOfPowersOfTwoGoDown) {
  EXPECT_EQ(decode(e7m0, nearest(e7m0, 3.0f)), 2.0f);
  EXPECT_EQ(decode(e7m0, nearest(e7m0, -6.0f)), -4.0f);
  EXPECT_EQ(decode(e7m0, nearest(e7m0, std::nextafter(3.0f, 4.0f))), 4.0f);
}

TEST(Format, TwosComplementHasOneMoreBelowZero) {
  EXPECT_EQ(clamped(int8, -128.5f), 0x80u);
  EXPECT_EQ(clamped(int8, -INFINITY), 0x80u);
  EXPECT_EQ(clamped(int8, 127.5f), 0x7fu);
  EXPECT_EQ(clamped(int8, -1.0f), 0xffu);
  EXPECT_EQ(clamped(int8, 2.5f), 2u);
  EXPECT_EQ(clamped(int8, NAN), 0u);
  EXPECT_EQ(decode(int8, 0x80), -128.0f);
}

// Which bits lie above a code in its byte does not matter.
TEST(Format, BitsAboveACodeAreNotRead) {
  const Format &fp4 = named("ocp.e2m1");
  for (uint32_t code = 0; code < 16; ++code)
    EXPECT_EQ(decodeBits(fp4, code | 0xf0), decodeBits(fp4, code));
  EXPECT_EQ(clamped(fp4, -100.0f), 0xfu);
}

TEST(Format, ImpossibleOnesAreNotValid) {
  for (const Format &format : std::vector<Format>{
           {0, 0, 0, false, NanCode::None},
           {0, 0, 0, false, NanCode::None, false},
           {1, 0, 0, false, NanCode::AllOnes},
           {9, 6, 127, false, NanCode::None},
           {4, 12, 7, false, NanCode::None},
           {4, 3, 148, false, NanCode::None},
           {4, 3, -113, false, NanCode::None},
           {4, 3, 7, true, NanCode::AllOnes},
           {7, 0, 63, true, NanCode::Ieee},
           {0, 7, 0, true, NanCode::Ieee},
           {8, 0, 127, false, NanCode::AllOnes, true, false},
           {4, 3, 7, false, NanCode::None, true, true, Ties::Up},
           {4, 3, 7, false, NanCode::None, true, true, Ties::Even, true}})
    EXPECT_FALSE(format.valid())
        << int(format.exponentBits) << "," << int(format.mantissaBits);
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

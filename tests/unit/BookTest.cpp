// The tables of code books, and the lines by which compiled code finds a place
// in them.
#include "../../codegen/numerics/BookParts.h"
#include "altgrad/format.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

using namespace altgrad;

namespace {

float neighbour(float x, float toward) { return std::nextafter(x, toward); }

TEST(Book, NumbersAndWhatLiesBetweenAreInOrder) {
  for (const Book &book : books)
    for (unsigned i = 0; i + 1 < book.size(); ++i) {
      EXPECT_LT(book.numbers[i], book.next[i]);
      EXPECT_LE(book.next[i], book.numbers[i + 1]);
    }
}

TEST(Book, ANumberIsStoredAsTheNearestOne) {
  for (const Book &book : books)
    for (unsigned i = 0; i + 1 < book.size(); ++i) {
      float from = book.next[i];
      EXPECT_EQ(encode(book, from), i + 1);
      EXPECT_EQ(encode(book, neighbour(from, -2)), i);
      double middle = (double(book.numbers[i]) + book.numbers[i + 1]) / 2;
      EXPECT_NEAR(from, middle, std::fabs(middle) * 0x1p-23);
    }
}

TEST(Book, WhatLiesBeyondIsTheLastNumber) {
  for (const Book &book : books) {
    EXPECT_EQ(encode(book, 1), book.size() - 1);
    EXPECT_EQ(encode(book, INFINITY), book.size() - 1);
    EXPECT_EQ(encode(book, -INFINITY), 0u);
    EXPECT_EQ(encode(book, -1), 0u);
    EXPECT_EQ(encode(book, -0.0f), book.zero);
    EXPECT_EQ(encode(book, NAN), book.zero);
  }
}

// As compiled code does it, for a magnitude.
int placeOf(const Book &book, float magnitude) {
  float lowest = book.lastLine();
  for (unsigned i = 0; i < book.lineCount; ++i)
    lowest = std::min(
        lowest, std::fma(magnitude, book.lines[i].slope, book.lines[i].offset));
  return std::max(int(lowest), 0);
}

// Lines rise, so it is enough to look where codes begin and end.
TEST(Book, LinesGiveTheCodeOrTheOneBefore) {
  for (const Book &book : books)
    for (unsigned i = book.zero; i + 1 < book.size(); ++i) {
      float from = book.next[i];
      int below = placeOf(book, neighbour(from, 0)) + book.zero,
          above = placeOf(book, from) + book.zero;
      EXPECT_LE(below, int(i));
      EXPECT_GE(above, int(i));
    }
}

// Below zero a place of n above it stands for one of n + 1 below it.
TEST(Book, LinesHoldBelowZeroToo) {
  for (const Book &book : {books[0], books[2]})
    for (unsigned i = 0; i < book.zero; ++i) {
      float from = book.next[i];
      auto code = [&](float number) {
        return std::max(book.zero - 1 - placeOf(book, -number), 0);
      };
      EXPECT_LE(code(neighbour(from, -2)), int(i));
      EXPECT_GE(code(from), int(i));
      EXPECT_LE(code(from), int(i) + 1);
    }
}

// As compiled code does it with AVX-512; nothing where it is in doubt.
std::optional<uint32_t> quickCode(const Book &book, float number) {
  BookParts parts(book);
  auto bitsOf = [](float x) { return __builtin_bit_cast(int32_t, x); };
  int32_t size = bitsOf(number) & (book.hasSign ? 0x7fffffff : -1);
  size = std::min(std::max(size, int32_t(BookParts::least)), int32_t(parts.end));
  uint32_t beyond = size - parts.begins[size >> 23 & 31], turn = beyond >> 23;
  float line = std::fma(__builtin_bit_cast(float, size), parts.slopes[turn & 15],
                        parts.offset);
  uint32_t onLine =
      std::min(bitsOf(line), int32_t(BookParts::full)) ^ BookParts::exponent;
  uint32_t turned = onLine << (turn & 31) | onLine >> (-turn & 31);
  if (!(turned & BookParts::inCell) || !(beyond & BookParts::inPart))
    return std::nullopt;
  uint8_t above = turned;
  if (!book.hasSign)
    return uint8_t(above - 1);
  return std::signbit(number) ? std::max(book.zero - above, 0)
                              : book.zero + above;
}

// A product with an inverse is at most three places beside the quotient.
bool isCodeAround(const Book &book, uint32_t code, float number) {
  float below = number, above = number;
  for (int i = 0; i < 3; ++i) {
    below = neighbour(below, -2);
    above = neighbour(above, 2);
  }
  return encode(book, below) == code && encode(book, number) == code &&
         encode(book, above) == code;
}

// Between two of these floats nothing changes but that steps rise.
TEST(Book, PartsGiveTheCodeOfAllNumbersAroundOrDoubt) {
  unsigned doubts = 0, all = 0;
  for (const Book &book : {books[0], books[1]}) {
    std::vector<float> edges{0, 1, -1, neighbour(2, 0)};
    for (int exponent = -149; exponent < 1; ++exponent)
      edges.push_back(std::ldexp(1.0f, exponent));
    for (uint32_t bits : {BookParts(book).end, 0x7f800000u, 0x7fc00000u})
      edges.push_back(__builtin_bit_cast(float, bits));
    edges.insert(edges.end(), book.next, book.next + book.size() - 1);
    edges.insert(edges.end(), book.numbers, book.numbers + book.size());
    for (float edge : edges)
      for (int sign : {1, -1}) {
        float number = sign * edge;
        for (int i = 0; i < 64; ++i)
          number = neighbour(number, 2);
        for (int i = 0; i < 128; ++i, number = neighbour(number, -2), ++all)
          if (auto code = quickCode(book, number))
            EXPECT_TRUE(isCodeAround(book, *code, number)) << number;
          else
            ++doubts;
      }
  }
  printf("%u floats, %u in doubt\n", all, doubts);
}

TEST(Book, FewNumbersAreInDoubt) {
  for (const Book &book : {books[0], books[1]}) {
    unsigned doubts = 0;
    for (int i = 0; i < 100000; ++i)
      doubts += !quickCode(book, float(i) / 100000);
    EXPECT_LT(doubts, 100u);
    for (float number : {0.0f, 1.0f, 1e-30f})
      EXPECT_TRUE(quickCode(book, number));
  }
}

TEST(Book, EndsOfTheRange) {
  for (const Book &book : books) {
    EXPECT_EQ(placeOf(book, 0), 0);
    EXPECT_EQ(placeOf(book, INFINITY) + book.zero, int(book.size()) - 2);
  }
}

TEST(Book, SaturationIsReported) {
  auto flag = [](const char *name, float value) {
    bool saturated = false;
    for (const Preset &preset : presets)
      if (std::string(name) == preset.name)
        encode(preset.format, value, Rounding::NearestEven, Overflow::Saturate,
               &saturated);
    return saturated;
  };
  EXPECT_FALSE(flag("bnb8", -1));
  EXPECT_TRUE(flag("bnb8", 1.5f));
  EXPECT_TRUE(flag("bnb8u", -0.5f));
  EXPECT_FALSE(flag("bnb8u", -0.0f));
}

} // namespace

// The codec over all 2^32 floats against a table of midpoints in double.
//
//   format-exhaustive [stride [name...]]     stride 1: every float; 0: strata
#include "FormatOracle.h"

#include <cstdio>
#include <cstdlib>

using namespace altgrad;
using namespace oracle;

// Up and down again: every code that is a number comes back, and is the number
// that the definition says.
static bool checkCodes(const Preset &preset) {
  const Format &f = preset.format;
  uint32_t wrong = 0, half = 1u << (f.bits() - 1),
           all = f.hasSign ? half : 2 * half;
  for (uint32_t code = 0; code < 2 * half; ++code) {
    bool negative = f.hasSign && code >= half;
    uint32_t magnitude = negative ? code - half : code;
    if (f.complement && negative)
      magnitude = 2 * half - code;
    bool top = (magnitude >> f.mantissaBits) + 1 == 1u << f.exponentBits;
    double number = numberOf(f, magnitude);
    if (f.nan == NanCode::AllOnes && magnitude == all - 1)
      number = NAN;
    if (f.nan == NanCode::Ieee && top)
      number = magnitude % (1u << f.mantissaBits) ? NAN : INFINITY;
    number = negative ? -number : number;
    float got = decode(f, code);
    bool same = std::isnan(number)
                    ? decodeBits(f, code) == 0x7fc00000
                    : double(got) == number &&
                          std::signbit(got) == std::signbit(number);
    for (Overflow mode : {Overflow::NonFinite, Overflow::Saturate})
      if (!std::isnan(number) &&
          (mode == Overflow::NonFinite || !std::isinf(number)))
        same &= encode(f, got, Rounding::NearestEven, mode) == code;
    wrong += !same;
  }
  if (wrong)
    printf("%s: %u of %u codes do not come back\n", preset.name, wrong,
           2 * half);
  return wrong == 0;
}

static bool checkBook(const Preset &preset) {
  const Format &f = preset.format;
  const std::vector<float> &numbers = bookNumbers(f.book);
  uint32_t wrong = numbers.size() != 1u << f.bits();
  for (uint32_t code = 0; code < numbers.size(); ++code)
    wrong += decode(f, code) != numbers[code] ||
             encode(f, numbers[code], Rounding::NearestEven,
                    Overflow::Saturate) != code;
  if (wrong)
    printf("%s: %u codes are wrong\n", preset.name, wrong);
  return wrong == 0;
}

static bool checkFloats(const Preset &preset, const Magnitudes &magnitudes) {
  const Format &f = preset.format;
  uint64_t wrong = 0, checked = 0;
  for (uint32_t sign : {0u, 0x80000000u}) {
    Oracle expected(f, sign != 0);
    for (uint64_t i = 0; i < magnitudes.count(); ++i) {
      uint32_t bits = magnitudes.at(i) | sign;
      Expected e = expected.at(magnitudes.at(i));
      bool flag = false;
      uint32_t a =
          encodeBits(f, bits, Rounding::NearestEven, Overflow::NonFinite);
      uint32_t b =
          encodeBits(f, bits, Rounding::NearestEven, Overflow::Saturate, &flag);
      ++checked;
      if (a == e.nonFinite && b == e.saturate && flag == e.saturated)
        continue;
      if (++wrong <= 5)
        printf("%s: %08x gives %x and %x, expected %x and %x\n", preset.name,
               bits, a, b, e.nonFinite, e.saturate);
    }
  }
  printf("%-15s %llu floats, 2 modes, %llu wrong; %u codes\n", preset.name,
         (unsigned long long)checked, (unsigned long long)wrong,
         1u << f.bits());
  fflush(stdout);
  return wrong == 0;
}

int main(int count, char **arguments) {
  Magnitudes magnitudes{count > 1 ? uint32_t(atoi(arguments[1])) : 1};
  bool right = true;
  for (const Preset &preset : presets) {
    bool wanted = count <= 2;
    for (int i = 2; i < count; ++i)
      wanted |= strcmp(arguments[i], preset.name) == 0;
    if (wanted && preset.format.bits() <= 16)
      right = (preset.format.book ? checkBook : checkCodes)(preset) &&
              checkFloats(preset, magnitudes) && right;
  }
  return right ? 0 : 1;
}

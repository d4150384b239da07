// The codec over all 2^32 floats against a table of midpoints in double.
//
//   format-exhaustive [stride [name...]]     stride 1: every float
//
// The oracle shares nothing with the codec: it lists the numbers of a format in
// order, takes the midpoints between neighbours, which double holds exactly,
// and looks where a float lies. Ties go to the even code.
#include "altgrad/format.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace altgrad;

namespace {

struct Named {
  const char *name;
  Format format;
};

constexpr NanCode none = NanCode::None;
const Named formats[] = {{"bf16", bf16Format},
                         {"f16", f16Format},
                         {"ocp.e4m3fn", ocpE4M3Format},
                         {"ocp.e5m2", ocpE5M2Format},
                         {"ocp.e2m3fn", {2, 3, 1, false, none}},
                         {"ocp.e3m2fn", {3, 2, 3, false, none}},
                         {"ocp.e2m1fn", {2, 1, 1, false, none}},
                         {"e0m7", {0, 7, 0, false, none}},
                         {"e1m6", {1, 6, 0, false, none}},
                         {"e2m5", {2, 5, 1, false, none}},
                         {"e3m4", {3, 4, 3, false, none}},
                         {"e4m3", {4, 3, 7, false, none}},
                         {"e6m1", {6, 1, 31, false, none}},
                         {"e7m0", {7, 0, 63, false, none}},
                         {"e0m15", {0, 15, 0, false, none}},
                         {"e2m13", {2, 13, 1, false, none}},
                         {"e4m11", {4, 11, 7, false, none}},
                         {"e6m9", {6, 9, 31, false, none}},
                         {"e7m8", {7, 8, 63, false, none}}};

// The number of code i, for the oracle.
double numberOf(const Format &f, uint32_t i) {
  uint32_t size = 1u << f.mantissaBits, field = i / size, m = i % size;
  if (f.exponentBits == 0)
    return double(m) / size;
  if (field == 0)
    return std::ldexp(double(m) / size, 1 - f.bias);
  return std::ldexp(1.0 + double(m) / size, int(field) - f.bias);
}

uint32_t countOf(const Format &f) {
  uint32_t all = 1u << (f.exponentBits + f.mantissaBits);
  if (f.nan == NanCode::AllOnes)
    return all - 1;
  return f.nan == NanCode::Ieee ? all - (1u << f.mantissaBits) : all;
}

float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

struct Expected {
  uint32_t nonFinite, saturate;
  bool saturated;
};

class Oracle {
public:
  explicit Oracle(const Format &f) : count(countOf(f)) {
    for (uint32_t i = 0; i < count; ++i)
      middles.push_back((numberOf(f, i) + numberOf(f, i + 1)) / 2);
    if (f.exponentBits == 0) // the step after the last one is as wide
      middles.back() = (2 * double(count) - 1) / 2 / double(count);
    beyond = f.nan == NanCode::None ? count - 1 : count; // inf or NaN
    uint32_t quiet = count | (1u << f.mantissaBits >> 1);
    nanCode = f.nan == NanCode::None ? 0
              : f.bits() > 8         ? quiet
                                     : (1u << (f.bits() - 1)) - 1;
  }

  // For magnitudes in ascending order.
  Expected at(uint32_t magnitude) {
    if (magnitude > 0x7f800000)
      return {nanCode, nanCode, false};
    double value = floatOf(magnitude);
    while (position < count && (value > middles[position] ||
                                (value == middles[position] && position % 2)))
      ++position;
    if (position < count)
      return {position, position, false};
    return {beyond, count - 1, true};
  }

private:
  uint32_t nanCode, beyond, count;
  std::vector<double> middles;
  uint32_t position = 0;
};

bool check(const Named &named, uint32_t stride) {
  const Format &f = named.format;
  Oracle oracle(f);
  uint64_t wrong = 0, checked = 0;
  for (uint64_t m = 0; m < 0x80000000u; m += stride) {
    Expected e = oracle.at(uint32_t(m));
    bool nan = m > 0x7f800000,
         signless = nan || (e.saturated && !f.hasInf && f.nan != NanCode::None);
    for (uint32_t s : {0u, 1u}) {
      uint32_t bits = uint32_t(m) | s << 31, sign = s << (f.bits() - 1);
      bool flag = false;
      uint32_t a =
          encodeBits(f, bits, Rounding::NearestEven, Overflow::NonFinite);
      uint32_t b =
          encodeBits(f, bits, Rounding::NearestEven, Overflow::Saturate, &flag);
      uint32_t wantA = e.nonFinite | (signless ? 0 : sign);
      uint32_t wantB = e.saturate | (nan ? 0 : sign);
      ++checked;
      if (a == wantA && b == wantB && flag == e.saturated)
        continue;
      if (++wrong <= 5)
        printf("%s: %08x gives %x and %x, expected %x and %x\n", named.name,
               bits, a, b, wantA, wantB);
    }
  }
  printf("%-11s %llu floats, %llu wrong\n", named.name,
         (unsigned long long)checked, (unsigned long long)wrong);
  fflush(stdout);
  return wrong == 0;
}

} // namespace

int main(int count, char **arguments) {
  uint32_t stride = count > 1 ? uint32_t(atoi(arguments[1])) : 1;
  bool right = stride > 0;
  for (const Named &named : formats) {
    bool wanted = count <= 2;
    for (int i = 2; i < count; ++i)
      wanted |= strcmp(arguments[i], named.name) == 0;
    if (wanted && right)
      right = check(named, stride);
  }
  return right ? 0 : 1;
}

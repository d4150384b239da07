// The sequences of dialect/builders/Quotients.cpp against the CPU's own
// division and square root, for every reciprocal that a GPU may give.
//
//   quotients [stride]     stride 1: every divisor and every root
//
// Before its last rounding a sequence is off by less than 2^-21 units of the
// quotient: 2 units times 2^-23 for the reciprocal, as much for the residual.
// So only a quotient nearer than that to the middle of two floats can go wrong.
// With integer mantissas N and D the middle M gives N 2^s - D M = R, s being 24
// or 25, and R / 2D is the distance: |R| is at most 16. For each divisor all
// numerators with |R| up to 64 are found by solving D M = -R modulo 2^s, and
// tried. Roots are few enough to try all.
#include "Random.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr int farthest = 64;

float fromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

float off(float x, int units) { return fromBits(bitsOf(x) + units); }

// As Quotients.cpp has them.
float uniformQuotient(float n, float d, float z) {
  float q = n * z;
  return std::fmaf(-z, std::fmaf(d, q, -n), q);
}

// t + t^2, rounded up.
float moreThan(float t) {
  float sum = std::fmaf(t, t, t);
  return std::fmaf(t, t, t - sum) > 0 ? std::nextafter(sum, INFINITY) : sum;
}

float quotient(float n, float d, float r) {
  float y = std::fmaf(r, moreThan(std::fmaf(-d, r, 1.0f)), r);
  float q = n * y;
  return std::fmaf(-y, std::fmaf(d, q, -n), q);
}

float squareRoot(float x, float r) {
  float s = x * r, h = r * 0.5f;
  float error = std::fmaf(-h, s, 0.5f);
  s = std::fmaf(s, error, s);
  h = std::fmaf(h, error, h);
  return std::fmaf(std::fmaf(-s, s, x), h, s);
}

// Correctly rounded but for one case in 2^29; the tests move it by more.
float reciprocalRoot(float x) { return float(1.0 / std::sqrt(double(x))); }

struct Count {
  const char *what;
  uint64_t tried = 0, wrong = 0;
  void operator()(float got, float want) {
    ++tried;
    wrong += bitsOf(got) != bitsOf(want);
  }
  uint64_t print() const {
    std::printf("%-48s %12llu tried, %llu wrong\n", what,
                (unsigned long long)tried, (unsigned long long)wrong);
    return wrong;
  }
};

// Of an odd number, modulo 2^32.
uint32_t inverse(uint32_t odd) {
  uint32_t x = odd;
  for (int i = 0; i < 5; ++i)
    x *= 2 - odd * x;
  return x;
}

// Calls `with` for the mantissas N whose quotient by D is near a middle.
template <typename Body> void hardNumerators(uint32_t D, Body with) {
  int t = __builtin_ctz(D);
  if (1 << t > farthest)
    return;
  uint32_t odd = inverse(D >> t);
  for (int s : {24, 25})
    for (int r = 1; r << t <= farthest; r += 2) // M is odd: R / 2^t is
      for (int R : {r, -r}) {
        uint32_t period = 1u << (s - t);
        uint32_t M = (uint32_t(-R) * odd) & (period - 1);
        if (M < 1u << 24)
          M += ((1u << 24) - M + period - 1) / period * period;
        for (; M < 1u << 25; M += period) {
          int64_t N = (int64_t(D) * M + int64_t(R) * (1 << t)) >> s;
          if (N >= 1 << 23 && N < 1 << 24)
            with(uint32_t(N));
        }
      }
}

float mantissa(uint32_t m) { return fromBits(0x3f800000u | (m & 0x7fffff)); }

uint64_t divisors(uint32_t stride) {
  Count uniform{"n / d from RN(1/d)"}, each{"n / d from 1/d off by -2 to 2"},
      negative{"(one unit off where it must not be)"};
  Random random;
  for (uint32_t m = 0; m < 1u << 23; m += stride) {
    float d = mantissa(m), z = 1.0f / d;
    auto both = [&](uint32_t N) {
      float n = mantissa(N), want = n / d;
      uniform(uniformQuotient(n, d, z), want);
      for (int units = -2; units <= 2; ++units)
        each(quotient(n, d, off(z, units)), want);
      negative(uniformQuotient(n, d, off(z, 1)), want);
    };
    hardNumerators(1u << 23 | m, both);
    for (int i = 0; i < 4; ++i)
      both(random());
  }
  // By the mantissa of all ones, which Markstein's theorem leaves out,
  // everything.
  for (uint32_t m : {0x7fffffu, 0x7ffffeu, 0u, 1u})
    for (uint32_t n = 0; n < 1u << 23; n += m == 0x7fffff ? 1 : stride) {
      float d = mantissa(m), z = 1.0f / d, want = mantissa(n) / d;
      uniform(uniformQuotient(mantissa(n), d, z), want);
      for (int units = -2; units <= 2; ++units)
        each(quotient(mantissa(n), d, off(z, units)), want);
    }
  if (!negative.print())
    return std::puts(
               "a wrong reciprocal goes unnoticed: the test tests nothing"),
           1;
  return uniform.print() + each.print();
}

uint64_t roots(uint32_t stride) {
  Count count{"square root from 1/sqrt(x) off by -3 to 3"};
  // All mantissas, of either parity of the exponent; then the ends of the
  // range.
  for (uint32_t first :
       {0x3f800000u, (127u - 100) << 23, (127u - 76) << 23, 252u << 23})
    for (uint32_t i = 0; i < 1u << 24;
         i += first == 0x3f800000u ? stride : 64 * stride) {
      float x = fromBits(first + i);
      for (int units = -3; units <= 3; ++units)
        count(squareRoot(x, off(reciprocalRoot(x), units)), std::sqrt(x));
    }
  for (float zero : {0.0f, -0.0f})
    count(squareRoot(zero, reciprocalRoot(zero + 0x1p-126f)), zero);
  return count.print();
}

bool isLow(float x) { return x != 0 && std::fabs(x) < 0x1p-76f; }
float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}
float approximate(float x, int units) {
  bool moves = std::isnormal(x);
  return flushed(moves ? off(x, units) : x);
}

// Any two floats: what the guard lets pass is right, and it lets enough pass.
uint64_t guards(uint32_t stride) {
  Count uniform{"any n by any uniform d, past the guard"},
      each{"any n by any d >= 0, past the guard"},
      root{"root of any x, past the guard"};
  Random random;
  uint64_t rounds = (1ull << 31) / stride;
  for (uint64_t i = 0; i < rounds; ++i) {
    float n = fromBits(random() ^ random() << 13),
          d = fromBits(random() ^ random() << 13);
    if (i % 8 == 0)
      n = std::copysign(0.0f, n);
    if (i % 4 == 1)
      d = mantissa(bitsOf(d)) * std::ldexp(1.0f, int(random() % 60) - 30);
    bool limited = d >= 0x1p-24f && d <= 0x1p24f;
    float q = uniformQuotient(n, d, limited ? 1.0f / d : NAN);
    if (!isLow(n) && std::isfinite(q))
      uniform(q, n / d);
    int units = int(random() % 7) - 3;
    d = std::fabs(d);
    float r = approximate(1.0f / flushed(d), units % 3);
    q = quotient(n, d, r);
    if (!isLow(n) && std::isfinite(q) && std::isfinite(d * 0x1p80f))
      each(q, n / d);
    float x = n, some = flushed(x + 0x1p-126f);
    float s = squareRoot(
        x, some < 0 ? NAN : approximate(reciprocalRoot(some), units));
    if (!isLow(x) && std::isfinite(s))
      root(s, std::sqrt(x));
  }
  if (std::fmin(uniform.tried, std::fmin(each.tried, root.tried)) < rounds / 8)
    return std::puts("the guard lets too little pass"), 1;
  return uniform.print() + each.print() + root.print();
}

} // namespace

int main(int count, char **words) {
  uint32_t stride = count > 1 ? uint32_t(std::atoi(words[1])) : 61;
  return divisors(stride) + roots(stride) + guards(stride) ? 1 : 0;
}

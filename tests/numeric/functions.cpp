// The functions of elements, by the CPU's arithmetic, against the C library in f64, in units in the last place of the
// exact result.
//
//   functions [stride] [name...]     stride 1: every float, and 2^30 pairs of them
#include "NativeReal.h"
#include "Random.h"
#include "codegen/numerics/ElementAngles.h"
#include "codegen/numerics/ElementPowers.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

using native::Real;

namespace {

constexpr double limit = 1.0;

// How far `got` is from `exact` in distances of floats there; the one behind the largest float is 2^128.
double measureError(float got, double exact) {
  double most = std::clamp(exact, -0x1p128, 0x1p128), value = std::clamp(double(got), -0x1p128, 0x1p128);
  int exponent = int(__builtin_bit_cast(uint64_t, most) >> 52 & 0x7ff) - 1023;
  exponent = std::clamp(exponent, -126, 127) - 23;
  double error = std::fabs(value - most) * __builtin_bit_cast(double, uint64_t(1023 - exponent) << 52);
  bool bothNan = std::isnan(got) && std::isnan(exact), sign = std::signbit(got) == std::signbit(exact);
  return bothNan ? 0 : sign && error <= HUGE_VAL ? error : HUGE_VAL;
}

double softplus(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }

// Where a result is the exact one rounded it is off by half a unit at most, and is not looked at.
struct Worst {
  double error = 0.5;
  float x = 0, y = 0;
  uint64_t count = 0, rounded = 0;

  void add(const float *xs, const float *ys, const float *got, const double *exact, int n) {
    int equal = 0;
    for (int i = 0; i < n; ++i)
      equal += __builtin_bit_cast(uint32_t, got[i]) == __builtin_bit_cast(uint32_t, float(exact[i])) ||
               (got[i] != got[i] && exact[i] != exact[i]);
    count += n;
    rounded += equal;
    for (int i = 0; i < n && equal < n; ++i)
      if (double one = measureError(got[i], exact[i]); one > error)
        error = one, x = xs[i], y = ys ? ys[i] : 0;
  }
  bool print(const char *name) const {
    std::printf("%-9s %11llu, %.5f of them rounded as the exact result, at most %.4f units off, at %a, %a\n", name,
                (unsigned long long)count, double(rounded) / double(count), error, x, y);
    std::fflush(stdout);
    return error <= limit;
  }
};

constexpr int length = 1024;

// Each float of a stride; false where the worst is beyond the limit.
template <Real (*ours)(Real), double (*exact)(double)> bool passes(const char *name, uint64_t stride) {
  Worst worst;
  float x[length] = {}, y[length];
  double wanted[length];
  for (uint64_t from = 0; from < 1ull << 32;) {
    int n = 0;
    for (; n < length && from < 1ull << 32; from += stride)
      x[n++] = __builtin_bit_cast(float, uint32_t(from));
    for (int i = 0; i < length; ++i)
      y[i] = ours(x[i]).value;
    for (int i = 0; i < length; ++i)
      wanted[i] = exact(x[i]);
    worst.add(x, nullptr, y, wanted, n);
  }
  return worst.print(name);
}

struct RandomNumbers : Random {
  // Any bits, a number about 1, a small whole number, or one where something begins or ends.
  float number() {
    static const float ends[] = {
        0, 1, 2, 3, 0.5f, HUGE_VALF, NAN, 0x1p-149f, 0x1p-126f, 0x1.fffffep127f, 0x1p24f, 0x1.fffffep23f};
    uint32_t bits = (*this)(), kind = bits >> 28;
    float sign = bits & 1 ? 1.0f : -1.0f;
    if (kind == 0)
      return sign * ends[(bits >> 1) % (sizeof ends / sizeof *ends)];
    if (kind == 1)
      return sign * float(bits >> 1 & 63);
    if (kind < 6)
      return sign * __builtin_bit_cast(float, 0x3f800000 + (int32_t(bits << 4) >> (5 + bits % 13)));
    return __builtin_bit_cast(float, (*this)());
  }
};

// Mostly an exponent whose power is a number, and an angle of no extreme.
float partner(RandomNumbers &random, float x, bool isPower) {
  float size = std::log2(std::fabs(x));
  if (isPower && random() % 8 && std::isnormal(size))
    return (float(random()) * 0x1p-32f - 0.5f) * 310 / size;
  if (!isPower && random() % 2)
    return x * (float(random()) * 0x1p-30f - 2.0f);
  return random.number();
}

template <Real (*ours)(Real, Real), double (*exact)(double, double)>
bool passesPairs(const char *name, uint64_t count, bool isPower) {
  Worst worst;
  RandomNumbers random;
  float x[length], y[length], z[length];
  double wanted[length];
  for (uint64_t done = 0; done < count; done += length) {
    for (int i = 0; i < length; ++i) {
      x[i] = random.number();
      y[i] = partner(random, x[i], isPower);
    }
    for (int i = 0; i < length; ++i)
      z[i] = ours(x[i], y[i]).value;
    for (int i = 0; i < length; ++i)
      wanted[i] = exact(x[i], y[i]);
    worst.add(x, y, z, wanted, length);
  }
  return worst.print(name);
}

} // namespace

int main(int count, char **words) {
  uint64_t stride = count > 1 ? std::strtoull(words[1], nullptr, 10) : 257;
  if (!stride)
    return 2;
  bool good = true;
  auto isChosen = [&](const char *name) {
    return count <= 2 || std::any_of(words + 2, words + count, [&](char *word) { return !std::strcmp(word, name); });
  };
#define TRY(name, ours, exact)                                                                                         \
  if (isChosen(name))                                                                                                  \
    good &= passes<altgrad::element::ours<Real>, exact>(name, stride);
  TRY("exp", exponential, std::exp)
  TRY("exp2", exp2, std::exp2)
  TRY("expm1", expm1, std::expm1)
  TRY("log", logarithm, std::log)
  TRY("log2", log2, std::log2)
  TRY("log1p", log1p, std::log1p)
  TRY("tanh", tanh, std::tanh)
  TRY("sigmoid", sigmoid, sigmoid)
  TRY("softplus", softplus, softplus)
  TRY("erf", erf, std::erf)
  TRY("rsqrt", rsqrt, rsqrt)
  TRY("cbrt", cbrt, std::cbrt)
  TRY("sin", sin, std::sin)
  TRY("cos", cos, std::cos)
#undef TRY
  if (isChosen("pow"))
    good &= passesPairs<altgrad::element::pow<Real>, std::pow>("pow", (1ull << 30) / stride, /*isPower=*/true);
  if (isChosen("atan2"))
    good &= passesPairs<altgrad::element::atan2<Real>, std::atan2>("atan2", (1ull << 30) / stride, /*isPower=*/false);
  return good ? 0 : 1;
}

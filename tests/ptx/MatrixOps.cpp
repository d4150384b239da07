// Matrices in the registers of a warp: ldmatrix, which moves bytes, and mma,
// whose sums the ISA leaves open.
#include "Registry.h"
#include "SoftFloat.h"
#include "Warp.h"

#include <cmath>
#include <cstring>

using namespace ptx;

namespace {

constexpr uint32_t all = 0xffffffff;

/// The row of matrix `matrix` that thread `number` gave the address of.
/// Whoever gets bytes of it reads it.
uint16_t elementOf(const Named &named, const Instruction &i, unsigned reader,
                   unsigned matrix, unsigned row, unsigned column) {
  const Operand &address = i.operands[i.form->traits.numbers];
  uint64_t from = addressOf(*named[matrix * 8 + row], address);
  Region &region = checkAccess(*named[reader], {Space::Shared, from, 16, false});
  region.checkInitialised(from, 16);
  uint8_t bytes[2];
  region.read(from + 2 * column, 2, bytes);
  return uint16_t(bytes[0] | bytes[1] << 8);
}

template <bool Transposed> void ldmatrix(Thread &t, const Instruction &i) {
  if (!t.block->arriveAtWarp(t, i, all))
    return;
  Named named(t, all);
  uint32_t values[32][4];
  named.each([&](Thread &, unsigned number) {
    for (unsigned matrix = 0; matrix < i.form->traits.numbers; ++matrix) {
      uint32_t both = 0;
      for (unsigned half = 0; half < 2; ++half) {
        unsigned row = number / 4, column = number % 4 * 2 + half;
        both |= uint32_t(elementOf(named, i, number, matrix,
                                   Transposed ? column : row,
                                   Transposed ? row : column))
                << 16 * half;
      }
      values[number][matrix] = both;
    }
  });
  named.each([&](Thread &thread, unsigned number) {
    for (unsigned matrix = 0; matrix < i.form->traits.numbers; ++matrix)
      write(thread, i.operands[matrix], values[number][matrix]);
  });
}

double numberOf(const Format &format, uint64_t bits) {
  bits = soft::convert(format, F64, bits, Rounding::NearestEven, false);
  double number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

float floatOf(uint64_t bits) {
  uint32_t word = uint32_t(bits);
  float number;
  std::memcpy(&number, &word, sizeof number);
  return number;
}

/// A warp's operands as matrices.
struct Product {
  double a[16][16], b[16][8];
  float c[16][8];
};

Product gather(const Named &named, const Instruction &i) {
  const Operand *o = i.operands; // d*4, a*4, b*2, c*4
  const Format &format = *i.form->traits.format;
  Product p;
  named.each([&](Thread &thread, unsigned number) {
    unsigned group = number / 4, first = number % 4 * 2;
    for (unsigned n = 0; n < 4; ++n)
      for (unsigned half = 0; half < 2; ++half) {
        auto code = [&](const Operand &word) {
          return numberOf(format, read(thread, word) >> 16 * half & 0xffff);
        };
        p.a[group + n % 2 * 8][first + half + n / 2 * 8] = code(o[4 + n]);
        if (n < 2)
          p.b[first + half + n * 8][group] = code(o[8 + n]);
      }
    for (unsigned n = 0; n < 4; ++n)
      p.c[group + n / 2 * 8][first + n % 2] = floatOf(read(thread, o[10 + n]));
  });
  return p;
}

/// Where a launch has a perturbation: off by up to 17 terms, each cut at 2^-23
/// of the largest one. GPUs that were measured cut further down (Fasi, Higham,
/// Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021).
double drawn(const Thread &t, unsigned row, unsigned column, double largest) {
  uint64_t x = t.block->machine->options.perturbation;
  if (!x || !std::isfinite(largest))
    return 0;
  x = (x ^ t.pc << 16 ^ t.clock.now.barrierClock << 8 ^ row << 4 ^ column) *
      0x9e3779b97f4a7c15u;
  x = (x ^ x >> 31) * 0x94d049bb133111ebu;
  return (double(x >> 11) * 0x1p-52 - 1) * 17 * 0x1p-23 * largest;
}

uint64_t sumOf(const Thread &t, const Product &p, unsigned row,
               unsigned column) {
  double sum = p.c[row][column], largest = std::fabs(sum);
  for (unsigned k = 0; k < 16; ++k) {
    double term = p.a[row][k] * p.b[k][column]; // exact
    sum += term;
    largest = std::fmax(largest, std::fabs(term));
  }
  float result = float(sum + drawn(t, row, column, largest));
  uint32_t bits;
  std::memcpy(&bits, &result, sizeof bits);
  return std::isnan(result) ? F32.nan : bits;
}

void mma(Thread &t, const Instruction &i) {
  if (!t.block->arriveAtWarp(t, i, all))
    return;
  Named named(t, all);
  Product p = gather(named, i);
  named.each([&](Thread &thread, unsigned number) {
    for (unsigned n = 0; n < 4; ++n)
      write(thread, i.operands[n],
            sumOf(t, p, number / 4 + n / 2 * 8, number % 4 * 2 + n % 2));
  });
}

} // namespace

void ptx::addMatrixForms(Registry &r) {
  for (unsigned count : {1, 2, 4})
    for (bool transposed : {false, true})
      for (const char *space : {".shared", ".shared::cta"}) {
        Traits k;
        k.space = Space::Shared;
        k.numbers = uint8_t(count);
        std::string number = std::to_string(count);
        r.add("ldmatrix.sync.aligned.m8n8.x" + number +
                  (transposed ? ".trans" : "") + space + ".b16",
              transposed ? ldmatrix<true> : ldmatrix<false>,
              "=32*" + number + " @", k);
      }
  for (bool wide : {false, true}) {
    Traits k;
    k.format = wide ? &BF16 : &F16;
    std::string type = wide ? ".bf16" : ".f16";
    r.add("mma.sync.aligned.m16n8k16.row.col.f32" + type + type + ".f32", mma,
          "=32*4 32*4 32*2 f32*4", k);
  }
}

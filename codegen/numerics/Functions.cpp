// Powers, exponential and logarithm of f64 scalars: no library call, the same
// bits on every target. They run once per tensor, not once per element.
#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace altgrad;

static Value i64(CodeBuilder &b, int64_t value) { return b.integer(b.getI64Type(), value); }

static Value getBits(CodeBuilder &b, Value x) { return b.cast(b.getI64Type(), x); }

static Value fromBits(CodeBuilder &b, Value bits) { return b.cast(b.getF64Type(), bits); }

static Value less(CodeBuilder &b, Value x, Value y) { return b.compareF(arith::CmpFPredicate::OLT, x, y); }

// Horner's rule, the highest coefficient first.
static Value polynomial(CodeBuilder &b, Value x, ArrayRef<double> coefficients) {
  Value sum = b.f64(coefficients.front());
  for (double coefficient : coefficients.drop_front())
    sum = b.fma(sum, x, b.f64(coefficient));
  return sum;
}

// ln 2 in two parts; the high one ends in 21 zero bits, so that k * high is exact.
static constexpr double ln2High = 0x1.62e42feep-1;
static constexpr double ln2Low = 0x1.a39ef35793c76p-33;

Value altgrad::powerBySquaring(CodeBuilder &b, Value base, Value exponent) {
  Type f64 = b.getF64Type();
  Value zero = i64(b, 0), one = i64(b, 1);
  Value negative = b.less(exponent, zero);
  Value count = b.select(negative, b.sub(zero, exponent), exponent);
  auto loop = scf::WhileOp::create(
      b, TypeRange{f64, f64, b.getI64Type()}, ValueRange{b.f64(1.0), base, count},
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        CodeBuilder body(loc, inner);
        scf::ConditionOp::create(inner, loc, body.notEqual(state[2], zero), state);
      },
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        CodeBuilder body(loc, inner);
        Value odd = body.notEqual(body.bitAnd(state[2], one), zero);
        Value result = body.select(odd, body.mulF(state[0], state[1]), state[0]);
        Value square = body.mulF(state[1], state[1]);
        scf::YieldOp::create(body, ValueRange{result, square, body.shiftRight(state[2], one)});
      });
  Value power = loop.getResult(0);
  return b.select(negative, b.divF(b.f64(1.0), power), power);
}

// (k + 1023) << 52. LLVM compares sums of integers with each other, all with all; where
// there are many of them the sum is one of f64, whose last bits are the integer.
static Value exponentField(CodeBuilder &b, Value k, bool many) {
  Value sum = many ? getBits(b, b.addF(k, b.f64(0x1.8p52 + 1023)))
                   : b.add(arith::FPToSIOp::create(b, b.getI64Type(), k), i64(b, 1023));
  return b.shiftLeft(sum, i64(b, 52));
}

Value altgrad::exponential(CodeBuilder &b, Value x, bool many) {
  // Adding and subtracting 1.5 * 2^52 rounds to an integer.
  Value shift = b.f64(0x1.8p52);
  Value k = b.subF(b.fma(x, b.f64(1.4426950408889634), shift), shift);
  Value negated = b.negF(k);
  Value r = b.fma(negated, b.f64(ln2Low), b.fma(negated, b.f64(ln2High), x));
  SmallVector<double> taylor;
  double factorial = 1.0;
  for (int i = 0; i <= 13; ++i) {
    taylor.insert(taylor.begin(), 1.0 / factorial);
    factorial *= i + 1;
  }
  Value p = polynomial(b, r, taylor);
  // 2^k as two factors by their exponent fields: the second product rounds once where
  // the result is subnormal or too large, as it is from ln(2^1024) = 709.78 on.
  Value low = less(b, x, b.f64(-746.0)), high = less(b, b.f64(710.0), x);
  Value safe = b.select(low, b.f64(0.0), b.select(high, b.f64(0.0), k));
  safe = b.select(b.isNan(x), b.f64(0.0), safe);
  Value half = b.subF(b.fma(safe, b.f64(0.5), shift), shift);
  Value scaled = p;
  for (Value power : {half, b.subF(safe, half)})
    scaled = b.mulF(scaled, fromBits(b, exponentField(b, power, many)));
  Value result = b.select(low, b.f64(0.0), scaled);
  return b.select(high, b.f64(std::numeric_limits<double>::infinity()), result);
}

Value altgrad::logarithm(CodeBuilder &b, Value x) {
  Value raw = getBits(b, x);
  Value exponent = b.sub(b.shiftRight(raw, i64(b, 52)), i64(b, 1023));
  Value mantissa = b.bitOr(b.bitAnd(raw, i64(b, 0x000fffffffffffff)), i64(b, 0x3ff0000000000000));
  Value m = fromBits(b, mantissa);
  // m in (0.7, 1.42], so that the series converges fast.
  Value large = less(b, b.f64(1.4142135623730951), m);
  m = b.select(large, b.mulF(m, b.f64(0.5)), m);
  Value k = arith::SIToFPOp::create(b, b.getF64Type(), exponent);
  k = b.select(large, b.addF(k, b.f64(1.0)), k);
  Value s = b.divF(b.subF(m, b.f64(1.0)), b.addF(m, b.f64(1.0)));
  Value z = b.mulF(s, s);
  SmallVector<double> series;
  for (int i = 0; i <= 10; ++i)
    series.insert(series.begin(), 2.0 / (2 * i + 1));
  Value p = b.mulF(s, polynomial(b, z, series));
  Value result = b.fma(k, b.f64(ln2High), b.fma(k, b.f64(ln2Low), p));
  // Subnormals count as 0: a logarithm of a hyper-parameter never meets one.
  Value infinity = b.f64(std::numeric_limits<double>::infinity());
  Value nan = b.f64(std::numeric_limits<double>::quiet_NaN());
  result = b.select(less(b, x, infinity), result, x);
  result = b.select(less(b, x, b.f64(0x1p-1022)), b.negF(infinity), result);
  return b.select(less(b, x, b.f64(0.0)), nan, result);
}

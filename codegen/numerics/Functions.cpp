// Powers, exponential and logarithm of f64 scalars: no library call, the same
// bits on every target. They run once per tensor, not once per element.
#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct Doubles {
  CodeBuilder &b;

  Value f64(double value) const { return arith::ConstantOp::create(b, b.getF64FloatAttr(value)); }
  Value i64(int64_t value) const { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value add(Value x, Value y) const { return b.addF(x, y); }
  Value sub(Value x, Value y) const { return b.subF(x, y); }
  Value mul(Value x, Value y) const { return b.mulF(x, y); }
  Value div(Value x, Value y) const { return b.divF(x, y); }
  Value fma(Value x, Value y, Value z) const { return b.fma(x, y, z); }
  Value less(Value x, Value y) const { return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y); }
  Value choose(Value condition, Value x, Value y) const { return b.choose(condition, x, y); }
  Value bits(Value x) const { return b.cast(b.getI64Type(), x); }
  Value number(Value x) const { return b.cast(b.getF64Type(), x); }
  // Horner's rule, the highest coefficient first.
  Value polynomial(Value x, ArrayRef<double> coefficients) const {
    Value sum = f64(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      sum = fma(sum, x, f64(coefficient));
    return sum;
  }
};
} // namespace

// ln 2 in two parts; the high one ends in 21 zero bits, so that k * high is exact.
static constexpr double ln2High = 0x1.62e42feep-1;
static constexpr double ln2Low = 0x1.a39ef35793c76p-33;

Value altgrad::powerBySquaring(CodeBuilder &b, Value base, Value exponent) {
  Doubles d{b};
  Type f64 = b.getF64Type(), i64 = b.getI64Type();
  Value zero = d.i64(0), one = d.i64(1);
  Value negative = b.less(exponent, zero);
  Value count = b.choose(negative, b.sub(zero, exponent), exponent);
  auto loop = scf::WhileOp::create(
      b, TypeRange{f64, f64, i64}, ValueRange{d.f64(1.0), base, count},
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        Value more = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::ne, state[2], zero);
        scf::ConditionOp::create(inner, loc, more, state);
      },
      [&](OpBuilder &inner, Location loc, ValueRange state) {
        CodeBuilder body(loc, inner);
        Doubles in{body};
        Value odd =
            arith::CmpIOp::create(body, arith::CmpIPredicate::ne, arith::AndIOp::create(body, state[2], one), zero);
        Value result = in.choose(odd, in.mul(state[0], state[1]), state[0]);
        Value square = in.mul(state[1], state[1]);
        Value rest = arith::ShRUIOp::create(body, state[2], one);
        scf::YieldOp::create(body, ValueRange{result, square, rest});
      });
  Value power = loop.getResult(0);
  return d.choose(negative, d.div(d.f64(1.0), power), power);
}

// (k + 1023) << 52. LLVM compares sums of integers with each other, all with all; where
// there are many of them the sum is one of f64, whose last bits are the integer.
static Value exponentField(const Doubles &d, Value k, bool many) {
  Value sum = many ? d.bits(d.add(k, d.f64(0x1.8p52 + 1023)))
                   : arith::AddIOp::create(d.b, arith::FPToSIOp::create(d.b, d.b.getI64Type(), k), d.i64(1023));
  return arith::ShLIOp::create(d.b, sum, d.i64(52));
}

Value altgrad::exponential(CodeBuilder &b, Value x, bool many) {
  Doubles d{b};
  // Adding and subtracting 1.5 * 2^52 rounds to an integer.
  Value shift = d.f64(0x1.8p52);
  Value k = d.sub(d.fma(x, d.f64(1.4426950408889634), shift), shift);
  Value negated = b.negF(k);
  Value r = d.fma(negated, d.f64(ln2Low), d.fma(negated, d.f64(ln2High), x));
  SmallVector<double> taylor;
  double factorial = 1.0;
  for (int i = 0; i <= 13; ++i) {
    taylor.insert(taylor.begin(), 1.0 / factorial);
    factorial *= i + 1;
  }
  Value p = d.polynomial(r, taylor);
  // 2^k as two factors by their exponent fields: the second product rounds once where
  // the result is subnormal or too large, as it is from ln(2^1024) = 709.78 on.
  Value low = d.less(x, d.f64(-746.0)), high = d.less(d.f64(710.0), x);
  Value safe = d.choose(low, d.f64(0.0), d.choose(high, d.f64(0.0), k));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  safe = d.choose(isNan, d.f64(0.0), safe);
  Value half = d.sub(d.fma(safe, d.f64(0.5), shift), shift);
  Value scaled = p;
  for (Value power : {half, d.sub(safe, half)})
    scaled = d.mul(scaled, d.number(exponentField(d, power, many)));
  Value result = d.choose(low, d.f64(0.0), scaled);
  return d.choose(high, d.f64(std::numeric_limits<double>::infinity()), result);
}

Value altgrad::logarithm(CodeBuilder &b, Value x) {
  Doubles d{b};
  Value raw = d.bits(x);
  Value exponent = b.sub(b.right(raw, d.i64(52)), d.i64(1023));
  Value mantissa = b.either(b.both(raw, d.i64(0x000fffffffffffff)), d.i64(0x3ff0000000000000));
  Value m = d.number(mantissa);
  // m in (0.7, 1.42], so that the series converges fast.
  Value large = d.less(d.f64(1.4142135623730951), m);
  m = d.choose(large, d.mul(m, d.f64(0.5)), m);
  Value k = arith::SIToFPOp::create(b, b.getF64Type(), exponent);
  k = d.choose(large, d.add(k, d.f64(1.0)), k);
  Value s = d.div(d.sub(m, d.f64(1.0)), d.add(m, d.f64(1.0)));
  Value z = d.mul(s, s);
  SmallVector<double> series;
  for (int i = 0; i <= 10; ++i)
    series.insert(series.begin(), 2.0 / (2 * i + 1));
  Value p = d.mul(s, d.polynomial(z, series));
  Value result = d.fma(k, d.f64(ln2High), d.fma(k, d.f64(ln2Low), p));
  // Subnormals count as 0: a logarithm of a hyper-parameter never meets one.
  Value infinity = d.f64(std::numeric_limits<double>::infinity());
  Value nan = d.f64(std::numeric_limits<double>::quiet_NaN());
  result = d.choose(d.less(x, infinity), result, x);
  result = d.choose(d.less(x, d.f64(0x1p-1022)), b.negF(infinity), result);
  return d.choose(d.less(x, d.f64(0.0)), nan, result);
}

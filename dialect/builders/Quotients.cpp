// The sequences that tests/numeric/quotients.cpp proves.
//
// Without .ftz, ptxas would scale subnormal numbers around an approximation. A
// residual is taken as d*q - n, not n - d*q: what it adds to q = ±0 is then a
// zero of the other sign's, and a numerator of either zero needs no choice.
#include "dialect/builders/Quotients.h"

#include "dialect/builders/Instructions.h"
#include "dialect/builders/Integers.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace altgrad;

static Value all(CodeBuilder &b, Value like, float number) { return b.f32(number, like.getType()); }

static Value each(CodeBuilder &b, StringRef name, ValueRange operands) {
  return scalarize(b, operands[0].getType(), operands,
                   [&](ValueRange own) { return intrinsic(b, name, b.getF32Type(), own); });
}

Value altgrad::uniformQuotient(CodeBuilder &b, Value n, Value d, Value z) {
  Value q = b.mulF(n, z);
  return b.fma(b.negF(z), b.fma(d, q, b.negF(n)), q);
}

Value altgrad::quotient(CodeBuilder &b, Value n, Value d, bool anySign) {
  Value r = scalarize(b, d.getType(), d, [&](ValueRange own) -> Value {
    return NVVM::RcpApproxFtzF32Op::create(b, b.getF32Type(), own[0]);
  });
  // With r (1 + t) alone, or with t + t^2 to nearest, 1 / d would be rounded
  // wrongly for some divisors just below a power of two, and a quotient of
  // each.
  Value t = b.fma(b.negF(d), r, all(b, d, 1));
  Value more = each(b, "llvm.nvvm.fma.rp.f", {t, t, t});
  Value y = b.fma(r, more, r);
  Value q = b.mulF(n, y);
  Value better = b.fma(b.negF(y), b.fma(d, q, b.negF(n)), q);
  if (!anySign)
    return better;
  return b.select(b.compareF(arith::CmpFPredicate::OEQ, q, all(b, q, 0)), q, better);
}

Value altgrad::squareRoot(CodeBuilder &b, Value x) {
  // Changes 0 alone, whose root would be 0 times infinity.
  Value some = b.addF(x, all(b, x, 0x1p-126f));
  Value r = each(b, "llvm.nvvm.rsqrt.approx.ftz.f", some);
  Value s = b.mulF(x, r), h = b.mulF(r, all(b, x, 0.5f));
  Value error = b.fma(b.negF(h), s, all(b, x, 0.5f));
  s = b.fma(s, error, s);
  h = b.fma(h, error, h);
  return b.fma(b.fma(b.negF(s), s, x), h, s);
}

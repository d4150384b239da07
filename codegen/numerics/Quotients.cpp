// The sequences that tests/numeric/quotients.cpp proves.
//
// Without .ftz, ptxas would scale subnormal numbers around an approximation. A
// residual is taken as d*q - n, not n - d*q: what it adds to q = ±0 is then a
// zero of the other sign's, and a numerator of either zero needs no choice.
#include "codegen/numerics/Quotients.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct Floats {
  CodeBuilder &b;
  VectorType type;

  Value splat(float value) const { return arith::ConstantOp::create(b, DenseElementsAttr::get(type, value)); }
  Value mul(Value x, Value y) const { return b.mulF(x, y); }
  Value negated(Value x) const { return b.negF(x); }
  Value fma(Value x, Value y, Value z) const { return b.fma(x, y, z); }
  Value each(StringRef intrinsic, ValueRange operands) const {
    SmallVector<Value> all;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      SmallVector<Value> own;
      for (Value x : operands)
        own.push_back(b.element(x, i));
      all.push_back(
          LLVM::CallIntrinsicOp::create(b, type.getElementType(), b.getStringAttr(intrinsic), own).getResult(0));
    }
    return b.vectorOf(type, all);
  }
};
} // namespace

static Floats floatsOf(CodeBuilder &b, Value x) { return {b, cast<VectorType>(x.getType())}; }

Value altgrad::uniformQuotient(CodeBuilder &b, Value n, Value d, Value z) {
  Floats f = floatsOf(b, n);
  Value q = f.mul(n, z);
  return f.fma(f.negated(z), f.fma(d, q, f.negated(n)), q);
}

Value altgrad::quotient(CodeBuilder &b, Value n, Value d, bool anySign) {
  Floats f = floatsOf(b, n);
  Value r = f.each("llvm.nvvm.rcp.approx.ftz.f", d);
  // With r (1 + t) alone, or with t + t^2 to nearest, 1 / d would be rounded
  // wrongly for some divisors just below a power of two, and a quotient of
  // each.
  Value t = f.fma(f.negated(d), r, f.splat(1.0f));
  Value more = f.each("llvm.nvvm.fma.rp.f", {t, t, t});
  Value y = f.fma(r, more, r);
  Value q = f.mul(n, y);
  Value better = f.fma(f.negated(y), f.fma(d, q, f.negated(n)), q);
  if (!anySign)
    return better;
  Value zero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, q, f.splat(0.0f));
  return b.choose(zero, q, better);
}

Value altgrad::squareRoot(CodeBuilder &b, Value x) {
  Floats f = floatsOf(b, x);
  // Changes 0 alone, whose root would be 0 times infinity.
  Value some = b.addF(x, f.splat(0x1p-126f));
  Value r = f.each("llvm.nvvm.rsqrt.approx.ftz.f", some);
  Value s = f.mul(x, r), h = f.mul(r, f.splat(0.5f));
  Value error = f.fma(f.negated(h), s, f.splat(0.5f));
  s = f.fma(s, error, s);
  h = f.fma(h, error, h);
  return f.fma(f.fma(f.negated(s), s, x), h, s);
}

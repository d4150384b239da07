// Functions of f32 ==> the arithmetic of ElementFunctions.h as operations, on a number or on a vector.
#include "codegen/numerics/ElementAngles.h"
#include "codegen/numerics/ElementPowers.h"
#include "codegen/numerics/Numerics.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace altgrad::element {
namespace {

struct Truth {
  CodeBuilder *b;
  Value value;
};

struct Word {
  CodeBuilder *b;
  Value value;
  Word like(uint32_t other) const { return {b, b->integer(value.getType(), other)}; }
};

struct Long {
  CodeBuilder *b;
  Value value;
};

struct Real {
  using Word = element::Word;
  CodeBuilder *b;
  Value value;
  Real like(float other) const { return {b, b->f32(other, value.getType())}; }
};

Type typeOf(Value value, Type element) { return withElementType(value.getType(), element); }

//===-- Numbers ------------------------------------------------------------------===//

Real operator+(Real x, Real y) { return {x.b, x.b->addF(x.value, y.value)}; }
Real operator-(Real x, Real y) { return {x.b, x.b->subF(x.value, y.value)}; }
Real operator*(Real x, Real y) { return {x.b, x.b->mulF(x.value, y.value)}; }
Real operator/(Real x, Real y) { return {x.b, x.b->divF(x.value, y.value)}; }
Real operator-(Real x) { return {x.b, x.b->negF(x.value)}; }
Real operator+(Real x, float y) { return x + x.like(y); }
Real operator-(Real x, float y) { return x - x.like(y); }
Real operator*(Real x, float y) { return x * x.like(y); }
Real operator/(float x, Real y) { return y.like(x) / y; }
Real fused(Real x, Real y, Real z) { return {x.b, x.b->fma(x.value, y.value, z.value)}; }
Real root(Real x) { return {x.b, math::SqrtOp::create(*x.b, x.value)}; }
Real magnitude(Real x) { return {x.b, x.b->absF(x.value)}; }

Truth compared(arith::CmpFPredicate how, Real x, Real y) { return {x.b, x.b->compareF(how, x.value, y.value)}; }
Truth operator<(Real x, Real y) { return compared(arith::CmpFPredicate::OLT, x, y); }
Truth operator>(Real x, Real y) { return compared(arith::CmpFPredicate::OGT, x, y); }
Truth operator==(Real x, Real y) { return compared(arith::CmpFPredicate::OEQ, x, y); }
Truth operator<(Real x, float y) { return x < x.like(y); }
Truth operator>(Real x, float y) { return x > x.like(y); }
Truth operator==(Real x, float y) { return x == x.like(y); }

template <typename T> T choose(Truth which, T x, T y) { return {x.b, x.b->select(which.value, x.value, y.value)}; }

//===-- Words --------------------------------------------------------------------===//

Word bits(Real x) { return {x.b, x.b->cast(typeOf(x.value, x.b->getI32Type()), x.value)}; }
Real number(Word x) { return {x.b, x.b->cast(typeOf(x.value, x.b->getF32Type()), x.value)}; }
Real toReal(Word x) { return {x.b, arith::SIToFPOp::create(*x.b, typeOf(x.value, x.b->getF32Type()), x.value)}; }

Word operator+(Word x, Word y) { return {x.b, x.b->add(x.value, y.value)}; }
Word operator-(Word x, Word y) { return {x.b, x.b->sub(x.value, y.value)}; }
Word operator*(Word x, uint32_t y) { return {x.b, x.b->mul(x.value, x.like(y).value)}; }
Word operator&(Word x, Word y) { return {x.b, x.b->bitAnd(x.value, y.value)}; }
Word operator|(Word x, Word y) { return {x.b, x.b->bitOr(x.value, y.value)}; }
Word operator^(Word x, Word y) { return {x.b, x.b->bitXor(x.value, y.value)}; }
Word operator<<(Word x, Word by) { return {x.b, x.b->shiftLeft(x.value, by.value)}; }
Word operator>>(Word x, Word by) { return {x.b, x.b->shiftRight(x.value, by.value)}; }
Word operator+(Word x, uint32_t y) { return x + x.like(y); }
Word operator-(Word x, uint32_t y) { return x - x.like(y); }
Word operator-(uint32_t x, Word y) { return y.like(x) - y; }
Word operator&(Word x, uint32_t y) { return x & x.like(y); }
Word operator|(Word x, uint32_t y) { return x | x.like(y); }
Word operator^(Word x, uint32_t y) { return x ^ x.like(y); }
Word operator<<(Word x, uint32_t by) { return x << x.like(by); }
Word operator>>(Word x, uint32_t by) { return x >> x.like(by); }
Word shiftSigned(Word x, unsigned by) { return {x.b, x.b->shiftRightSigned(x.value, x.like(by).value)}; }
Truth less(Word x, uint32_t y) { return {x.b, x.b->less(x.value, x.like(y).value)}; }
Truth equal(Word x, uint32_t y) { return {x.b, x.b->equal(x.value, x.like(y).value)}; }

//===-- Words of 64 bits -----------------------------------------------------------===//

Long wide(Word x) { return {x.b, x.b->extendUnsigned(typeOf(x.value, x.b->getI64Type()), x.value)}; }
Long product(Word x, Word y) { return {x.b, x.b->mul(wide(x).value, wide(y).value)}; }
Long operator+(Long x, Long y) { return {x.b, x.b->add(x.value, y.value)}; }
Long operator<<(Long x, unsigned by) { return {x.b, x.b->shiftLeft(x.value, x.b->integer(x.value.getType(), by))}; }
Word lowWord(Long x) { return {x.b, x.b->truncate(typeOf(x.value, x.b->getI32Type()), x.value)}; }
Word highWord(Long x) {
  return lowWord(Long{x.b, x.b->shiftRight(x.value, x.b->integer(x.value.getType(), 32))});
}

} // namespace
} // namespace altgrad::element

using namespace altgrad;
using element::Real;

Value altgrad::lowerElementFunction(CodeBuilder &b, Operation *op) {
  if (op->getNumResults() != 1 || !getElementTypeOrSelf(op->getResult(0)).isF32())
    return {};
  auto one = [&](Real (*function)(Real)) { return function({&b, op->getOperand(0)}).value; };
  auto two = [&](Real (*function)(Real, Real)) {
    return function({&b, op->getOperand(0)}, {&b, op->getOperand(1)}).value;
  };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return one(element::exponential); })
      .Case([&](math::Exp2Op) { return one(element::exp2); })
      .Case([&](math::ExpM1Op) { return one(element::expm1); })
      .Case([&](math::LogOp) { return one(element::logarithm); })
      .Case([&](math::Log2Op) { return one(element::log2); })
      .Case([&](math::Log1pOp) { return one(element::log1p); })
      .Case([&](math::PowFOp) { return two(element::pow); })
      .Case([&](math::RsqrtOp) { return one(element::rsqrt); })
      .Case([&](math::CbrtOp) { return one(element::cbrt); })
      .Case([&](math::TanhOp) { return one(element::tanh); })
      .Case([&](SigmoidOp) { return one(element::sigmoid); })
      .Case([&](SoftplusOp) { return one(element::softplus); })
      .Case([&](math::ErfOp) { return one(element::erf); })
      .Case([&](math::SinOp) { return one(element::sin); })
      .Case([&](math::CosOp) { return one(element::cos); })
      .Case([&](math::Atan2Op) { return two(element::atan2); })
      .Default(Value());
}

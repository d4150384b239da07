// Functions of f32 ==> the arithmetic of ElementFunctions.h as operations, on a number or on a vector.
#include "codegen/numerics/ElementAngles.h"
#include "codegen/numerics/ElementPowers.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/Arithmetic.h"
#include "llvm/ADT/StringSwitch.h"

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

Type getTypeLike(Value value, Type element) { return withElementType(value.getType(), element); }

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

Word bits(Real x) { return {x.b, x.b->cast(getTypeLike(x.value, x.b->getI32Type()), x.value)}; }
Real number(Word x) { return {x.b, x.b->cast(getTypeLike(x.value, x.b->getF32Type()), x.value)}; }
Real toReal(Word x) { return {x.b, arith::SIToFPOp::create(*x.b, getTypeLike(x.value, x.b->getF32Type()), x.value)}; }

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

Long wide(Word x) { return {x.b, x.b->extendUnsigned(getTypeLike(x.value, x.b->getI64Type()), x.value)}; }
Long product(Word x, Word y) { return {x.b, x.b->mul(wide(x).value, wide(y).value)}; }
Long operator+(Long x, Long y) { return {x.b, x.b->add(x.value, y.value)}; }
Long operator<<(Long x, unsigned by) { return {x.b, x.b->shiftLeft(x.value, x.b->integer(x.value.getType(), by))}; }
Word lowWord(Long x) { return {x.b, x.b->truncate(getTypeLike(x.value, x.b->getI32Type()), x.value)}; }
Word highWord(Long x) { return lowWord(Long{x.b, x.b->shiftRight(x.value, x.b->integer(x.value.getType(), 32))}); }

} // namespace
} // namespace altgrad::element

using namespace altgrad;
using element::Real;

Value altgrad::lowerElementFunction(CodeBuilder &b, Operation *op) {
  using One = Real (*)(Real);
  using Two = Real (*)(Real, Real);
  StringRef name = getRowName(*op);
  if (One one = llvm::StringSwitch<One>(name)
                    .Case("math.exp", element::exponential)
                    .Case("math.exp2", element::exp2)
                    .Case("math.expm1", element::expm1)
                    .Case("math.log", element::logarithm)
                    .Case("math.log2", element::log2)
                    .Case("math.log1p", element::log1p)
                    .Case("math.rsqrt", element::rsqrt)
                    .Case("math.cbrt", element::cbrt)
                    .Case("math.tanh", element::tanh)
                    .Case("altgrad.sigmoid", element::sigmoid)
                    .Case("altgrad.softplus", element::softplus)
                    .Case("math.erf", element::erf)
                    .Case("math.sin", element::sin)
                    .Case("math.cos", element::cos)
                    .Default(nullptr))
    return one({&b, op->getOperand(0)}).value;
  if (Two two = llvm::StringSwitch<Two>(name)
                    .Case("math.powf", element::pow)
                    .Case("math.atan2", element::atan2)
                    .Default(nullptr))
    return two({&b, op->getOperand(0)}, {&b, op->getOperand(1)}).value;
  return {};
}

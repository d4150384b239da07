// How partial sums begin, grow and join.
#include "codegen/common/Reductions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

Type altgrad::partialType(Reduction kind, Type element) {
  Type scalar = kind == Reduction::And ? Type(IntegerType::get(element.getContext(), 32))
                                       : Float32Type::get(element.getContext());
  if (auto vector = dyn_cast<VectorType>(element))
    return VectorType::get(vector.getShape(), scalar);
  return scalar;
}

Value altgrad::neutral(CodeBuilder &builder, Reduction kind, Type type) {
  TypedAttr scalar;
  if (kind == Reduction::And)
    scalar = builder.getI32IntegerAttr(-1);
  else
    scalar = builder.getF32FloatAttr(
        kind == Reduction::Max || kind == Reduction::AbsMax ? -std::numeric_limits<float>::infinity() : 0.f);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(builder, DenseElementsAttr::get(vector, Attribute(scalar)));
  return arith::ConstantOp::create(builder, scalar);
}

// Behind the flag: a predicate that waits for its sum is one that ptxas has no register for.
static Value oneIf(CodeBuilder &builder, Value flag, Type type) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(flag);
  TypedAttr one = builder.getF32FloatAttr(1);
  if (auto vector = dyn_cast<VectorType>(type))
    one = DenseElementsAttr::get(vector, Attribute(one));
  return builder.choose(flag, arith::ConstantOp::create(builder, one),
                        arith::ConstantOp::create(builder, builder.getZeroAttr(type)));
}

Value altgrad::accumulate(CodeBuilder &builder, Reduction kind, Value partial, Value element) {
  if (kind == Reduction::SumSq)
    return builder.fma(element, element, partial);
  if (kind == Reduction::AbsMax)
    element = builder.absF(element);
  if (kind == Reduction::Count)
    element = oneIf(builder, element, partial.getType());
  if (kind == Reduction::And)
    element = builder.widenSigned(partial.getType(), element);
  return join(builder, kind, partial, element);
}

// Magnitudes have no sign: their bits have their order, a NaN comes last, and a maximum is
// one instruction.
static Value largerOfBits(CodeBuilder &builder, Value a, Value b) {
  Type type = builder.getI32Type();
  if (auto vector = dyn_cast<VectorType>(a.getType()))
    type = VectorType::get(vector.getShape(), type);
  Value most = builder.most(builder.cast(type, a), builder.cast(type, b));
  return builder.cast(a.getType(), most);
}

Value altgrad::join(CodeBuilder &builder, Reduction kind, Value a, Value b) {
  switch (kind) {
  case Reduction::Add:
  case Reduction::SumSq:
  case Reduction::Count:
    return builder.addF(a, b);
  case Reduction::Max:
    return builder.mostF(a, b);
  case Reduction::AbsMax:
    return largerOfBits(builder, a, b);
  case Reduction::And:
    return builder.both(a, b);
  }
  llvm_unreachable("unknown reduction");
}

bool altgrad::isOrdered(Reduction kind) { return kind == Reduction::Add || kind == Reduction::SumSq; }

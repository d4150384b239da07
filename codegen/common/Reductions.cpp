// How partial sums begin, grow and join.
#include "codegen/common/Reductions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

Type altgrad::partialType(Reduction kind, Type element) {
  Type scalar = kind == Reduction::And
                    ? Type(IntegerType::get(element.getContext(), 32))
                    : Float32Type::get(element.getContext());
  if (auto vector = dyn_cast<VectorType>(element))
    return VectorType::get(vector.getShape(), scalar);
  return scalar;
}

Value altgrad::neutral(ImplicitLocOpBuilder &builder, Reduction kind,
                       Type type) {
  TypedAttr scalar;
  if (kind == Reduction::And)
    scalar = builder.getI32IntegerAttr(-1);
  else
    scalar = builder.getF32FloatAttr(
        kind == Reduction::Max || kind == Reduction::AbsMax ? -std::numeric_limits<float>::infinity() : 0.f);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(
        builder, DenseElementsAttr::get(vector, Attribute(scalar)));
  return arith::ConstantOp::create(builder, scalar);
}

// Behind the flag: a predicate that waits for its sum is one that ptxas has no register for.
static Value oneIf(ImplicitLocOpBuilder &builder, Value flag, Type type) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(flag);
  TypedAttr one = builder.getF32FloatAttr(1);
  if (auto vector = dyn_cast<VectorType>(type))
    one = DenseElementsAttr::get(vector, Attribute(one));
  return arith::SelectOp::create(builder, flag, arith::ConstantOp::create(builder, one),
                                 arith::ConstantOp::create(builder, builder.getZeroAttr(type)));
}

Value altgrad::accumulate(ImplicitLocOpBuilder &builder, Reduction kind,
                          Value partial, Value element) {
  if (kind == Reduction::SumSq)
    return math::FmaOp::create(builder, element, element, partial);
  if (kind == Reduction::AbsMax)
    element = math::AbsFOp::create(builder, element);
  if (kind == Reduction::Count)
    element = oneIf(builder, element, partial.getType());
  if (kind == Reduction::And)
    element = arith::ExtSIOp::create(builder, partial.getType(), element);
  return join(builder, kind, partial, element);
}

// Magnitudes have no sign: their bits have their order, a NaN comes last, and a maximum is
// one instruction.
static Value largerOfBits(ImplicitLocOpBuilder &builder, Value a, Value b) {
  Type type = builder.getI32Type();
  if (auto vector = dyn_cast<VectorType>(a.getType()))
    type = VectorType::get(vector.getShape(), type);
  Value most = arith::MaxSIOp::create(
      builder, arith::BitcastOp::create(builder, type, a),
      arith::BitcastOp::create(builder, type, b));
  return arith::BitcastOp::create(builder, a.getType(), most);
}

Value altgrad::join(ImplicitLocOpBuilder &builder, Reduction kind, Value a,
                    Value b) {
  switch (kind) {
  case Reduction::Add:
  case Reduction::SumSq:
  case Reduction::Count:
    return arith::AddFOp::create(builder, a, b);
  case Reduction::Max:
    return arith::MaximumFOp::create(builder, a, b);
  case Reduction::AbsMax:
    return largerOfBits(builder, a, b);
  case Reduction::And:
    return arith::AndIOp::create(builder, a, b);
  }
  llvm_unreachable("unknown reduction");
}

bool altgrad::isOrdered(Reduction kind) {
  return kind == Reduction::Add || kind == Reduction::SumSq;
}

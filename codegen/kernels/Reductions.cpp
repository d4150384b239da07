// How partial sums begin, grow and join.
#include "codegen/kernels/Reductions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

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
        kind == Reduction::Max ? -std::numeric_limits<float>::infinity() : 0.f);
  if (auto vector = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(
        builder, DenseElementsAttr::get(vector, Attribute(scalar)));
  return arith::ConstantOp::create(builder, scalar);
}

Value altgrad::accumulate(ImplicitLocOpBuilder &builder, Reduction kind,
                          Value partial, Value element) {
  if (kind == Reduction::SumSq)
    return math::FmaOp::create(builder, element, element, partial);
  if (kind == Reduction::And)
    element = arith::ExtSIOp::create(builder, partial.getType(), element);
  return join(builder, kind, partial, element);
}

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
                    Value b, bool magnitudes) {
  switch (kind) {
  case Reduction::Add:
  case Reduction::SumSq:
    return arith::AddFOp::create(builder, a, b);
  case Reduction::Max:
    return magnitudes ? largerOfBits(builder, a, b)
                      : Value(arith::MaximumFOp::create(builder, a, b));
  case Reduction::And:
    return arith::AndIOp::create(builder, a, b);
  }
  llvm_unreachable("unknown reduction");
}

bool altgrad::isOrdered(Reduction kind) {
  return kind == Reduction::Add || kind == Reduction::SumSq;
}

bool altgrad::isOrdered(SweepOp sweep, unsigned result) {
  Value emitted = sweep.getBody().front().getTerminator()->getOperand(result);
  auto chosen = emitted.getDefiningOp<arith::SelectOp>();
  bool counts = chosen && matchPattern(chosen.getTrueValue(), m_OneFloat()) &&
                matchPattern(chosen.getFalseValue(), m_PosZeroFloat());
  return isOrdered(sweep.getReduction(result)) && !counts;
}

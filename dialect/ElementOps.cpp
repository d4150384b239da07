// Text and verification of the element form between step and sweep.
#include "dialect/Dialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace altgrad;

// A number is f32, its code what the format says; both vectors of one length.
static LogicalResult verifyConversion(Operation *op, Type number, Type code,
                                      FormatAttr format) {
  auto vector = dyn_cast<VectorType>(number);
  Type expectedNumber = Float32Type::get(op->getContext());
  Type expectedCode = format.getCodeType();
  if (vector) {
    // conversion_c1
    if (vector.getRank() != 1 || vector.isScalable())
      return op->emitOpError()
             << "converts " << number << ", expected f32 or a vector of it";
    expectedNumber = VectorType::get(vector.getShape(), expectedNumber);
    expectedCode = VectorType::get(vector.getShape(), expectedCode);
  }
  // conversion_c2
  if (number != expectedNumber || code != expectedCode)
    return op->emitOpError()
           << "converts between " << code << " and " << number << ", expected "
           << expectedCode << " and " << expectedNumber;
  return success();
}

LogicalResult DecodeOp::verify() {
  return verifyConversion(*this, getNumber().getType(), getCode().getType(),
                          getFormat());
}

LogicalResult EncodeOp::verify() {
  Type draw = getDraw() ? getDraw().getType() : Type();
  Type expected;
  if (getRounding() == Round::Stochastic && !getFormat().isF32()) {
    bool wide = draw && getElementTypeOrSelf(draw).isInteger(32);
    expected = IntegerType::get(getContext(), wide ? 32 : 16);
    if (auto vector = dyn_cast<VectorType>(getNumber().getType()))
      expected = VectorType::get(vector.getShape(), expected);
  }
  // encode_c1
  if (draw != expected ||
      ((getFormat().isF32() || getFormat().isBook()) &&
       getRounding() != Round::NearestEven))
    return emitOpError() << "rounds " << stringifyRound(getRounding()) << " to "
                         << getFormat() << " with " << (draw ? "a" : "no")
                         << " draw";
  return verifyConversion(*this, getNumber().getType(), getCode().getType(),
                          getFormat());
}

LogicalResult DrawOp::verify() {
  // draw_c1
  if (getStore() < 0 || getStore() > 255)
    return emitOpError() << "is for store " << getStore()
                         << ", a number of 0 to 255";
  return success();
}

LogicalResult CollectOp::verify() {
  Type element = getElement().getType();
  if (isa<RealsType>(getList().getType()) && element.isF32())
    return success();
  auto tensors = dyn_cast<TensorsType>(getList().getType());
  // collect_c1
  if (!tensors || element != tensors.getFormat().getCodeType() || getFactor())
    return emitOpError() << "collects " << element << " to "
                         << getList().getType();
  return success();
}

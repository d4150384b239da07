// Verification of the element form between step and sweep, and of what is stored in two lists.
#include "dialect/Arithmetic.h"
#include "dialect/Codecs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace altgrad;

Type altgrad::withElementType(Type shape, Type element) {
  auto vector = dyn_cast<VectorType>(shape);
  bool isRow = vector && vector.getRank() == 1 && !vector.isScalable();
  return isRow ? VectorType::get(vector.getShape(), element) : element;
}

// A number is f32, its code what the format says; both vectors of one length.
static LogicalResult verifyConversion(Operation *op, Type number, Type code, FormatAttr format) {
  auto vector = dyn_cast<VectorType>(number);
  // conversion_c1
  if (vector && (vector.getRank() != 1 || vector.isScalable()))
    return op->emitOpError() << "converts " << number << ", expected f32 or a vector of it";
  Type expectedNumber = withElementType(number, Float32Type::get(op->getContext()));
  Type expectedCode = withElementType(number, format.getCodeType());
  // conversion_c2
  if (number != expectedNumber || code != expectedCode)
    return op->emitOpError() << "converts between " << code << " and " << number << ", expected " << expectedCode
                             << " and " << expectedNumber;
  return success();
}

LogicalResult DecodeOp::verify() {
  return verifyConversion(*this, getNumber().getType(), getCode().getType(), getFormat());
}

// Of a draw, or null where there is none.
static Type drawFor(Round rounding, Value draw, Type number) {
  if (rounding != Round::Stochastic)
    return {};
  bool wide = draw && getElementTypeOrSelf(draw).isInteger(32);
  return withElementType(number, IntegerType::get(number.getContext(), wide ? 32 : 16));
}

static Type getDrawType(Value draw) { return draw ? draw.getType() : Type(); }

LogicalResult EncodeOp::verify() {
  bool exact = getCodecFacts(getFormat()).nearestOnly;
  // encode_c1
  if (getDrawType(getDraw()) != drawFor(getRounding(), getDraw(), getNumber().getType()) ||
      (exact && getRounding() != Round::NearestEven))
    return emitOpError() << "rounds " << stringifyRound(getRounding()) << " to " << getFormat() << " with "
                         << (getDraw() ? "a" : "no") << " draw";
  return verifyConversion(*this, getNumber().getType(), getCode().getType(), getFormat());
}

LogicalResult AdvanceCodeOp::verify() {
  // advance_code_c1
  if (!getCodecFacts(getFormat()).isSignMagnitude)
    return emitOpError() << "moves codes of " << getFormat()
                         << ", expected a format with a sign, a magnitude and at most 8 bits";
  // advance_code_c2
  if (getDrawType(getDraw()) != drawFor(getRounding(), getDraw(), getCode().getType()))
    return emitOpError() << "rounds " << stringifyRound(getRounding()) << " with " << (getDraw() ? "a" : "no")
                         << " draw";
  return success();
}

LogicalResult FunctionOp::verify() {
  Type type = getResult().getType();
  // function_c1
  if (!isKeptFunction(getFunction()) || (type.isF64() && findAllowedOperation(getFunction())->facts.isF32))
    return emitOpError() << "computes " << getFunction() << " in " << type
                         << ", expected a function of math that rules may hold";
  unsigned count = llvm::is_contained({"math.powf", "math.atan2", "math.copysign"}, getFunction()) ? 2 : 1;
  // function_c2
  if (getNumbers().size() != count)
    return emitOpError() << "has " << getNumbers().size() << " operands for " << getFunction() << ", expected "
                         << count;
  return success();
}

LogicalResult DrawOp::verify() {
  // draw_c1
  if (getStore() < 0 || getStore() > 255)
    return emitOpError() << "is for store " << getStore() << ", a number of 0 to 255";
  return success();
}

LogicalResult RandomOp::verify() {
  // random_c1
  if (getKey() < 0 || getKey() > maxKey)
    return emitOpError() << "has the key " << getKey() << ", a number of 0 to " << maxKey;
  return success();
}

LogicalResult CollectOp::verify() {
  Type element = getElement().getType();
  if (isa<RealsType>(getList().getType()) && element.isF32())
    return success();
  auto tensors = dyn_cast<TensorsType>(getList().getType());
  // collect_c1
  if (!tensors || element != tensors.getFormat().getCodeType() || getFactor())
    return emitOpError() << "collects " << element << " to " << getList().getType();
  return success();
}

//===-- Masters in two lists --------------------------------------------------===//

static LogicalResult verifyLists(Operation *op, TensorsType upper, TensorsType lower) {
  StringRef rest = lower.getFormat().getKnownName();
  // split_c1
  if (upper.getFormat().getKnownName() != "bf16" || upper.isShared() || (rest != "int16" && rest != "int8") ||
      lower.isShared())
    return op->emitOpError() << "has parts of " << upper << " and " << lower << ", expected bf16 and int16 or int8";
  return success();
}

LogicalResult JoinOp::verify() { return verifyLists(*this, getUpper().getType(), getLower().getType()); }

LogicalResult SplitOp::verify() { return verifyLists(*this, getUpper().getType(), getLower().getType()); }

// A number is an f32, or as many of them as there are codes of each half.
static LogicalResult verifyHalf(Operation *op, Type number, Type half, bool isLower = false) {
  Builder builder(op->getContext());
  bool fits = half == withElementType(number, builder.getI16Type()) ||
              (isLower && half == withElementType(number, builder.getI8Type()));
  // part_c1
  if (number != withElementType(number, builder.getF32Type()) || !fits)
    return op->emitOpError() << "has a number of " << number << " with a half of " << half << ", expected f32 and "
                             << (isLower ? "i16 or i8" : "i16");
  return success();
}

LogicalResult UpperCodeOp::verify() { return verifyHalf(*this, getNumber().getType(), getCode().getType()); }

LogicalResult LowerCodeOp::verify() {
  return verifyHalf(*this, getNumber().getType(), getCode().getType(), /*isLower=*/true);
}

LogicalResult JoinCodesOp::verify() {
  Type number = getNumber().getType();
  return failure(verifyHalf(*this, number, getUpper().getType()).failed() ||
                 verifyHalf(*this, number, getLower().getType(), /*isLower=*/true).failed());
}

// Verification of what is stored in two lists.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace altgrad;

static LogicalResult verifyLists(Operation *op, TensorsType upper,
                                 TensorsType lower) {
  // split_c1
  if (upper.getFormat().getKnownName() != "bf16" || upper.getBlock() != 1 ||
      lower.getFormat().getKnownName() != "int16" || lower.getBlock() != 1)
    return op->emitOpError() << "has parts of " << upper << " and " << lower
                             << ", expected bf16 and int16";
  return success();
}

LogicalResult JoinOp::verify() {
  return verifyLists(*this, getUpper().getType(), getLower().getType());
}

LogicalResult SplitOp::verify() {
  return verifyLists(*this, getUpper().getType(), getLower().getType());
}

// A number is an f32, or as many of them as there are codes of each half.
static LogicalResult verifyHalves(Operation *op, Type number,
                                  TypeRange halves) {
  Type f32 = Float32Type::get(op->getContext());
  Type half = IntegerType::get(op->getContext(), 16);
  if (auto vector = dyn_cast<VectorType>(number);
      vector && vector.getRank() == 1 && !vector.isScalable()) {
    f32 = VectorType::get(vector.getShape(), f32);
    half = VectorType::get(vector.getShape(), half);
  }
  auto fits = [&](Type type) { return type == half; };
  // part_c1
  if (number != f32 || !llvm::all_of(halves, fits))
    return op->emitOpError() << "has a number of " << number << " with halves of "
                             << halves << ", expected f32 and i16";
  return success();
}

LogicalResult UpperCodeOp::verify() {
  return verifyHalves(*this, getNumber().getType(), getCode().getType());
}

LogicalResult LowerCodeOp::verify() {
  return verifyHalves(*this, getNumber().getType(), getCode().getType());
}

LogicalResult JoinCodesOp::verify() {
  return verifyHalves(*this, getNumber().getType(), getOperandTypes());
}

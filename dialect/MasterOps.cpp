// Verification of what is stored in two lists.
#include "dialect/Dialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace altgrad;

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
  bool fits =
      half == likeShape(number, builder.getI16Type()) || (isLower && half == likeShape(number, builder.getI8Type()));
  // part_c1
  if (number != likeShape(number, builder.getF32Type()) || !fits)
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

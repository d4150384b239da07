// Verification of matrices and their products.
#include "dialect/Coefficients.h"
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

Type altgrad::getSquareType(Type type) {
  if (auto tensors = dyn_cast<TensorsType>(type))
    return SquaresType::get(type.getContext(), tensors.getFormat());
  return type;
}

// Whether products may have operands of this format.
static bool isOperandFormat(FormatAttr format) {
  return llvm::is_contained({"bf16", "f16", "f32"}, format.getKnownName());
}

// `matrix` becomes `collect`.
static bool isMatrix(Value value) {
  return isa_and_nonnull<MatrixOp, ProductOp, SelectByAspectOp, CollectOp>(value.getDefiningOp());
}

LogicalResult MatrixOp::verify() {
  TensorsType type = getMatrix().getType();
  // matrix_c1
  if (!isOperandFormat(type.getFormat()) || type.isShared())
    return emitOpError() << "is of " << type << "; products take bf16, f16 or f32, with a code for each element";
  return success();
}

LogicalResult EntryOp::verify() {
  // entry_c1
  if (!isMatrix(getMatrix()))
    return emitOpError("is of a list that no altgrad.matrix or altgrad.product gives");
  return success();
}

LogicalResult GramOp::verify() {
  // gram_c1
  if (!isMatrix(getMatrix()))
    return emitOpError("multiplies a list that no altgrad.matrix or altgrad.product gives");
  return success();
}

LogicalResult ProductOp::verify() {
  for (Value operand : {getRight(), getAdded()})
    // product_c1
    if (operand && isa<TensorsType>(operand.getType()) && !isMatrix(operand))
      return emitOpError("multiplies a list that no altgrad.matrix or altgrad.product gives");
  // product_c2
  if (!getFactor().isFinite() || !getWeight().isFinite() || !getShift().isFinite())
    return emitOpError("has a factor that is not finite");
  auto square = dyn_cast<SquaresType>(getProduct().getType());
  // product_c3
  if (!getShift().isZero() && !(square && square.getFormat().isF32()))
    return emitOpError("is shifted, and is no square of f32");
  return success();
}

LogicalResult SelectByAspectOp::verify() {
  // select_by_aspect_c1
  if (!getElongated().getDefiningOp<ProductOp>() || !getOther().getDefiningOp<ProductOp>())
    return emitOpError("takes a list that no altgrad.product gives");
  // select_by_aspect_c2
  if (!getRatio().isFinite() || getRatio().convertToDouble() < 1)
    return emitOpError() << "is from " << getRatio().convertToDouble() << " on; a longer side is at least 1 times "
                         << "the shorter one";
  return success();
}

LogicalResult OrthogonalizeOp::verify() {
  // orthogonalize_c1
  if (!isOperandFormat(getFormat()))
    return emitOpError() << "is in " << getFormat().getKnownName() << "; products take bf16, f16 or f32";
  std::optional<CoefficientSet> set = readCoefficients(getCoefficients());
  // orthogonalize_c6
  if (getUnits() && getEqualRows())
    return emitOpError("makes the rows equal of each matrix of a stack; of a stack neither rows nor their states are "
                       "known, so give its matrices by themselves");
  // orthogonalize_c2
  if (!set)
    return emitOpError() << "has no known coefficients; write a name (" << coefficientNames()
                         << ") or rows of three numbers, [3.4445, -4.775, 2.0315]";
  // orthogonalize_c3
  if (!set->allows(getSteps()))
    return emitOpError() << "has " << getSteps() << " steps; these coefficients are for " << set->allowed();
  return success();
}

// Rows of numbers, or a name.
static Attribute readCoefficientWord(Builder &builder, StringRef text) {
  if (!text.contains('/'))
    return builder.getStringAttr(text);
  SmallVector<Attribute> rows;
  for (StringRef row : llvm::split(text, '|')) {
    SmallVector<Attribute> numbers;
    for (StringRef number : llvm::split(row, '/')) {
      double value;
      if (number.getAsDouble(value))
        return {};
      numbers.push_back(builder.getF64FloatAttr(value));
    }
    rows.push_back(builder.getArrayAttr(numbers));
  }
  return builder.getArrayAttr(rows);
}

std::optional<NamedAttribute> altgrad::readIterationWord(MLIRContext *context, StringRef word) {
  Builder builder(context);
  auto [key, text] = word.split('=');
  Attribute value;
  StringRef name = key == "in" ? "format" : key;
  int64_t steps;
  if (key == "steps" && !text.getAsInteger(10, steps))
    value = builder.getI64IntegerAttr(steps);
  else if (key == "in")
    value = FormatAttr::getNamed(context, text);
  else if (std::optional<Length> length = key == "length" ? symbolizeLength(text) : std::nullopt)
    value = LengthAttr::get(context, *length);
  else if (key == "coefficients")
    value = readCoefficientWord(builder, text);
  else if (std::optional<ShapeScale> scale = key == "scale" ? symbolizeShapeScale(text) : std::nullopt)
    return builder.getNamedAttr("by", ShapeScaleAttr::get(context, *scale));
  else if (word == "shape=transposed")
    return builder.getNamedAttr("transposed", builder.getUnitAttr());
  else if (word == "over=unit")
    return builder.getNamedAttr("units", builder.getUnitAttr());
  else if (word == "batches=none")
    return builder.getNamedAttr("alone", builder.getUnitAttr());
  else if (word == "equal=rows")
    return builder.getNamedAttr("equal_rows", builder.getUnitAttr());
  else if (word == "decay=cautious")
    return builder.getNamedAttr("cautious", builder.getUnitAttr());
  return value ? std::optional(builder.getNamedAttr(name, value)) : std::nullopt;
}

std::string altgrad::whyNotMatrix(Operation &op, const Variances &variances) {
  auto matrix = dyn_cast<MatrixOp>(op);
  // matrix_c2
  if (matrix && !variances.isElement(matrix.getElement()))
    return "makes a matrix of a value that is the same for all elements";
  auto orthogonalize = dyn_cast<OrthogonalizeOp>(op);
  // orthogonalize_c4
  if (orthogonalize && !variances.isElement(orthogonalize.getElement()))
    return "is of a value that is the same for all elements";
  // orthogonalize_c5
  if (orthogonalize && variances.isElement(orthogonalize.getEps()))
    return "has an eps that differs between elements";
  return "";
}

//===-- In phases -----------------------------------------------------------===//

LogicalResult MultiplyOp::verify() {
  for (Value list : getOperands())
    // multiply_c1
    if (!list.getDefiningOp<SpillOp>())
      return emitOpError("multiplies a list that is not in the workspace");
  // multiply_c2
  if (getInto() == getLeft() || getInto() == getRight())
    return emitOpError("overwrites what it multiplies");
  return success();
}

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
  return isa_and_nonnull<MatrixOp, ProductOp, MatmulOp, FactorizeOp, SelectByAspectOp, CollectOp>(
      value.getDefiningOp());
}

LogicalResult MatrixOp::verify() {
  TensorsType type = getMatrix().getType();
  const bool isOperand = type.isSquare() ? type.getFormat().isF32() : isOperandFormat(type.getFormat());
  // matrix_c1
  if (!isOperand || (type.isShared() && !type.isSquare()))
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
  if (!getShift().isZero() && (!square || square.getFormat().getKnownName() == "bf16"))
    return emitOpError("is shifted, and is no square of f16 or f32");
  return success();
}

//===-- Matrices that say their rows and columns --------------------------------===//

// How many rows and columns a matrix has: an extent of its tensor each.
static std::pair<Dimension, Dimension> getExtents(TensorsType type, bool transposed) {
  Dimension rows = Dimension::Rows, columns = Dimension::Columns;
  if (type.isSquare())
    (type.getBlock().isRowSquare() ? columns : rows) = type.getBlock().isRowSquare() ? rows : columns;
  return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
}

static std::string describeMatrix(TensorsType type, bool transposed) {
  auto [rows, columns] = getExtents(type, transposed);
  return (stringifyDimension(rows) + " x " + stringifyDimension(columns)).str();
}

TensorsType altgrad::getProductType(TensorsType left, bool leftTransposed, TensorsType right, bool rightTransposed) {
  auto [rows, inner] = getExtents(left, leftTransposed);
  auto [others, columns] = getExtents(right, rightTransposed);
  MLIRContext *context = left.getContext();
  if (inner != others || (rows == Dimension::Columns && columns == Dimension::Rows))
    return {};
  BlockAttr block =
      rows == columns ? BlockAttr::getSquare(context, rows == Dimension::Rows) : BlockAttr::get(context, 1, 1);
  return TensorsType::get(context, left.getFormat(), block, /*packed=*/false);
}

LogicalResult MatmulOp::verify() {
  for (Value operand : getOperands())
    // matmul_c1
    if (!isMatrix(operand))
      return emitOpError("multiplies a list that no altgrad.matrix, altgrad.matmul or altgrad.factorize gives");
  TensorsType left = getLeft().getType(), right = getRight().getType();
  // matmul_c3
  if (left.getFormat() != right.getFormat())
    return emitOpError() << "multiplies " << left << " and " << right << ", which have two formats";
  TensorsType type = getProductType(left, getLeftTransposed(), right, getRightTransposed());
  // matmul_c2
  if (!type)
    return emitOpError() << "multiplies a matrix of " << describeMatrix(left, getLeftTransposed()) << " and one of "
                         << describeMatrix(right, getRightTransposed())
                         << ", which do not fit; transpose one of them, or multiply squares of the other side";
  if (type != getProduct().getType())
    return emitOpError() << "gives " << getProduct().getType() << ", and the product is " << type;
  return success();
}

static bool isFactorization(ProductForm form) { return form >= ProductForm::Eigenbasis; }

bool altgrad::canFactorize(ProductForm form, TensorsType type) {
  return type.isSquare() || (form == ProductForm::Orthonormal && type.getFormat().isF32());
}

LogicalResult FactorizeOp::verify() {
  for (Value operand : getOperands())
    // factorize_c1
    if (!isMatrix(operand) || !canFactorize(getForm(), getSquare().getType()))
      return emitOpError() << "is of " << operand.getType()
                           << ", and squares are factorized: matrices per rows x rows or per columns x columns";
  // factorize_c2
  if (!isFactorization(getForm()) || (getForm() == ProductForm::Order) != bool(getBasis()))
    return emitOpError() << "finds '" << stringifyProductForm(getForm()) << "'" << (getBasis() ? " by a basis" : "")
                         << "; there are eigenbasis, order by a basis, orthonormal, inverse_root and identity";
  // factorize_c3
  if (!getRoot().isFinite() || getRoot().convertToDouble() <= 0)
    return emitOpError("has a root that is no finite number above 0");
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

static LogicalResult verifyGeometry(Operation &op, const Variances &variances);

LogicalResult altgrad::verifyMatrix(Operation &op, const Variances &variances) {
  if (failed(verifyGeometry(op, variances)))
    return failure();
  auto matrix = dyn_cast<MatrixOp>(op);
  // matrix_c2
  if (matrix && !variances.isElement(matrix.getElement()))
    return op.emitOpError("makes a matrix of a value that is the same for all elements");
  if (matrix && variances.of(matrix.getElement()).isSquare() != matrix.getMatrix().getType().isSquare())
    return op.emitOpError() << "makes " << matrix.getMatrix().getType() << " of an element of another matrix";
  auto orthogonalize = dyn_cast<OrthogonalizeOp>(op);
  // orthogonalize_c4
  if (orthogonalize && !variances.isElement(orthogonalize.getElement()))
    return op.emitOpError("is of a value that is the same for all elements");
  // orthogonalize_c5
  if (orthogonalize && variances.isElement(orthogonalize.getEps()))
    return op.emitOpError("has an eps that differs between elements");
  return success();
}

// A value of a square meets nothing of the tensor, nor of the other square: only products do.
static LogicalResult verifyGeometry(Operation &op, const Variances &variances) {
  BlockAttr square;
  for (Value operand : op.getOperands())
    if (BlockAttr block = variances.of(operand); block.isSquare())
      square = block;
  if (!square || isa<MatmulOp, FactorizeOp, ReduceOp, UpdateOp, CommitOp, SweepOp, MultiplyOp, YieldOp>(op))
    return success();
  const StringRef name = square.isRowSquare() ? "rows x rows" : "columns x columns";
  if (isa<DrawOp, GramOp, ProductOp, OrthogonalizeOp, MatchNormOp, RowMeanSquareOp>(op))
    return op.emitOpError() << "is of an element of a square of " << name
                            << ", which has arithmetic, altgrad.matmul and altgrad.factorize";
  for (Value operand : op.getOperands())
    // matmul_c5
    if (BlockAttr block = variances.of(operand); block != square && variances.getScope(operand) >= Scope::Unit)
      return op.emitOpError() << "combines an element of a square of " << name
                              << " with one of another matrix; altgrad.matmul multiplies them";
  return success();
}

//===-- In phases -----------------------------------------------------------===//

ParseResult altgrad::parseProductTypes(OpAsmParser &parser, Type &left, Type &right, Type &into) {
  if (parser.parseType(left))
    return failure();
  right = into = left;
  if (failed(parser.parseOptionalComma()))
    return success();
  return failure(parser.parseType(right) || parser.parseKeyword("to") || parser.parseType(into));
}

void altgrad::printProductTypes(OpAsmPrinter &printer, Operation *, Type left, Type right, Type into) {
  printer << left;
  if (left != right || left != into)
    printer << ", " << right << " to " << into;
}

LogicalResult MultiplyOp::verify() {
  for (Value list : getOperands()) {
    bool isStored = isa<BlockArgument>(list) && list != getInto() && getForm() >= ProductForm::Matmul &&
                    cast<TensorsType>(list.getType()).getFormat().isF32();
    // multiply_c1
    if (!list.getDefiningOp<SpillOp>() && !isStored)
      return emitOpError("multiplies a list that is not in the workspace");
  }
  // multiply_c2
  if (getInto() == getLeft() || getInto() == getRight())
    return emitOpError("overwrites what it multiplies");
  TensorsType left = getLeft().getType(), right = getRight().getType(), into = getInto().getType();
  bool fits = getForm() == ProductForm::Matmul
                  ? getProductType(left, getLeftTransposed(), right, getRightTransposed()) == into
                  : left == right && left == into &&
                        (isFactorization(getForm()) ? canFactorize(getForm(), left) : !left.isSquare());
  // multiply_c4
  if (!fits)
    return emitOpError() << "has operands of " << left << " and " << right << " that give no " << into;
  return success();
}

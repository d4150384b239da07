// Matrices of whole tensors: what a step may do with them.
#ifndef ALTGRAD_DIALECT_MATRIXOPS_H
#define ALTGRAD_DIALECT_MATRIXOPS_H

#include "dialect/Variance.h"

namespace altgrad {

/// Whether products may have operands of this format.
bool isOperandFormat(FormatAttr format);

/// Whether an operation of a rule or a step is about a matrix as a whole.
inline bool isMatrixOp(mlir::Operation *op) {
  return mlir::isa_and_nonnull<MatrixOp, GramOp, ProductOp, EitherOp>(op);
}

/// An attribute of an iteration, or of an operation beside it, by a word among a rule's options: "steps=8", "in=f32",
/// "length=added", "equal=rows", "batches=none", "scale=match_rms", "decay=cautious", "coefficients=you", or
/// "coefficients=3.4445/-4.775/2.0315", with "|" between rows. Null: it is none.
std::optional<mlir::NamedAttribute> readIterationWord(mlir::MLIRContext *context, llvm::StringRef word);

/// One sentence on why an operation on matrices may not stand where it does; empty if it may.
std::string whyNotMatrix(mlir::Operation &op, const Variances &variances);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_MATRIXOPS_H

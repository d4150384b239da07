// What a value of a rule or a step may differ between.
#ifndef ALTGRAD_DIALECT_VARIANCE_H
#define ALTGRAD_DIALECT_VARIANCE_H

#include "dialect/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace altgrad {

/// Knows a rule, and a step in every form, from the one written to vectorized
/// sweeps. Codes are of blocks at least, even where all are alike.
class Variances {
public:
  explicit Variances(RuleOp rule);
  explicit Variances(StepOp step);

  /// The elements that share a value. What is computed shares what all operands share
  /// (`BlockAttr::meet`), so one for each row of a block and one for each column make one
  /// for each element.
  BlockAttr of(mlir::Value value) const;
  Scope getScope(mlir::Value value) const { return of(value).getScope(); }
  /// Whether it differs within a tensor, or within a unit where there are any.
  bool isElement(mlir::Value value) const { return getScope(value) == Scope::Block; }
  /// Whether the elements of a sweep meet something that differs between units.
  bool readUnit(SweepOp sweep) const;

private:
  void visit(mlir::Operation &op);
  void visitSweep(SweepOp sweep);
  BlockAttr getBlock(mlir::Operation &op, mlir::Value result, BlockAttr least) const;

  BlockAttr ofStep, ofTensor, ofUnit, ofElement;
  llvm::DenseMap<mlir::Value, BlockAttr> blocks;
  llvm::DenseMap<uint64_t, BlockAttr> rowWords; // of the workspace, in phases
};

/// Whose numbers a reduction of a rule combines, each once: those of elements (`block`), columns, units or tensors.
/// Nothing where all that it is over share one number.
std::optional<Scope> getReducedScope(ReduceOp reduce, const Variances &variances);

/// These emit an error and fail: if `reduce` gives nothing new; if a step reduces what blocks share, stores what they
/// do not share, or does either in a way that no target can cut; if an operation of ClipOps.td or of MatrixOps.td may
/// not stand where it does.
mlir::LogicalResult verifyReduced(ReduceOp reduce, const Variances &variances);
mlir::LogicalResult verifyBlocks(StepOp step, const Variances &variances);
mlir::LogicalResult verifyClip(mlir::Operation &op, const Variances &variances);
mlir::LogicalResult verifyMatrix(mlir::Operation &op, const Variances &variances);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_VARIANCE_H

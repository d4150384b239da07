// What a value of a rule or a step may differ between.
#ifndef ALTGRAD_DIALECT_VARIANCE_H
#define ALTGRAD_DIALECT_VARIANCE_H

#include "dialect/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace altgrad {

/// From the least to the most: one value for the step, one for each parameter
/// group, tensor, unit of a tensor, block of neighbouring elements, element. A
/// computed value differs as the operand that differs most.
enum class Variance { Step, Group, Tensor, Unit, Block, Element };

/// Knows a rule, and a step in every form, from the one written to vectorized
/// sweeps. Codes are of blocks at least, even where all are alike.
class Variances {
public:
  Variances() = default;
  explicit Variances(RuleOp rule);
  explicit Variances(StepOp step);

  Variance of(mlir::Value value) const;
  /// Whether it differs within a tensor, or within a unit where there are any.
  bool isElement(mlir::Value value) const {
    return of(value) > Variance::Unit;
  }
  /// Whether the elements of a sweep meet something that differs between units.
  bool readUnit(SweepOp sweep) const;
  /// The neighbouring elements that share a value: a power of two, 1 where each
  /// has its own, the largest number where a tensor has one.
  unsigned spanOf(mlir::Value value) const;

private:
  void visit(mlir::Operation &op);
  void visitSweep(SweepOp sweep);

  llvm::DenseMap<mlir::Value, unsigned> spans;
  llvm::DenseMap<uint64_t, unsigned> rowWords; // of the workspace, in phases
};

/// Emits an error and fails if an operation on blocks is told nothing new by
/// them.
mlir::LogicalResult verifyBlock(BlockReduceOp reduce,
                                const Variances &variances);
/// The same for all of a step, and for what it stores per block.
mlir::LogicalResult verifyBlocks(StepOp step, const Variances &variances);
/// And for what is reduced and stored per block of a column.
mlir::LogicalResult verifyColumns(StepOp step, const Variances &variances);
/// What a sweep over tiles has no place for.
mlir::LogicalResult verifyTiles(SweepOp sweep);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_VARIANCE_H

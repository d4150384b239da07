// To which set of tensors each value of a step belongs.
#ifndef ALTGRAD_DIALECT_ROWSETS_H
#define ALTGRAD_DIALECT_ROWSETS_H

#include "dialect/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace altgrad {

/// The set of a list of tensors is declared, and so is that of a scalar that has
/// one; it passes on to everything that differs from element to element, or from
/// tensor to tensor by a reduction. What is one for the step belongs to no set.
///
/// Knows a step in every form, from the one written to sweeps.
class RowSets {
public:
  RowSets() = default;
  explicit RowSets(StepOp step);

  unsigned count() const { return sets; }
  std::optional<unsigned> of(mlir::Value value) const;
  unsigned of(SweepOp sweep) const;
  /// The operation in which values of two sets meet, or null.
  mlir::Operation *conflict() const { return conflicting; }

private:
  std::optional<unsigned> meet(llvm::ArrayRef<mlir::Value> values, mlir::Operation &op);
  void visit(mlir::Operation &op);
  void visitSweep(SweepOp sweep);

  llvm::DenseMap<mlir::Value, unsigned> members;
  mlir::Operation *conflicting = nullptr;
  unsigned sets = 1;
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_ROWSETS_H

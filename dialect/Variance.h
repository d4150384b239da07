// What a value of a rule or a step may differ between.
#ifndef ALTGRAD_DIALECT_VARIANCE_H
#define ALTGRAD_DIALECT_VARIANCE_H

#include "dialect/Dialect.h"
#include "llvm/ADT/DenseMap.h"

namespace altgrad {

/// From the least to the most: one value for the step, one for each parameter
/// group, tensor, element. A computed value differs as the operand that differs
/// most.
enum class Variance { Step, Group, Tensor, Element };

/// Knows a rule, and a step in every form, from the one written to vectorized
/// sweeps. Lists and codes are of elements, even where all are alike.
class Variances {
public:
  Variances() = default;
  explicit Variances(RuleOp rule);
  explicit Variances(StepOp step);

  Variance of(mlir::Value value) const {
    return known.lookup_or(value, Variance::Step);
  }
  bool isElement(mlir::Value value) const {
    return of(value) == Variance::Element;
  }

private:
  void visit(mlir::Operation &op);
  void visitSweep(SweepOp sweep);

  llvm::DenseMap<mlir::Value, Variance> known;
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_VARIANCE_H

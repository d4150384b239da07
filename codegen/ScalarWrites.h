// Where the scalars of a commit are written: no phase may read the old content
// after the phase that overwrites it.
#ifndef ALTGRAD_CODEGEN_SCALARWRITES_H
#define ALTGRAD_CODEGEN_SCALARWRITES_H

#include "codegen/Phases.h"

namespace altgrad {

/// What the placing asks of the planner.
struct ScalarOrder {
  std::function<bool(mlir::Value)> perRow;
  /// The batch in which a value is known.
  std::function<int(mlir::Value)> batchOf;
  /// Of an operation: its batch; of a sweep: the one after it.
  std::function<int(mlir::Operation *)> batchOfOp;
};

struct PlacedWrite {
  ScalarWrite write;
  Domain domain; // Rows or Once
  std::optional<unsigned> set;
  int batch;
};

/// Emits an error and fails if a scalar is written that no single phase can
/// write.
mlir::FailureOr<llvm::SmallVector<PlacedWrite>>
placeWrites(StepOp step, const RowSets &sets, const ScalarOrder &order);

/// The phases of a batch run in this order: once, rows of all sets, rows of each.
unsigned rankOf(Domain domain, std::optional<unsigned> set);

/// The set whose rows a scalar is computed in; none where all rows are alike.
std::optional<unsigned> setOfScalar(const RowSets &sets, mlir::Value value);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SCALARWRITES_H

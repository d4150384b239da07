// Where the scalars of a commit are written: no phase may read the old content
// after the phase that overwrites it.
#ifndef ALTGRAD_CODEGEN_SCALARWRITES_H
#define ALTGRAD_CODEGEN_SCALARWRITES_H

#include "codegen/phases/Phases.h"

namespace altgrad {

/// Where a scalar is computed: once, in all rows or in the rows of a set. The
/// phases of a batch run in this order.
struct ScalarHome {
  Domain domain; // Rows or Once
  std::optional<unsigned> set;
  unsigned rank() const {
    return domain == Domain::Once ? 0 : set ? *set + 2 : 1;
  }
};

/// What the placing asks of the planner.
struct ScalarOrder {
  std::function<ScalarHome(mlir::Value)> homeOf;
  /// The batch in which a value is known.
  std::function<int(mlir::Value)> batchOf;
  /// Of an operation: its batch; of a sweep: the one after it.
  std::function<int(mlir::Operation *)> batchOfOp;
};

struct PlacedWrite {
  ScalarWrite write;
  ScalarHome home;
  int batch;
};

/// Emits an error and fails if a scalar is written that no single phase can
/// write.
mlir::FailureOr<llvm::SmallVector<PlacedWrite>>
placeWrites(StepOp step, const ScalarOrder &order);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SCALARWRITES_H

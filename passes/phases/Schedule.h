// Between which sweeps a value is known, and for which items.
#ifndef ALTGRAD_PASSES_PHASES_SCHEDULE_H
#define ALTGRAD_PASSES_PHASES_SCHEDULE_H

#include "dialect/RowSets.h"
#include "dialect/Variance.h"

namespace altgrad {

/// Where a scalar is computed: once, in all rows or in the rows of a set. The
/// phases of a batch run in this order.
struct ScalarHome {
  Domain domain; // Rows or Once
  std::optional<unsigned> set;
  unsigned rank() const { return domain == Domain::Once ? 0 : set ? *set + 2 : 1; }
};

/// Batch b of scalars lies between sweep b-1 and sweep b.
class Schedule {
public:
  explicit Schedule(StepOp step) : variances(step), sets(step) {}

  ScalarHome getHome(mlir::Value value) const;
  /// The batch in which a value is known; 0 for arguments.
  int getBatch(mlir::Value value) const;
  /// Of an operation: its batch; of a sweep: the one after it.
  int getBatch(mlir::Operation *op) const { return batches.lookup(op); }

  void put(mlir::Operation *op, int batch) { batches[op] = batch; }
  /// The batch in which the sums of a sweep are folded; the last one until then.
  void fold(SweepOp sweep, int batch) { folded[sweep] = batch; }
  void setLast(int batch) { last = batch; }

private:
  Variances variances;
  RowSets sets;
  llvm::DenseMap<mlir::Operation *, int> batches, folded;
  int last = 0;
};

} // namespace altgrad

#endif // ALTGRAD_PASSES_PHASES_SCHEDULE_H

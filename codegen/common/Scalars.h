// The scalars of a phase: read, recalled, computed, kept and written for one item.
#ifndef ALTGRAD_CODEGEN_COMMON_SCALARS_H
#define ALTGRAD_CODEGEN_COMMON_SCALARS_H

#include "codegen/common/KernelBuilder.h"

namespace altgrad {

/// Lowers the operations of a phase for one row, or once for the step. A sweep and
/// the folds of a tensor are the target's.
class ScalarLowering {
public:
  ScalarLowering(KernelBuilder &kernel, Row row) : kernel(kernel), row(row) {}

  void lower(Operation &op);
  /// All of a phase but what is in `known` already.
  void lower(PhaseOp phase);
  /// The scalars before a sweep, and what its bodies ask of the row. `count` becomes 0 where its condition is false.
  void lowerScalarsFor(SweepOp sweep, Value &count);

  IRMapping known; // value of the phase ==> value of the kernel

private:
  Value total(TotalOp op);
  void write(WriteOp op);
  Value percentile(PercentileOp op);
  void appendToHistory(Value number, Value history);
  Value getPointer(Value argument);

  KernelBuilder &kernel;
  Row row;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_SCALARS_H

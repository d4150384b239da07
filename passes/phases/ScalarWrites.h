// Where the scalars of a commit are written: no phase may read the old content
// after the phase that overwrites it.
#ifndef ALTGRAD_PASSES_PHASES_SCALARWRITES_H
#define ALTGRAD_PASSES_PHASES_SCALARWRITES_H

#include "passes/phases/PhasePlan.h"
#include "passes/phases/Schedule.h"

namespace altgrad {

struct PlacedWrite {
  ScalarWrite write;
  ScalarHome home;
  int batch;
};

/// Emits an error and fails if a scalar is written that no single phase can
/// write.
mlir::FailureOr<llvm::SmallVector<PlacedWrite>> placeWrites(StepOp step, const Schedule &schedule);

} // namespace altgrad

#endif // ALTGRAD_PASSES_PHASES_SCALARWRITES_H

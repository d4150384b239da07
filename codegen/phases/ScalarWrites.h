// Where the scalars of a commit are written: no phase may read the old content
// after the phase that overwrites it.
#ifndef ALTGRAD_CODEGEN_SCALARWRITES_H
#define ALTGRAD_CODEGEN_SCALARWRITES_H

#include "codegen/phases/PhasePlan.h"
#include "codegen/phases/Schedule.h"

namespace altgrad {

struct PlacedWrite {
  ScalarWrite write;
  ScalarHome home;
  int batch;
};

/// Emits an error and fails if a scalar is written that no single phase can
/// write.
mlir::FailureOr<llvm::SmallVector<PlacedWrite>>
placeWrites(StepOp step, const Schedule &schedule);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SCALARWRITES_H

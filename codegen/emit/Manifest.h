// What a bundle says of itself, and what a person is told of a step.
#ifndef ALTGRAD_CODEGEN_EMIT_MANIFEST_H
#define ALTGRAD_CODEGEN_EMIT_MANIFEST_H

#include "codegen/Target.h"
#include "codegen/phases/Phases.h"
#include "llvm/Support/JSON.h"

namespace altgrad {

/// The manifest of bundle.h.
llvm::json::Object writeManifest(StepOp step, const PhasePlan &plan,
                                 llvm::ArrayRef<const Target *> targets);

/// Sweeps, bytes per element, launches, and the time that the bytes take.
std::string writeReport(StepOp step, const PhasePlan &plan);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_MANIFEST_H

// What a bundle says of itself, and what a person is told of a step.
#ifndef ALTGRAD_CODEGEN_EMIT_MANIFEST_H
#define ALTGRAD_CODEGEN_EMIT_MANIFEST_H

#include "codegen/Target.h"
#include "dialect/Dialect.h"
#include "llvm/Support/JSON.h"

namespace altgrad {

/// The manifest of bundle.h, of a step in phases.
llvm::json::Object writeManifest(StepOp step, llvm::ArrayRef<const Target *> targets);

/// Sweeps, bytes per element, launches of a GPU, and the time that the bytes take.
std::string writeReport(StepOp step);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_MANIFEST_H

// What the runtime and people are told of a step in phases.
#ifndef ALTGRAD_CODEGEN_ABI_MANIFEST_H
#define ALTGRAD_CODEGEN_ABI_MANIFEST_H

#include "dialect/Dialect.h"
#include "dialect/Target.h"
#include "llvm/Support/JSON.h"

namespace altgrad {

/// The manifest of bundle.h, of a step in phases.
llvm::json::Object writeManifest(StepOp step, llvm::ArrayRef<const Target *> targets);

/// Sweeps, bytes per element, launches of a GPU, and the time that the bytes take.
std::string writeReport(StepOp step);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_ABI_MANIFEST_H

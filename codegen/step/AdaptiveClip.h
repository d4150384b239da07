// Clips of a generated step that are more than one bound and one product.
#ifndef ALTGRAD_CODEGEN_DRIVER_ADAPTIVECLIP_H
#define ALTGRAD_CODEGEN_DRIVER_ADAPTIVECLIP_H

#include "codegen/step/SetWriter.h"

namespace altgrad {

/// The norm of all gradients, which the step says: `%clip.norm`.
void takeGlobalNorm(StepText &text, llvm::MutableArrayRef<SetWriter> sets,
                    llvm::StringRef kind);

/// Clips to a percentile of past norms, or has each set clip itself when it has
/// its parameters (SetWriter::clipToParameter).
void clipAdaptively(StepText &text, llvm::MutableArrayRef<SetWriter> sets,
                    const StepRequest &request);

/// Rounds gradients to their format after unscaling and after the clip, as
/// torch's GradScaler.unscale_ and clip_grad_norm_ leave them.
void roundAsTorch(StepText &text, llvm::MutableArrayRef<SetWriter> sets,
                  const StepRequest &request);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_ADAPTIVECLIP_H

// What a generated step has to do with a loss scale.
#ifndef ALTGRAD_CODEGEN_DRIVER_LOSSSCALER_H
#define ALTGRAD_CODEGEN_DRIVER_LOSSSCALER_H

#include "codegen/step/SetWriter.h"

namespace altgrad {

/// Keeps the names that the functions below give arguments from being a rule's.
void nameScaler(StepText &text);

/// torch's protocol: the scale to divide by, and whether to skip.
void takeScaler(StepText &text, llvm::MutableArrayRef<SetWriter> sets);

/// A check of our own: skip where a gradient is not finite, and say so.
void takeInverseScale(StepText &text, llvm::MutableArrayRef<SetWriter> sets);

/// The same from the scale itself, and what becomes of it: arguments of role
/// `scaler`. `next_*` are written beside what is read, because other optimizers may
/// still have to divide by the same scale; `found` counts those that have found
/// something, and `skipped` the steps of this one that were.
void takeLossScaler(StepText &text, llvm::MutableArrayRef<SetWriter> sets,
                    Scaler variant);

/// A step of scalars alone: what becomes of the scale by `found`.
void takeLossScale(StepText &text, Scaler variant);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_LOSSSCALER_H

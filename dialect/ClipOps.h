// What the operations of ClipOps.td want of the step that they are in.
#ifndef ALTGRAD_DIALECT_CLIPOPS_H
#define ALTGRAD_DIALECT_CLIPOPS_H

#include "dialect/Variance.h"

namespace altgrad {

/// Why `op` of a step may not stand there; empty if it may.
std::string whyNotClip(mlir::Operation &op, const Variances &variances);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_CLIPOPS_H

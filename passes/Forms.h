// In which form a step is, and whether it is one that a pass reads.
#ifndef ALTGRAD_PASSES_FORMS_H
#define ALTGRAD_PASSES_FORMS_H

#include "dialect/Dialect.h"

namespace altgrad {

/// In the order in which passes make them.
enum class Form {
  Written,           // has updates
  Inlined,           // has clips, norms and other operations on whole gradients
  GradientsExpanded, // has matrices
  MatricesExpanded,  // has lists of numbers
  Element,           // one element is loaded, computed and stored
  Sweeps,
  Phases,
  Stages,
  Vectorized,
  FastPath,
  Resources, // each kernel says what it takes of a GPU
};

/// Emits one error and fails if an operation of a step does not stand in a form from `least` to `most`, which are those
/// that `pass` reads. An operation that several forms have, as arithmetic, is in each of them. `inPhases`: all
/// work is.
mlir::LogicalResult checkForm(StepOp step, llvm::StringRef pass, Form least, Form most, bool inPhases = false);
/// The same for a step that is no functions yet; with `numerics`, for operations that `altgrad-lower-numerics`
/// replaces.
mlir::LogicalResult checkLowered(mlir::Operation *top, llvm::StringRef pass, bool numerics = false);

} // namespace altgrad

#endif // ALTGRAD_PASSES_FORMS_H

// The phases of a step: in which kernel each value is computed, and where it
// waits for the next one.
#ifndef ALTGRAD_CODEGEN_PHASES_H
#define ALTGRAD_CODEGEN_PHASES_H

#include "dialect/RowSets.h"
#include "llvm/ADT/MapVector.h"

namespace altgrad {

/// What one item of a kernel is: a chunk of a tensor, a tensor, the whole step.
enum class Domain { Chunks, Rows, Once };
llvm::StringRef stringifyDomain(Domain domain);

/// A word of the workspace: of the step, or of each row.
struct Slot {
  Domain domain;
  unsigned index;
};

/// A reduction on its way: a word per chunk, then per row, then (scope step) one.
struct Partial {
  SweepOp sweep;
  unsigned result;
  unsigned chunkWord;
  unsigned rowWord;
};

struct ScalarWrite {
  mlir::Value value;
  mlir::BlockArgument target;
  mlir::Value condition; // null: always
};

struct Phase {
  enum Kind { Sweep, Fold, Scalars } kind;
  std::string name;
  Domain domain;
  std::optional<unsigned> set;        // of chunks or rows; none: all
  SweepOp sweep;                      // Sweep
  llvm::SmallVector<Partial> folds;   // Fold: per row; Scalars once: over rows
  llvm::SmallVector<mlir::Operation *> ops; // Scalars
  llvm::SmallVector<ScalarWrite> writes;    // Scalars
};

struct PhasePlan {
  std::vector<Phase> phases;
  llvm::MapVector<mlir::Value, Slot> slots;
  llvm::SmallVector<Partial> partials;
  llvm::SmallVector<SpillOp> spills;
  unsigned stepWords = 0, rowWords = 0, chunkWords = 0;
  RowSets sets;

  const Partial &partialOf(mlir::Value reduced) const;
};

/// Plans a step that consists of sweeps and scalars. Emits an error and fails if
/// a scalar is written that no single phase can write.
mlir::FailureOr<PhasePlan> planPhases(StepOp step);

/// Streams and scalars of the signature, numbered as in bundle.h.
struct Binding {
  mlir::BlockArgument argument;
  bool isStream;
  unsigned slot;
};
struct Layout {
  llvm::SmallVector<Binding> bindings; // one per argument, in order
  unsigned inputs = 0;       // streams of access in
  unsigned rowPointers = 0;  // other streams, scalars per tensor
  unsigned groupScalars = 0, stepScalars = 0;
};
Layout layoutOf(StepOp step);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PHASES_H

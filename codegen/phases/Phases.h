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
  enum Kind { Sweep, Fold, Total, Scalars } kind;
  std::string name;
  Domain domain;
  std::optional<unsigned> set;        // of chunks or rows; none: all
  SweepOp sweep;                      // Sweep
  llvm::SmallVector<Partial> folds;   // Fold: per row; Total, Scalars once: over rows
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

llvm::StringRef stringifyKind(Phase::Kind kind);

/// Plans a step that consists of sweeps and scalars. With `exchange`, sums over the
/// step are computed in phases of their own, so that other devices' shares can
/// join them. Emits an error and fails if a scalar is written that no single phase
/// can write.
mlir::FailureOr<PhasePlan> planPhases(StepOp step, bool exchange = false);

/// Streams and scalars of the signature, numbered as in bundle.h.
struct Binding {
  mlir::BlockArgument argument;
  bool isStream;
  unsigned slot;
  std::optional<unsigned> set; // none: of the step, or of every set
};
struct Layout {
  llvm::SmallVector<Binding> bindings; // one per argument, in order
  unsigned inputs = 0;       // words of streams of access in
  unsigned rowPointers = 0;  // of other streams and scalars per tensor
  unsigned groupScalars = 0, stepScalars = 0;
};
Layout layoutOf(StepOp step);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PHASES_H

// The phases of a step as tables: in which phase each value is computed, and where
// it waits for the next one. PlanPhases makes them, WritePhases turns them to IR.
#ifndef ALTGRAD_PASSES_PHASES_PHASEPLAN_H
#define ALTGRAD_PASSES_PHASES_PHASEPLAN_H

#include "dialect/RowSets.h"
#include "llvm/ADT/MapVector.h"

namespace altgrad {

/// A word of the workspace: of the step, of each row, or of a tensor's first row.
struct Word {
  Space space;
  unsigned number;
};

/// A reduction on its way: a word per chunk, then per row, then (scope step) one.
struct Partial {
  SweepOp sweep;
  unsigned result;
  unsigned chunkWord;
  unsigned rowWord;
  mlir::Value value() const { return SweepOp(sweep).getReduced()[result]; }
  Reduction reduction() const { return getFoldKind(SweepOp(sweep).getReduction(result)); }
  Scope scope() const { return SweepOp(sweep).getScope(result); }
  Walk walk() const { return SweepOp(sweep).getFoldedWalk(); }
};

struct ScalarWrite {
  mlir::Value value;
  mlir::BlockArgument target;
  mlir::Value condition; // null: always
};

/// What is in a phase, in this order: folds (over rows: a tensor's, once: the
/// step's), scalars, writes, or one sweep; or products of matrices.
struct Phase {
  std::string name;
  Domain domain = Domain::Once;
  std::optional<unsigned> set; // of chunks or rows; none: all
  bool exchange = false;
  SweepOp sweep;
  llvm::SmallVector<MultiplyOp, 0> products;
  llvm::SmallVector<Partial> folds;
  bool overTensors = false; // the folds, in a step whose rows are units
  llvm::SmallVector<AcrossOp> unitSums;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<ScalarWrite> writes;
};

/// Whether each phase has its own copy of an operation: a constant, a question about
/// the row, a list in the workspace.
inline bool isCopied(mlir::Operation &op) { return op.getNumOperands() == 0 && op.getNumRegions() == 0; }

struct PhasePlan {
  std::vector<Phase> phases;
  llvm::MapVector<mlir::Value, Word> words;
  llvm::SmallVector<Partial> partials;
  RowSets sets;

  const Partial &getPartial(mlir::Value reduced) const;
};

/// Plans a step that consists of sweeps and scalars. With `exchange`, sums over the
/// step are computed in phases of their own, so that other devices' shares can
/// join them. Emits an error and fails if a scalar is written that no single phase
/// can write.
mlir::FailureOr<PhasePlan> planPhases(StepOp step, bool exchange);

} // namespace altgrad

#endif // ALTGRAD_PASSES_PHASES_PHASEPLAN_H

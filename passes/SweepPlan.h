// Which sweep computes what: the decisions of SplitSweeps, apart from the IR.
#ifndef ALTGRAD_PASSES_SWEEPPLAN_H
#define ALTGRAD_PASSES_SWEEPPLAN_H

#include "dialect/Dialect.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace altgrad {

/// Something that leaves a sweep: a reduction, or a code stored to a stream.
struct Output {
  mlir::Value value;     // the element reduced, or the code stored
  ReduceOp reduce;       // null for a store
  mlir::Value stream;    // null for a reduction; of a matrix its list
  mlir::Value condition; // of a store in the commit's `if` list
  int stage = 0;         // index of the sweep, in time
};

/// The plan of one step. A value's stage is the first sweep that can compute it:
/// what depends on a reduction comes at least one stage after it.
struct SweepPlan {
  std::vector<Output> outputs;
  /// At a stage, values that are not computed but loaded: from a stream that
  /// holds them since an earlier stage, or (null stream) from the workspace.
  llvm::MapVector<std::pair<int, mlir::Value>, mlir::Value> reloaded;
  /// Values kept in the workspace, with the stage that computes them.
  llvm::MapVector<mlir::Value, int> spilled;
  /// Those of them that a reduction over tiles leaves for others.
  llvm::SetVector<mlir::Value> materialized;
  /// Of those that lie there once for each column, block of columns or square, the block.
  llvm::DenseMap<mlir::Value, BlockAttr> blocks;
  int stages = 0;
  int products = 0; // the stage before which all products are done
  double bytes = 0; // per element, over all stages
  /// Whether no code would have to wait in the workspace, and no tile meets sums.
  bool possible = true;
  /// Whether tiles have every second stage for themselves, a sweep for each thing that leaves it.
  bool alternates = false;
  bool isOfTiles(int stage) const { return alternates && stage % 2; }
};

/// What a planner may do to save bytes, or to have a plan at all.
struct Planning {
  /// What is reduced over tiles is loaded by a sweep of its own, whose operand another one leaves.
  bool separate = false;
  /// What a block of columns or a square shares lies in the workspace once for each, and not for each element.
  bool shared = false;
  /// Sweeps over tiles do nothing but reduce, read and store what tiles share, each one such thing, of and for numbers
  /// in the workspace. That is slow, and there is nothing that it cannot split.
  bool alternates = false;
  /// Reductions wait for a later stage that loads their operands anyway.
  bool late = false;
  /// Values may lie in the workspace.
  bool spill = false;
};
/// From the quickest on.
constexpr Planning planningWays[] = {{false, true}, {false, false}, {true, true}, {true, false}, {false, false, true}};

/// The cheapest plan in bytes per element, and the two it was chosen from.
struct PlanChoice {
  SweepPlan plan;
  double recomputeBytes; // every sweep computes what it needs from its loads
  double spillBytes;     // what several sweeps need may lie in the workspace
};
PlanChoice planSweeps(StepOp step, Planning way);
/// Every list that tiles share gets its number from a reduction over them: before a plan that alternates.
void relayTileStores(StepOp step);

/// The list of the caller's that a matrix has element by element in f32, where products read it as it lies; or null.
mlir::Value getStoredList(mlir::Value matrix);

} // namespace altgrad

#endif // ALTGRAD_PASSES_SWEEPPLAN_H

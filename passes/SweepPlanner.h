// One plan in the making: stages first (PlanStages.cpp), then what is kept in memory (SweepPlan.cpp).
#ifndef ALTGRAD_PASSES_SWEEPPLANNER_H
#define ALTGRAD_PASSES_SWEEPPLANNER_H

#include "dialect/RowSets.h"
#include "dialect/Variance.h"
#include "passes/SweepPlan.h"

namespace altgrad {

class SweepPlanner {
public:
  SweepPlanner(StepOp step, Planning how);
  SweepPlan plan;

private:
  // PlanStages.cpp
  void findStages();
  int alternated(mlir::Operation &op);
  /// The first stage from `stage` on in which a stream may be stored.
  int findStoreStage(mlir::Value stream, int stage);
  int findTileStage(mlir::Operation &op, int stage);
  bool dependsOnlyOnTile(mlir::Operation &op, mlir::Operation *tile, int stage);
  void delayReductions();
  void findOutputs();
  bool separateTiles();
  bool suitsTiles();
  std::vector<Output> findLiveOuts();
  int findConflictingStage(mlir::Operation *most);
  bool cannotShareSweep(const Output &output, mlir::Operation *most, bool decided);
  bool needs(const Output &output, llvm::function_ref<bool(mlir::Operation *)> what, mlir::Value number = {});
  /// Whether a value of an earlier stage is in the workspace, because nobody computes it again.
  bool isMaterialized(mlir::Value value, int stage) {
    return plan.materialized.contains(value) && getStage(value) < stage;
  }

  // SweepPlan.cpp
  void keepMaterialized();
  void delayStores();
  void decideStages(int last);
  void decideStage(int k);
  void countBytes();
  int getStage(mlir::Value value) { return stages.lookup(value); }
  int storedAt(mlir::Value stream);
  mlir::Value storedCopy(mlir::Value value, int before);
  void walkBack(mlir::Value value, llvm::function_ref<bool(mlir::Value)> further);
  void findFrontier(mlir::Value value, int k, llvm::SetVector<mlir::Value> &frontier);
  void findLoads(mlir::Value value, int k, llvm::SetVector<mlir::Value> &streams);
  double bytesKept(mlir::Value value);
  double stageCost(int k, llvm::ArrayRef<mlir::Value> frontier, const llvm::DenseSet<mlir::Value> &kept);
  bool valid(mlir::Value value, int k);

  StepOp step;
  Planning how;
  Variances variances;
  RowSets sets;
  llvm::DenseMap<mlir::Operation *, int> earliest;         // of reductions over tiles that wait
  llvm::DenseMap<mlir::Value, int> stages;                 // when a value can be computed
  llvm::DenseSet<mlir::Operation *> alone;                 // reductions over tiles of which one list is all
  llvm::DenseMap<mlir::Operation *, int> performed;        // the sweep of a reduction
  llvm::DenseMap<mlir::Value, mlir::Operation *> onlyTile; // the only tile reduction a value depends on
};

} // namespace altgrad

#endif // ALTGRAD_PASSES_SWEEPPLANNER_H

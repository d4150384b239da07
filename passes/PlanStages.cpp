// When each value can be computed: stages, reductions that wait, and what leaves each stage.
#include "passes/SweepPlanner.h"

using namespace mlir;
using namespace altgrad;

// Whether a list has what columns or squares share.
static bool isOverRows(Value list) {
  auto type = dyn_cast<TensorsType>(list.getType());
  return type && type.getBlock().isOverRows();
}

// Whether an operation reduces more than a sweep has at hand.
static bool isWhole(Operation &op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && !reduce.isOverBlock();
}

bool altgrad::isGathered(Operation *op) {
  return isa_and_nonnull<CollectOp>(op) &&
         llvm::any_of(op->getUsers(), [](Operation *user) { return isa<GramOp, ProductOp>(user); });
}

// What depends on it waits for the end of its sweep.
static bool endsSweep(Operation &op) { return isWhole(op) || isGathered(&op); }

// Whether the stage of an output computes an operation for it that `what` accepts. Called before reloads are chosen;
// `number` stands for the value that an earlier sweep computes.
bool SweepPlanner::needs(const Output &output, function_ref<bool(Operation *)> what, Value number) {
  bool found = false;
  walkBack(output.value, [&](Value needed) {
    if (isMaterialized(needed, output.stage) || plan.reloaded.contains({output.stage, needed}) ||
        (needed == number && getStage(needed) < output.stage))
      return false;
    found |= what(needed.getDefiningOp());
    return !found;
  });
  return found;
}

// Whether a sweep over tiles has no place for an output: sums, codes and blocks that tiles would cut, the reduction over
// another tile, and what differs between the rows of a tile.
bool SweepPlanner::cannotShareSweep(const Output &output, Operation *most, bool decided) {
  auto isOfUnit = [&](Value operand) { return variances.getScope(operand) == Scope::Unit; };
  auto isCut = [&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op))
      return decided && isCutByTiles(cast<TensorsType>(load.getTensors().getType()));
    auto reduce = dyn_cast<ReduceOp>(op);
    return (most && isOverTile(op) && op != most) || llvm::any_of(op->getOperands(), isOfUnit) ||
           (reduce && reduce.isOverBlock() && reduce.getRun() > tileColumns);
  };
  return output.reduce || (output.stream && isCutByTiles(cast<TensorsType>(output.stream.getType()))) ||
         needs(output, isCut, most && !decided ? most->getOperand(0) : Value());
}

// What sweeps store or reduce.
std::vector<Output> SweepPlanner::findLiveOuts() {
  std::vector<Output> all = plan.outputs;
  for (Value value : plan.materialized)
    all.push_back({value, {}, {}, {}, getStage(value)});
  for (auto [value, stage] : plan.spilled)
    if (!plan.materialized.contains(value))
      all.push_back({value, {}, {}, {}, stage});
  return all;
}

// First stage at which a store that depends on a reduction over tiles must be split off: its sweep has something that
// cannot go over tiles, or a list of the tiles would be stored too late. -1: there is none.
int SweepPlanner::findConflictingStage(Operation *most) {
  auto set = sets.of(most->getOperand(0));
  std::vector<Output> all = findLiveOuts();
  bool crosses = llvm::any_of(plan.materialized, [&](Value value) { return onlyTile.lookup(value) == most; });
  for (const Output &output : all) {
    auto cannot = [&](const Output &other) {
      return other.stage == output.stage && sets.of(other.value) == set &&
             cannotShareSweep(other, most, /*decided=*/false);
    };
    if (needs(output, [&](Operation *op) { return op == most; }) && llvm::any_of(all, cannot))
      return output.stage;
    if (crosses && output.stream && cast<TensorsType>(output.stream.getType()).getBlock().isOverRows() &&
        onlyTile.lookup(output.value) == most && getStage(most->getResult(0)) < output.stage)
      return output.stage - 1;
  }
  return -1;
}

// Whether every sweep that goes over tiles can.
bool SweepPlanner::suitsTiles() {
  if (how.alternates)
    return true;
  std::vector<Output> all = findLiveOuts();
  for (const Output &output : all) {
    Operation *tile = nullptr;
    bool loads = false;
    needs(output, [&](Operation *op) {
      auto load = dyn_cast<LoadOp>(op);
      tile = isOverTile(op) ? op : tile;
      loads |= load && isOverRows(load.getTensors());
      return false;
    });
    walkBack(output.value, [&](Value needed) {
      bool isKept = plan.reloaded.contains({output.stage, needed});
      loads |= isKept && plan.blocks.contains(needed);
      return !isKept;
    });
    auto cannot = [&](const Output &other) {
      return other.stage == output.stage && sets.of(other.value) == sets.of(output.value) &&
             cannotShareSweep(other, tile, /*decided=*/true);
    };
    if ((tile || loads) && llvm::any_of(all, cannot))
      return false;
  }
  return true;
}

// One such reduction is made by the next sweep, as far as that helps.
bool SweepPlanner::separateTiles() {
  if (how.alternates)
    return false;
  int most = 2 * llvm::range_size(step.getBody().getOps<ReduceOp>());
  for (Operation &op : step.getBody().front())
    if (int met = isOverTile(&op) ? findConflictingStage(&op) : -1;
        met >= 0 && met < most && earliest.lookup(&op) <= met) {
      earliest[&op] = met + 1;
      return true;
    }
  return false;
}

// Whether a stage computes an operation from nothing but scalars, a reduction over a tile and what that reduces.
bool SweepPlanner::dependsOnlyOnTile(Operation &op, Operation *tile, int stage) {
  return !isa<ReduceOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
    bool reads = variances.getScope(operand) == Scope::Unit;
    walkBack(operand, [&](Value needed) {
      Operation *from = needed.getDefiningOp();
      reads |= isMaterialized(needed, stage);
      bool isOfList = isa<LoadOp>(from) && variances.of(needed) == cast<ReduceOp>(tile).getOver();
      if (reads || isOfList || needed == tile->getOperand(0) || onlyTile.lookup(needed) == tile)
        return false;
      reads = isa<LoadOp, ReduceOp, DrawOp>(from) || !from->getNumOperands();
      return !reads;
    });
    return !reads;
  });
}

// What reads more of its element than a reduction over a tile does waits for the next sweep, which finds in the
// workspace what is computed from that reduction alone.
int SweepPlanner::findTileStage(Operation &op, int stage) {
  Operation *tile = nullptr;
  auto isBehind = [&](Value operand) { return onlyTile.contains(operand) && !isMaterialized(operand, stage); };
  for (Value operand : op.getOperands())
    tile = isBehind(operand) ? onlyTile.lookup(operand) : tile;
  if (tile && !isa<CommitOp>(op) && !dependsOnlyOnTile(op, tile, stage)) {
    for (Value operand : op.getOperands())
      if (isBehind(operand)) {
        plan.materialized.insert(operand.getType().isF32() ? operand : onlyTile.lookup(operand)->getResult(0));
        stage = std::max(stage, getStage(operand) + 1);
      }
    tile = nullptr;
  }
  if (isOverTile(&op)) {
    if (Value number = op.getOperand(0); how.apart && getStage(number) == stage) {
      plan.materialized.insert(number);
      ++stage;
    }
    tile = &op;
  }
  for (Value result : op.getResults())
    if (tile)
      onlyTile[result] = tile;
  return stage;
}

//===-- Every second stage for tiles ------------------------------------------===//

// The reduction over a tile from which a list of what tiles share gets nothing but its number; or null.
static ReduceOp storedAlone(const CommitOp::Write &write) {
  auto collect = write.value.getDefiningOp<CollectOp>();
  if (!collect || !isOverRows(write.target))
    return {};
  auto encode = collect.getElement().getDefiningOp<EncodeOp>();
  auto reduce = (encode ? encode.getNumber() : collect.getElement()).getDefiningOp<ReduceOp>();
  bool isOne = reduce && reduce->hasOneUse() && (!encode || encode->hasOneUse());
  return isOne && reduce.getOver() == cast<TensorsType>(write.target.getType()).getBlock() ? reduce : ReduceOp();
}

void altgrad::relayTileStores(StepOp step) {
  for (const CommitOp::Write &write : step.getCommit().writes()) {
    auto collect = write.value.getDefiningOp<CollectOp>();
    if (!collect || !isOverRows(write.target) || storedAlone(write))
      continue;
    OpBuilder builder(collect);
    Operation *encode = collect.getElement().getDefiningOp<EncodeOp>();
    Value number = encode ? encode->getOperand(0) : collect.getElement();
    Value relayed = ReduceOp::create(builder, collect.getLoc(), Reduction::Max, number,
                                     cast<TensorsType>(write.target.getType()).getBlock());
    if (encode) {
      Operation *copy = builder.clone(*encode);
      copy->setOperand(0, relayed);
      relayed = copy->getResult(0);
    }
    auto list = CollectOp::create(builder, collect.getLoc(), collect.getList().getType(), relayed, Value());
    step.getCommit()->replaceUsesOfWith(collect.getList(), list);
  }
}

// What chunks compute has even stages. What a tile reduces and what it finds waits in the workspace, and so does what
// tiles share of a list; only a code that is stored for all of a tile is computed behind the reduction, in its sweep.
int SweepPlanner::alternated(Operation &op) {
  int stage = 0;
  Operation *relay = nullptr;
  for (Value operand : op.getOperands()) {
    stage = std::max(stage, getStage(operand));
    relay = onlyTile.contains(operand) ? onlyTile.lookup(operand) : relay;
  }
  auto load = isa<LoadOp>(op)       ? cast<LoadOp>(op)
              : op.getNumOperands() ? op.getOperand(0).getDefiningOp<LoadOp>()
                                    : LoadOp();
  if (isOverTile(&op)) {
    plan.materialized.insert(op.getOperand(0));
    stage = (getStage(op.getOperand(0)) + 1) | 1;
    if (alone.contains(&op))
      relay = &op;
    else
      plan.materialized.insert(op.getResult(0));
  } else if (load && isOverRows(load.getTensors()) && op.getResult(0).getType().isF32()) {
    plan.materialized.insert(op.getResult(0));
    stage |= 1;
  } else if (!relay) {
    stage += stage % 2;
  }
  for (Value result : op.getResults())
    if (relay)
      onlyTile[result] = relay;
  return stage;
}

int SweepPlanner::findStoreStage(Value stream, int stage) {
  return !how.alternates ? stage : isOverRows(stream) ? stage | 1 : stage + stage % 2;
}

//===-- Stages ----------------------------------------------------------------===//

void SweepPlanner::findStages() {
  stages.clear(), onlyTile.clear(), plan.materialized.clear();
  for (const CommitOp::Write &write : step.getCommit().writes())
    if (ReduceOp reduce = storedAlone(write); reduce && how.alternates)
      alone.insert(reduce);
  for (Operation &op : step.getBody().front()) {
    int stage = earliest.lookup(&op);
    for (Value operand : op.getOperands())
      stage = std::max(stage, getStage(operand));
    stage = how.alternates ? alternated(op) : findTileStage(op, stage);
    if (endsSweep(op)) {
      auto it = performed.try_emplace(&op, stage).first;
      it->second = std::max(it->second, stage);
      stage = it->second + 1;
    }
    for (Value result : op.getResults())
      stages[result] = stage;
  }
}

// A reduction whose result is wanted late may share the sweep of a later stage.
void SweepPlanner::delayReductions() {
  int last = 0;
  for (auto &entry : stages)
    last = std::max(last, entry.second);
  DenseMap<Value, int> latest;
  for (Operation &op : llvm::reverse(step.getBody().front())) {
    for (Value operand : op.getOperands()) {
      int limit;
      if (isa<CommitOp>(op))
        limit = getStage(operand); // written as early as it is known
      else if (isWhole(op) || variances.isElement(op.getResult(0)))
        limit = getStage(op.getResult(0)) - (endsSweep(op) ? 1 : 0);
      else
        limit = latest.lookup_or(op.getResult(0), last);
      auto it = latest.try_emplace(operand, limit).first;
      it->second = std::min(it->second, limit);
    }
    if (endsSweep(op))
      performed[&op] = std::max(performed[&op], latest.lookup_or(op.getResult(0), last) - 1);
  }
  findStages();
}

void SweepPlanner::findOutputs() {
  plan.outputs.clear(), plan.stages = 0;
  CommitOp commit = step.getCommit();
  for (auto reduce : step.getBody().getOps<ReduceOp>())
    if (!reduce.isOverBlock())
      plan.outputs.push_back({reduce.getValue(), reduce, {}, {}, performed.lookup(reduce)});
  for (auto collect : step.getBody().getOps<CollectOp>())
    if (isGathered(collect))
      plan.outputs.push_back({collect.getElement(), {}, collect.getList(), {}, performed.lookup(collect)});
  // Who multiplies may fail: until then nothing is written.
  plan.products = 0;
  for (Operation &op : step.getBody().front())
    if (isa<GramOp, ProductOp>(op))
      plan.products = std::max(plan.products, getStage(op.getResult(0)));
  for (auto [list, stream, condition] : commit.writes()) {
    auto collect = list.getDefiningOp<CollectOp>();
    if (!collect)
      continue;
    int stage = std::max({getStage(collect.getElement()), condition ? getStage(condition) : 0, plan.products});
    plan.outputs.push_back({collect.getElement(), {}, stream, condition, findStoreStage(stream, stage)});
  }
  plan.alternates = how.alternates;
  for (const Output &output : plan.outputs) // a store may have to wait for one more
    plan.stages = std::max(plan.stages, output.stage + 1 + how.alternates);
}

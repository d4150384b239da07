// Which sweep computes what: when each value can be computed, what leaves a stage, what is computed twice or kept.
#include "passes/SweepPlan.h"

#include "dialect/RowSets.h"
#include "dialect/Variance.h"
#include "dialect/WalkBack.h"
#include "passes/SweepQueries.h"

using namespace mlir;
using namespace altgrad;

namespace {
// Stages first, then what is kept in memory.
class SweepPlanner {
public:
  SweepPlanner(StepOp step, Planning how);
  SweepPlan plan;

private:
  void findStages(), delayReductions(), findOutputs(), spillMaterialized(), delayStores(), countBytes();
  int getAlternatingStage(Operation &op);
  int findStoreStage(Value stream, int stage);
  int findTileStage(Operation &op, int stage);
  bool dependsOnlyOnTile(Operation &op, Operation *tile, int stage);
  bool separateTiles();
  bool areTilesValid();
  std::vector<Output> findLiveOuts();
  int findConflictingStage(Operation *most);
  bool cannotShareSweep(const Output &output, Operation *most, bool decided);
  bool computesAny(const Output &output, function_ref<bool(Operation *)> what, Value number = {});
  /// Whether a value of an earlier stage is in the workspace, because nobody computes it again.
  bool isMaterialized(Value value, int stage) { return plan.materialized.contains(value) && getStage(value) < stage; }
  void decideStages(int last), decideStage(int k);
  int getStage(Value value) { return stages.lookup(value); }
  Value findStreamHolding(Value value, int before);
  void walkElements(Value value, function_ref<bool(Value)> further);
  void findFrontier(Value value, int k, SetVector<Value> &frontier);
  void findLoads(Value value, int k, SetVector<Value> &streams);
  double getBytesPerElement(Value value);
  double stageCost(int k, ArrayRef<Value> frontier, const DenseSet<Value> &spilled);
  bool canRecompute(Value value, int k);

  StepOp step;
  Planning how;
  Variances variances;
  RowSets sets;
  DenseMap<Operation *, int> earliest;        // of reductions over tiles that wait
  DenseMap<Value, int> stages;                // when a value can be computed
  DenseSet<Operation *> soleReductions;       // reductions over tiles of which one list is all
  DenseMap<Operation *, int> reductionStages; // the sweep of a reduction
  DenseMap<Value, Operation *> onlyTile;      // the only tile reduction a value depends on
};
} // namespace

SweepPlanner::SweepPlanner(StepOp step, Planning how) : step(step), how(how), variances(step), sets(step) {
  do {
    findStages();
    if (how.late && !how.alternates)
      delayReductions();
    findOutputs();
  } while (separateTiles());
  spillMaterialized();
  for (int k = 1; how.spill && k < plan.stages; ++k)
    decideStages(k);
  if (!how.spill)
    delayStores();
  plan.possible &= areTilesValid();
  countBytes();
}

//===-- Tiles, and what waits for them ----------------------------------------===//

// Whether a list has what columns or squares share.
static bool isOverRows(Value list) {
  auto type = dyn_cast<TensorsType>(list.getType());
  return type && type.getBlock().isOverRows();
}

// Whether an operation reduces more than a sweep has at hand.
static bool isGlobalReduction(Operation &op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && !reduce.isOverBlock();
}

static bool isCollected(Operation &op) { return isMatrixInput(&op) && !getStoredList(op.getResult(0)); }
// What depends on it waits for the end of its sweep.
static bool endsSweep(Operation &op) { return isGlobalReduction(op) || isCollected(op); }

// Whether the stage of an output computes an operation for it that `what` accepts. Called before reloads are chosen;
// `number` stands for the value that an earlier sweep computes.
bool SweepPlanner::computesAny(const Output &output, function_ref<bool(Operation *)> what, Value number) {
  bool found = false;
  walkElements(output.value, [&](Value needed) {
    if (isMaterialized(needed, output.stage) || plan.reloaded.contains({output.stage, needed}) ||
        (needed == number && getStage(needed) < output.stage))
      return false;
    found |= what(needed.getDefiningOp());
    return !found;
  });
  return found;
}

// Whether a sweep over tiles has no place for an output: sums, codes and blocks that tiles would cut, the reduction
// over another tile, and what differs between the rows of a tile.
bool SweepPlanner::cannotShareSweep(const Output &output, Operation *most, bool decided) {
  auto isOfUnit = [&](Value operand) { return variances.getScope(operand) == Scope::Unit; };
  auto isCut = [&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op))
      return decided && isCutByTiles(cast<TensorsType>(load.getTensors().getType()));
    auto reduce = dyn_cast<ReduceOp>(op);
    return (most && isOverTile(op) && op != most) || llvm::any_of(op->getOperands(), isOfUnit) ||
           (reduce && reduce.isOverBlock() && reduce.getRun() > tileColumns);
  };
  auto type = output.stream ? cast<TensorsType>(output.stream.getType()) : TensorsType();
  bool isBehindTile = type && type.getPacked() && most &&
                      computesAny(output, [&](Operation *op) { return op == most; });
  return output.reduce || (type && isCutByTiles(type) && !isBehindTile) ||
         computesAny(output, isCut, most && !decided ? most->getOperand(0) : Value());
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
    if (computesAny(output, [&](Operation *op) { return op == most; }) && llvm::any_of(all, cannot))
      return output.stage;
    if (crosses && output.stream && cast<TensorsType>(output.stream.getType()).getBlock().isOverRows() &&
        onlyTile.lookup(output.value) == most && getStage(most->getResult(0)) < output.stage)
      return output.stage - 1;
  }
  return -1;
}

// Whether every sweep that goes over tiles can.
bool SweepPlanner::areTilesValid() {
  if (how.alternates)
    return true;
  std::vector<Output> all = findLiveOuts();
  for (const Output &output : all) {
    Operation *tile = nullptr;
    bool loads = false;
    computesAny(output, [&](Operation *op) {
      auto load = dyn_cast<LoadOp>(op);
      tile = isOverTile(op) ? op : tile;
      loads |= load && isOverRows(load.getTensors());
      return false;
    });
    walkElements(output.value, [&](Value needed) {
      bool isReloaded = plan.reloaded.contains({output.stage, needed});
      loads |= isReloaded && plan.blocks.contains(needed);
      return !isReloaded;
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
    walkElements(operand, [&](Value needed) {
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
  auto waitsForTile = [&](Value operand) { return onlyTile.contains(operand) && !isMaterialized(operand, stage); };
  for (Value operand : op.getOperands())
    tile = waitsForTile(operand) ? onlyTile.lookup(operand) : tile;
  if (tile && !isa<CommitOp>(op) && !dependsOnlyOnTile(op, tile, stage)) {
    for (Value operand : op.getOperands())
      if (waitsForTile(operand)) {
        plan.materialized.insert(operand.getType().isF32() ? operand : onlyTile.lookup(operand)->getResult(0));
        stage = std::max(stage, getStage(operand) + 1);
      }
    tile = nullptr;
  }
  if (isOverTile(&op)) {
    if (Value number = op.getOperand(0); how.separate && getStage(number) == stage) {
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
static ReduceOp getStoredReduction(const CommitOp::Write &write) {
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
    if (!collect || !isOverRows(write.target) || getStoredReduction(write))
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
int SweepPlanner::getAlternatingStage(Operation &op) {
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
    if (soleReductions.contains(&op))
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

// The first stage from `stage` on in which a stream may be stored.
int SweepPlanner::findStoreStage(Value stream, int stage) {
  return !how.alternates ? stage : isOverRows(stream) ? stage | 1 : stage + stage % 2;
}

//===-- Stages ----------------------------------------------------------------===//

void SweepPlanner::findStages() {
  stages.clear(), onlyTile.clear(), plan.materialized.clear();
  for (const CommitOp::Write &write : step.getCommit().writes())
    if (ReduceOp reduce = getStoredReduction(write); reduce && how.alternates)
      soleReductions.insert(reduce);
  for (Operation &op : step.getBody().front()) {
    int stage = earliest.lookup(&op);
    for (Value operand : op.getOperands())
      stage = std::max(stage, getStage(operand));
    stage = how.alternates ? getAlternatingStage(op) : findTileStage(op, stage);
    if (endsSweep(op)) {
      auto it = reductionStages.try_emplace(&op, stage).first;
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
      else if (isGlobalReduction(op) || variances.isElement(op.getResult(0)))
        limit = getStage(op.getResult(0)) - (endsSweep(op) ? 1 : 0);
      else
        limit = latest.lookup_or(op.getResult(0), last);
      auto it = latest.try_emplace(operand, limit).first;
      it->second = std::min(it->second, limit);
    }
    if (endsSweep(op))
      reductionStages[&op] = std::max(reductionStages[&op], latest.lookup_or(op.getResult(0), last) - 1);
  }
  findStages();
}

void SweepPlanner::findOutputs() {
  plan.outputs.clear(), plan.stages = 0;
  CommitOp commit = step.getCommit();
  for (auto reduce : step.getBody().getOps<ReduceOp>())
    if (!reduce.isOverBlock())
      plan.outputs.push_back({reduce.getValue(), reduce, {}, {}, reductionStages.lookup(reduce)});
  for (auto collect : step.getBody().getOps<CollectOp>())
    if (isCollected(*collect))
      plan.outputs.push_back({collect.getElement(), {}, collect.getList(), {}, reductionStages.lookup(collect)});
  // Who multiplies may fail: until then nothing is written.
  plan.products = 0;
  for (Operation &op : step.getBody().front())
    if (isMatrixProduct(&op))
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

//===-- What is computed again and what is kept -------------------------------===//

static bool hasWorkspaceFormat(Value value) { return bool(getWorkspaceFormat(value)); }

// Of a list, or of a value that waits in the workspace: what a column has is one row of many.
double SweepPlanner::getBytesPerElement(Value value) {
  if (auto tensors = dyn_cast<TensorsType>(value.getType()))
    return tensors.getBytes();
  if (variances.of(value).hasOwnWalk())
    return 0;
  BlockAttr block = plan.blocks.lookup(value);
  double elements = block ? block.getRows() * block.getColumns() : 1;
  return (hasWorkspaceFormat(value) ? getWorkspaceFormat(value).getBytes() : sizeof(float)) / elements;
}

// Visits, once each, the elements that `value` is computed from, back to what is loaded;
// `further` says whether to go on to the operands of one.
void SweepPlanner::walkElements(Value value, function_ref<bool(Value)> further) {
  walkBack(value, [&](Value needed) {
    return variances.isElement(needed) && further(needed) && !needed.getDefiningOp<LoadOp>() &&
           !isOverColumn(needed.getDefiningOp());
  });
}

// All streams that computing `value` at stage `k` loads.
void SweepPlanner::findLoads(Value value, int k, SetVector<Value> &streams) {
  walkElements(value, [&](Value needed) {
    if (auto it = plan.reloaded.find({k, needed}); it != plan.reloaded.end())
      streams.insert(it->second ? it->second : needed);
    else if (auto load = needed.getDefiningOp<LoadOp>())
      streams.insert(load.getTensors());
    else if (isOverColumn(needed.getDefiningOp()))
      streams.insert(needed);
    else
      return true;
    return false;
  });
}

// Nobody computes again what a sweep over tiles has found for others.
void SweepPlanner::spillMaterialized() {
  for (Value value : plan.materialized) {
    plan.spilled.insert({value, getStage(value)});
    if (BlockAttr block = variances.of(value); how.shared && block.isOverRows())
      plan.blocks[value] = block;
    for (int k = getStage(value) + 1; k < plan.stages; ++k)
      plan.reloaded[{k, value}] = Value();
  }
}

// Without a workspace the old content must outlive its last reader.
void SweepPlanner::delayStores() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Output &reader : findLiveOuts()) {
      SetVector<Value> streams;
      findLoads(reader.value, reader.stage, streams);
      for (Output &writer : plan.outputs)
        if (writer.stream && streams.contains(writer.stream) && writer.stage < reader.stage) {
          writer.stage = findStoreStage(writer.stream, reader.stage);
          changed = true;
        }
    }
  }
}

// Values an earlier stage could have computed, where stage `k` first meets them;
// instead of one that must be kept and cannot, what it is computed from.
void SweepPlanner::findFrontier(Value value, int k, SetVector<Value> &frontier) {
  walkElements(value, [&](Value needed) {
    if (isMaterialized(needed, k))
      return false;
    bool computed = !needed.getDefiningOp<LoadOp>();
    auto decode = needed.getDefiningOp<DecodeOp>(); // whose code is shorter
    auto reduce = needed.getDefiningOp<ReduceOp>(); // over a block, whose numbers are there
    if ((decode && hasWorkspaceFormat(decode.getCode())) || (reduce && findStreamHolding(reduce.getValue(), k)))
      return true;
    if (getStage(needed) >= k || (computed && !hasWorkspaceFormat(needed) && !canRecompute(needed, k)))
      return true;
    frontier.insert(needed);
    return false;
  });
}

// Whether stage `k` can still compute `value` from streams.
bool SweepPlanner::canRecompute(Value value, int k) {
  SetVector<Value> streams;
  findLoads(value, k, streams);
  return llvm::all_of(plan.outputs, [&](const Output &output) {
    return !output.stream || output.stage >= k || !streams.contains(output.stream);
  });
}

// A stream that holds exactly `value` before stage `k`, or null. What is stored under
// a condition is there for sweeps under the same one, of which nothing is kept.
Value SweepPlanner::findStreamHolding(Value value, int k) {
  auto seenIf = [&](Value condition) {
    return !condition ||
           (!how.alternates && k + 1 == plan.stages && llvm::all_of(plan.outputs, [&](const Output &output) {
             return output.stage != k || output.condition == condition;
           }));
  };
  for (const Output &output : plan.outputs) {
    // The buffer of a matrix may be another's by then.
    if (!isa_and_nonnull<BlockArgument>(output.stream) || output.stage >= k || !seenIf(output.condition))
      continue;
    auto encode = output.value.getDefiningOp<EncodeOp>();
    if (encode && encode.getNumber() == value && encode.getFormat().isF32())
      return output.stream;
  }
  return {};
}

// Bytes per element that stage `k` pays for its frontier.
double SweepPlanner::stageCost(int k, ArrayRef<Value> frontier, const DenseSet<Value> &spilled) {
  double bytes = 0;
  SetVector<Value> streams;
  for (Value value : frontier) {
    if (!spilled.contains(value)) {
      findLoads(value, k, streams);
      continue;
    }
    if (Value copy = findStreamHolding(value, k))
      streams.insert(copy);
    else // written once, read here
      bytes += getBytesPerElement(value) * (plan.spilled.count(value) ? 1 : 2);
  }
  for (Value stream : streams)
    bytes += getBytesPerElement(stream);
  return bytes;
}

void SweepPlanner::decideStage(int k) {
  SetVector<Value> frontier;
  for (const Output &output : findLiveOuts())
    if (output.stage == k)
      findFrontier(output.value, k, frontier);
  DenseSet<Value> spilled;
  for (Value value : frontier)
    if (!canRecompute(value, k))
      spilled.insert(value);
  for (Value value : frontier) {
    if (spilled.contains(value) || !hasWorkspaceFormat(value))
      continue;
    double before = stageCost(k, frontier.getArrayRef(), spilled);
    spilled.insert(value);
    if (stageCost(k, frontier.getArrayRef(), spilled) >= before)
      spilled.erase(value);
  }
  for (Value value : frontier) {
    if (!spilled.contains(value))
      continue;
    Value copy = findStreamHolding(value, k);
    plan.reloaded[{k, value}] = copy;
    if (!copy)
      plan.spilled.insert({value, getStage(value)});
    if (BlockAttr block = variances.of(value); block.hasOwnWalk())
      plan.blocks[value] = block;
  }
}

// What an earlier stage keeps for this one, that stage has to compute: what it loads is decided again.
void SweepPlanner::decideStages(int last) {
  SmallVector<int> undecided{last};
  while (!undecided.empty()) {
    size_t known = plan.spilled.size();
    decideStage(undecided.pop_back_val());
    for (auto [value, stage] : llvm::drop_begin(plan.spilled, known))
      if (stage > 0)
        undecided.push_back(stage);
  }
}

void SweepPlanner::countBytes() {
  for (int k = 0; k < plan.stages; ++k) {
    SetVector<Value> streams;
    for (const Output &output : plan.outputs) {
      if (output.stage != k)
        continue;
      findLoads(output.value, k, streams);
      if (output.stream)
        plan.bytes += getBytesPerElement(output.stream);
    }
    for (auto [value, stage] : plan.spilled)
      if (stage == k) {
        findLoads(value, k, streams);
        plan.bytes += getBytesPerElement(value);
        plan.possible &= hasWorkspaceFormat(value);
      }
    for (Value stream : streams)
      plan.bytes += getBytesPerElement(stream);
  }
}

// Stages with sums over units and over tensors, which are two phases of folds.
static unsigned countDoubleFolds(const SweepPlan &plan) {
  SmallVector<unsigned> scopes(plan.stages); // a bit for units, one for tensors
  for (const Output &output : plan.outputs)
    scopes[output.stage] |= !output.reduce ? 0 : ReduceOp(output.reduce).getScope() == Scope::Unit ? 1 : 2;
  return llvm::count(scopes, 3u);
}

// Of equal plans the one without a workspace, with early reductions unless units make more phases of them.
PlanChoice altgrad::planSweeps(StepOp step, Planning way) {
  auto better = [](const SweepPlan &one, const SweepPlan &other) {
    auto cost = [](const SweepPlan &plan) { return std::tuple(!plan.possible, plan.bytes, countDoubleFolds(plan)); };
    return cost(one) < cost(other);
  };
  auto best = [&](bool spill) {
    way.spill = spill;
    way.late = false;
    SweepPlan early = SweepPlanner(step, way).plan;
    way.late = true;
    SweepPlan late = SweepPlanner(step, way).plan;
    return better(late, early) ? late : early;
  };
  SweepPlan recompute = best(false), spilled = best(true);
  return {better(spilled, recompute) ? spilled : recompute, recompute.bytes, spilled.bytes};
}

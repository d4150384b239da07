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

// Whether the stage of a sink computes an operation for it that `what` accepts. Called before reloads are chosen;
// `number` stands for the value that an earlier sweep computes.
bool SweepPlanner::needs(const Sink &sink, function_ref<bool(Operation *)> what, Value number) {
  bool found = false;
  walkBack(sink.value, [&](Value needed) {
    if (waits(needed, sink.stage) || plan.reloaded.contains({sink.stage, needed}) ||
        (needed == number && stageOf(needed) < sink.stage))
      return false;
    found |= what(needed.getDefiningOp());
    return !found;
  });
  return found;
}

// Whether a sweep over tiles has no place for a sink: sums, codes and blocks that tiles would cut, the reduction over
// another tile, and what differs between the rows of a tile.
bool SweepPlanner::cannotJoin(const Sink &sink, Operation *most, bool decided) {
  auto isOfUnit = [&](Value operand) { return variances.scopeOf(operand) == Scope::Unit; };
  auto isCut = [&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op))
      return decided && isCutByTiles(cast<TensorsType>(load.getTensors().getType()));
    auto reduce = dyn_cast<ReduceOp>(op);
    return (most && isOverTile(op) && op != most) || llvm::any_of(op->getOperands(), isOfUnit) ||
           (reduce && reduce.isOverBlock() && reduce.getRun() > tileColumns);
  };
  return sink.reduce || (sink.stream && isCutByTiles(cast<TensorsType>(sink.stream.getType()))) ||
         needs(sink, isCut, most && !decided ? most->getOperand(0) : Value());
}

// What sweeps store or reduce.
std::vector<Sink> SweepPlanner::leaving() {
  std::vector<Sink> all = plan.sinks;
  for (Value value : plan.crossing)
    all.push_back({value, {}, {}, {}, stageOf(value)});
  for (auto [value, stage] : plan.spilled)
    if (!plan.crossing.contains(value))
      all.push_back({value, {}, {}, {}, stage});
  return all;
}

// First stage at which a store that depends on a reduction over tiles must be split off: its sweep has something that
// cannot go over tiles, or a list of the tiles would be stored too late. -1: there is none.
int SweepPlanner::meetsOthers(Operation *most) {
  auto set = sets.of(most->getOperand(0));
  std::vector<Sink> all = leaving();
  bool crosses = llvm::any_of(plan.crossing, [&](Value value) { return behind.lookup(value) == most; });
  for (const Sink &sink : all) {
    auto cannot = [&](const Sink &other) {
      return other.stage == sink.stage && sets.of(other.value) == set && cannotJoin(other, most, /*decided=*/false);
    };
    if (needs(sink, [&](Operation *op) { return op == most; }) && llvm::any_of(all, cannot))
      return sink.stage;
    if (crosses && sink.stream && cast<TensorsType>(sink.stream.getType()).getBlock().isOverRows() &&
        behind.lookup(sink.value) == most && stageOf(most->getResult(0)) < sink.stage)
      return sink.stage - 1;
  }
  return -1;
}

// Whether every sweep that goes over tiles can.
bool SweepPlanner::suitsTiles() {
  if (how.alternates)
    return true;
  std::vector<Sink> all = leaving();
  for (const Sink &sink : all) {
    Operation *tile = nullptr;
    bool loads = false;
    needs(sink, [&](Operation *op) {
      auto load = dyn_cast<LoadOp>(op);
      tile = isOverTile(op) ? op : tile;
      loads |= load && isOverRows(load.getTensors());
      return false;
    });
    walkBack(sink.value, [&](Value needed) {
      bool isKept = plan.reloaded.contains({sink.stage, needed});
      loads |= isKept && plan.blocks.contains(needed);
      return !isKept;
    });
    auto cannot = [&](const Sink &other) {
      return other.stage == sink.stage && sets.of(other.value) == sets.of(sink.value) &&
             cannotJoin(other, tile, /*decided=*/true);
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
    if (int met = isOverTile(&op) ? meetsOthers(&op) : -1;
        met >= 0 && met < most && earliest.lookup(&op) <= met) {
      earliest[&op] = met + 1;
      return true;
    }
  return false;
}

// Whether a stage computes an operation from nothing but scalars, a reduction over a tile and what that reduces.
bool SweepPlanner::isOfTile(Operation &op, Operation *tile, int stage) {
  return !isa<ReduceOp>(op) && llvm::all_of(op.getOperands(), [&](Value operand) {
    bool reads = variances.scopeOf(operand) == Scope::Unit;
    walkBack(operand, [&](Value needed) {
      Operation *from = needed.getDefiningOp();
      reads |= waits(needed, stage);
      bool isOfList = isa<LoadOp>(from) && variances.of(needed) == cast<ReduceOp>(tile).getOver();
      if (reads || isOfList || needed == tile->getOperand(0) || behind.lookup(needed) == tile)
        return false;
      reads = isa<LoadOp, ReduceOp, DrawOp>(from) || !from->getNumOperands();
      return !reads;
    });
    return !reads;
  });
}

// What reads more of its element than a reduction over a tile does waits for the next sweep, which finds in the
// workspace what is computed from that reduction alone.
int SweepPlanner::behindTile(Operation &op, int stage) {
  Operation *tile = nullptr;
  auto isBehind = [&](Value operand) { return behind.contains(operand) && !waits(operand, stage); };
  for (Value operand : op.getOperands())
    tile = isBehind(operand) ? behind.lookup(operand) : tile;
  if (tile && !isa<CommitOp>(op) && !isOfTile(op, tile, stage)) {
    for (Value operand : op.getOperands())
      if (isBehind(operand)) {
        plan.crossing.insert(operand.getType().isF32() ? operand : behind.lookup(operand)->getResult(0));
        stage = std::max(stage, stageOf(operand) + 1);
      }
    tile = nullptr;
  }
  if (isOverTile(&op)) {
    if (Value number = op.getOperand(0); how.apart && stageOf(number) == stage) {
      plan.crossing.insert(number);
      ++stage;
    }
    tile = &op;
  }
  for (Value result : op.getResults())
    if (tile)
      behind[result] = tile;
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
    stage = std::max(stage, stageOf(operand));
    relay = behind.contains(operand) ? behind.lookup(operand) : relay;
  }
  auto load = isa<LoadOp>(op) ? cast<LoadOp>(op) : op.getNumOperands() ? op.getOperand(0).getDefiningOp<LoadOp>() : LoadOp();
  if (isOverTile(&op)) {
    plan.crossing.insert(op.getOperand(0));
    stage = (stageOf(op.getOperand(0)) + 1) | 1;
    if (alone.contains(&op))
      relay = &op;
    else
      plan.crossing.insert(op.getResult(0));
  } else if (load && isOverRows(load.getTensors()) && op.getResult(0).getType().isF32()) {
    plan.crossing.insert(op.getResult(0));
    stage |= 1;
  } else if (!relay) {
    stage += stage % 2;
  }
  for (Value result : op.getResults())
    if (relay)
      behind[result] = relay;
  return stage;
}

int SweepPlanner::placeOf(Value stream, int stage) {
  return !how.alternates ? stage : isOverRows(stream) ? stage | 1 : stage + stage % 2;
}

//===-- Stages ----------------------------------------------------------------===//

void SweepPlanner::findStages() {
  stages.clear(), behind.clear(), plan.crossing.clear();
  for (const CommitOp::Write &write : step.getCommit().writes())
    if (ReduceOp reduce = storedAlone(write); reduce && how.alternates)
      alone.insert(reduce);
  for (Operation &op : step.getBody().front()) {
    int stage = earliest.lookup(&op);
    for (Value operand : op.getOperands())
      stage = std::max(stage, stageOf(operand));
    stage = how.alternates ? alternated(op) : behindTile(op, stage);
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
        limit = stageOf(operand); // written as early as it is known
      else if (isWhole(op) || variances.isElement(op.getResult(0)))
        limit = stageOf(op.getResult(0)) - (endsSweep(op) ? 1 : 0);
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

void SweepPlanner::findSinks() {
  plan.sinks.clear(), plan.stages = 0;
  CommitOp commit = step.getCommit();
  for (auto reduce : step.getBody().getOps<ReduceOp>())
    if (!reduce.isOverBlock())
      plan.sinks.push_back({reduce.getValue(), reduce, {}, {}, performed.lookup(reduce)});
  for (auto collect : step.getBody().getOps<CollectOp>())
    if (isGathered(collect))
      plan.sinks.push_back({collect.getElement(), {}, collect.getList(), {}, performed.lookup(collect)});
  // Who multiplies may fail: until then nothing is written.
  plan.products = 0;
  for (Operation &op : step.getBody().front())
    if (isa<GramOp, ProductOp>(op))
      plan.products = std::max(plan.products, stageOf(op.getResult(0)));
  for (auto [list, stream, condition] : commit.writes()) {
    auto collect = list.getDefiningOp<CollectOp>();
    if (!collect)
      continue;
    int stage = std::max({stageOf(collect.getElement()), condition ? stageOf(condition) : 0, plan.products});
    plan.sinks.push_back({collect.getElement(), {}, stream, condition, placeOf(stream, stage)});
  }
  plan.alternates = how.alternates;
  for (const Sink &sink : plan.sinks) // a store may have to wait for one more
    plan.stages = std::max(plan.stages, sink.stage + 1 + how.alternates);
}


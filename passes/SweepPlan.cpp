// Stages of values, and the choice between computing twice and keeping.
#include "passes/SweepPlan.h"

#include "dialect/RowSets.h"
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

namespace {
class Planner {
public:
  Planner(StepOp step, bool late, bool spill) : step(step), variances(step), sets(step) {
    do {
      findStages();
      if (late)
        delayReductions();
      findSinks();
    } while (separateTiles());
    if (spill)
      decideReloads();
    else
      delayStores();
    for (Operation &op : step.getBody().front())
      plan.possible &= !isOverTile(&op) || meetsOthers(&op, /*decided=*/true) < 0;
    countBytes();
  }
  SweepPlan plan;

private:
  bool separateTiles();
  int meetsOthers(Operation *most, bool decided);
  bool isOfUnit(const Sink &sink, Value number, bool decided);
  void findStages();
  void delayReductions();
  void findSinks();
  void delayStores();
  void decideReloads();
  void decideStage(int k);
  void countBytes();
  int stageOf(Value value) { return stages.lookup(value); }
  int storedAt(Value stream);
  Value storedCopy(Value value, int before);
  void walkBack(Value value, function_ref<bool(Value)> further);
  void findFrontier(Value value, int k, SetVector<Value> &frontier);
  void findLoads(Value value, int k, SetVector<Value> &streams);
  double stageCost(int k, ArrayRef<Value> frontier, const DenseSet<Value> &kept);
  bool valid(Value value, int k);

  StepOp step;
  Variances variances;
  RowSets sets;
  DenseMap<Operation *, int> earliest;  // of maxima of tiles that wait
  DenseMap<Value, int> stages;          // when a value can be computed
  DenseMap<Operation *, int> performed; // the sweep of a reduction
};
} // namespace

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

FormatAttr altgrad::keptFormat(Value value) {
  if (value.getType().isF32())
    return FormatAttr::getNamed(value.getContext(), "f32");
  auto encode = value.getDefiningOp<EncodeOp>();
  return encode && encode.getFormat().getBits() == 16 ? encode.getFormat() : FormatAttr();
}

static bool fits(Value value) { return bool(keptFormat(value)); }
static double bytesKept(Value value) { return fits(value) ? keptFormat(value).getBytes() : sizeof(float); }

static double bytesOf(Value stream) { return cast<TensorsType>(stream.getType()).getBytes(); }

// Whether the sweep of a sink computes it from something of a unit. Before it is
// decided what is loaded instead, that is `number` where an earlier sweep computes it.
bool Planner::isOfUnit(const Sink &sink, Value number, bool decided) {
  bool found = false;
  walkBack(sink.value, [&](Value needed) {
    bool loaded =
        decided ? plan.reloaded.contains({sink.stage, needed}) : needed == number && stageOf(needed) < sink.stage;
    Operation *op = needed.getDefiningOp();
    if (loaded || isa<LoadOp>(op))
      return false;
    found |= llvm::any_of(op->getOperands(), [&](Value operand) { return variances.scopeOf(operand) == Scope::Unit; });
    return !found;
  });
  return found;
}

// The stage at which what waits for the largest of a tile is stored beside something
// that a sweep over tiles has no place for: sums, codes that tiles would cut, and what
// differs between the rows of a tile. Or -1.
int Planner::meetsOthers(Operation *most, bool decided) {
  Value number = most->getOperand(0);
  auto set = sets.of(number);
  for (const Sink &sink : plan.sinks) {
    bool waits = false;
    walkBack(sink.value, [&](Value needed) {
      waits |= needed.getDefiningOp() == most;
      return !waits && !needed.getDefiningOp<LoadOp>();
    });
    auto cannot = [&](const Sink &other) {
      return other.stage == sink.stage && sets.of(other.value) == set &&
             (other.reduce || isCutByTiles(cast<TensorsType>(other.stream.getType())) ||
              isOfUnit(other, number, decided));
    };
    if (waits && llvm::any_of(plan.sinks, cannot))
      return sink.stage;
  }
  return -1;
}

// Such a maximum is found by the next sweep.
bool Planner::separateTiles() {
  bool changed = false;
  for (Operation &op : step.getBody().front())
    if (int met = isOverTile(&op) ? meetsOthers(&op, /*decided=*/false) : -1; met >= 0 && earliest.lookup(&op) <= met) {
      earliest[&op] = met + 1;
      changed = true;
    }
  return changed;
}

void Planner::findStages() {
  stages.clear();
  for (Operation &op : step.getBody().front()) {
    int stage = earliest.lookup(&op);
    for (Value operand : op.getOperands())
      stage = std::max(stage, stageOf(operand));
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
void Planner::delayReductions() {
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

void Planner::findSinks() {
  plan.sinks.clear(), plan.stages = 0;
  CommitOp commit = step.getCommit();
  for (auto reduce : step.getBody().getOps<ReduceOp>()) {
    if (reduce.isOverBlock())
      continue;
    Sink sink;
    sink.value = reduce.getValue();
    sink.reduce = reduce;
    sink.stage = performed.lookup(reduce);
    plan.sinks.push_back(sink);
  }
  for (auto collect : step.getBody().getOps<CollectOp>()) {
    if (!isGathered(collect))
      continue;
    Sink sink;
    sink.value = collect.getElement();
    sink.stream = collect.getList();
    sink.stage = performed.lookup(collect);
    plan.sinks.push_back(sink);
  }
  // Who multiplies may fail: until then nothing is written.
  plan.products = 0;
  for (Operation &op : step.getBody().front())
    if (isa<GramOp, ProductOp>(op))
      plan.products = std::max(plan.products, stageOf(op.getResult(0)));
  for (auto [list, stream, condition] : commit.writes()) {
    auto collect = list.getDefiningOp<CollectOp>();
    if (!collect)
      continue;
    Sink sink;
    sink.value = collect.getElement();
    sink.stream = stream;
    sink.condition = condition;
    sink.stage = std::max({stageOf(sink.value), condition ? stageOf(condition) : 0, plan.products});
    plan.sinks.push_back(sink);
  }
  for (const Sink &sink : plan.sinks)
    plan.stages = std::max(plan.stages, sink.stage + 1);
}

// The stage after which a stream holds its new content.
int Planner::storedAt(Value stream) {
  for (const Sink &sink : plan.sinks)
    if (sink.stream == stream)
      return sink.stage;
  return std::numeric_limits<int>::max();
}

// Visits, once each, the elements that `value` is computed from, back to what is loaded;
// `further` says whether to go on to the operands of one.
void Planner::walkBack(Value value, function_ref<bool(Value)> further) {
  SetVector<Value> work;
  work.insert(value);
  for (size_t i = 0; i < work.size(); ++i)
    if (Value needed = work[i]; variances.isElement(needed) && further(needed) && !needed.getDefiningOp<LoadOp>())
      work.insert_range(needed.getDefiningOp()->getOperands());
}

// All streams that computing `value` at stage `k` loads.
void Planner::findLoads(Value value, int k, SetVector<Value> &streams) {
  walkBack(value, [&](Value needed) {
    if (auto it = plan.reloaded.find({k, needed}); it != plan.reloaded.end())
      streams.insert(it->second ? it->second : needed);
    else if (auto load = needed.getDefiningOp<LoadOp>())
      streams.insert(load.getTensors());
    else
      return true;
    return false;
  });
}

// Without a workspace the old content must outlive its last reader.
void Planner::delayStores() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Sink &reader : plan.sinks) {
      SetVector<Value> streams;
      findLoads(reader.value, reader.stage, streams);
      for (Sink &writer : plan.sinks)
        if (writer.stream && streams.contains(writer.stream) && writer.stage < reader.stage) {
          writer.stage = reader.stage;
          changed = true;
        }
    }
  }
}

// Values an earlier stage could have computed, where stage `k` first meets them;
// instead of one that must be kept and cannot, what it is computed from.
void Planner::findFrontier(Value value, int k, SetVector<Value> &frontier) {
  walkBack(value, [&](Value needed) {
    bool computed = !needed.getDefiningOp<LoadOp>();
    if (auto decode = needed.getDefiningOp<DecodeOp>(); decode && fits(decode.getCode()))
      return true; // the code is shorter
    if (stageOf(needed) >= k || (computed && !fits(needed) && !valid(needed, k)))
      return true;
    frontier.insert(needed);
    return false;
  });
}

// Whether stage `k` can still compute `value` from streams.
bool Planner::valid(Value value, int k) {
  SetVector<Value> streams;
  findLoads(value, k, streams);
  return llvm::all_of(streams, [&](Value stream) { return storedAt(stream) >= k; });
}

// A stream that holds exactly `value` before stage `k`, or null. What is stored under
// a condition is there for sweeps under the same one, of which nothing is kept.
Value Planner::storedCopy(Value value, int k) {
  auto seenIf = [&](Value condition) {
    return !condition || (k + 1 == plan.stages && llvm::all_of(plan.sinks, [&](const Sink &sink) {
                            return sink.stage != k || sink.condition == condition;
                          }));
  };
  for (const Sink &sink : plan.sinks) {
    if (!sink.stream || sink.stage >= k || !seenIf(sink.condition))
      continue;
    auto encode = sink.value.getDefiningOp<EncodeOp>();
    if (encode && encode.getNumber() == value && encode.getFormat().isF32())
      return sink.stream;
  }
  return {};
}

// Bytes per element that stage `k` pays for its frontier.
double Planner::stageCost(int k, ArrayRef<Value> frontier, const DenseSet<Value> &kept) {
  double bytes = 0;
  SetVector<Value> streams;
  for (Value value : frontier) {
    if (!kept.contains(value)) {
      findLoads(value, k, streams);
      continue;
    }
    if (Value copy = storedCopy(value, k))
      streams.insert(copy);
    else // written once, read here
      bytes += bytesKept(value) * (plan.spilled.count(value) ? 1 : 2);
  }
  for (Value stream : streams)
    bytes += isa<TensorsType>(stream.getType()) ? bytesOf(stream) : bytesKept(stream);
  return bytes;
}

void Planner::decideStage(int k) {
  SetVector<Value> frontier;
  for (const Sink &sink : plan.sinks)
    if (sink.stage == k)
      findFrontier(sink.value, k, frontier);
  DenseSet<Value> kept;
  for (Value value : frontier)
    if (!valid(value, k))
      kept.insert(value);
  for (Value value : frontier) {
    if (kept.contains(value) || !fits(value))
      continue;
    double before = stageCost(k, frontier.getArrayRef(), kept);
    kept.insert(value);
    if (stageCost(k, frontier.getArrayRef(), kept) >= before)
      kept.erase(value);
  }
  for (Value value : frontier) {
    if (!kept.contains(value))
      continue;
    Value copy = storedCopy(value, k);
    plan.reloaded[{k, value}] = copy;
    if (!copy)
      plan.spilled.insert({value, stageOf(value)});
  }
}

void Planner::decideReloads() {
  for (int k = 1; k < plan.stages; ++k)
    decideStage(k);
}

void Planner::countBytes() {
  for (int k = 0; k < plan.stages; ++k) {
    SetVector<Value> streams;
    for (const Sink &sink : plan.sinks) {
      if (sink.stage != k)
        continue;
      findLoads(sink.value, k, streams);
      if (sink.stream)
        plan.bytes += bytesOf(sink.stream);
    }
    for (auto [value, stage] : plan.spilled)
      if (stage == k) {
        findLoads(value, k, streams);
        plan.bytes += bytesKept(value);
        plan.possible &= fits(value);
      }
    for (Value stream : streams)
      plan.bytes += isa<TensorsType>(stream.getType()) ? bytesOf(stream) : bytesKept(stream);
  }
}

// Stages with sums over units and over tensors, which are two phases of folds.
static unsigned doubleFolds(const SweepPlan &plan) {
  SmallVector<unsigned> scopes(plan.stages); // a bit for units, one for tensors
  for (const Sink &sink : plan.sinks)
    scopes[sink.stage] |= !sink.reduce ? 0 : ReduceOp(sink.reduce).getScope() == Scope::Unit ? 1 : 2;
  return llvm::count(scopes, 3u);
}

// Of equal plans the one without a workspace, with early reductions unless units make more phases of them.
PlanChoice altgrad::planSweeps(StepOp step) {
  auto better = [](const SweepPlan &one, const SweepPlan &other) {
    auto cost = [](const SweepPlan &plan) { return std::tuple(!plan.possible, plan.bytes, doubleFolds(plan)); };
    return cost(one) < cost(other);
  };
  auto best = [&](bool spill) {
    SweepPlan early = Planner(step, /*late=*/false, spill).plan;
    SweepPlan late = Planner(step, /*late=*/true, spill).plan;
    return better(late, early) ? late : early;
  };
  SweepPlan recompute = best(/*spill=*/false), kept = best(/*spill=*/true);
  PlanChoice choice;
  choice.recomputeBytes = recompute.bytes;
  choice.spillBytes = kept.bytes;
  choice.plan = better(kept, recompute) ? kept : recompute;
  return choice;
}

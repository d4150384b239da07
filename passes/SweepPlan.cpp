// Stages of values, and the choice between computing twice and keeping.
#include "passes/SweepPlanner.h"

using namespace mlir;
using namespace altgrad;

FormatAttr altgrad::keptFormat(Value value) {
  if (value.getType().isF32())
    return FormatAttr::getNamed(value.getContext(), "f32");
  auto encode = value.getDefiningOp<EncodeOp>();
  return encode && encode.getFormat().getBits() == 16 ? encode.getFormat() : FormatAttr();
}

static bool fits(Value value) { return bool(keptFormat(value)); }
SweepPlanner::SweepPlanner(StepOp step, Planning how) : step(step), how(how), variances(step), sets(step) {
  do {
    findStages();
    if (how.late && !how.alternates)
      delayReductions();
    findOutputs();
  } while (separateTiles());
  keepMaterialized();
  for (int k = 1; how.spill && k < plan.stages; ++k)
    decideStages(k);
  if (!how.spill)
    delayStores();
  plan.possible &= suitsTiles();
  countBytes();
}

static double getBytes(Value stream) { return cast<TensorsType>(stream.getType()).getBytes(); }

double SweepPlanner::bytesKept(Value value) {
  BlockAttr block = plan.blocks.lookup(value);
  double elements = block ? block.getRows() * block.getColumns() : 1;
  return (fits(value) ? keptFormat(value).getBytes() : sizeof(float)) / elements;
}

// The stage after which a stream holds its new content.
int SweepPlanner::storedAt(Value stream) {
  for (const Output &output : plan.outputs)
    if (output.stream == stream)
      return output.stage;
  return std::numeric_limits<int>::max();
}

// Visits, once each, the elements that `value` is computed from, back to what is loaded;
// `further` says whether to go on to the operands of one.
void SweepPlanner::walkBack(Value value, function_ref<bool(Value)> further) {
  SetVector<Value> work;
  work.insert(value);
  for (size_t i = 0; i < work.size(); ++i)
    if (Value needed = work[i]; variances.isElement(needed) && further(needed) && !needed.getDefiningOp<LoadOp>())
      work.insert_range(needed.getDefiningOp()->getOperands());
}

// All streams that computing `value` at stage `k` loads.
void SweepPlanner::findLoads(Value value, int k, SetVector<Value> &streams) {
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

// Nobody computes again what a sweep over tiles has found for others.
void SweepPlanner::keepMaterialized() {
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
  walkBack(value, [&](Value needed) {
    if (isMaterialized(needed, k))
      return false;
    bool computed = !needed.getDefiningOp<LoadOp>();
    if (auto decode = needed.getDefiningOp<DecodeOp>(); decode && fits(decode.getCode()))
      return true; // the code is shorter
    if (getStage(needed) >= k || (computed && !fits(needed) && !valid(needed, k)))
      return true;
    frontier.insert(needed);
    return false;
  });
}

// Whether stage `k` can still compute `value` from streams.
bool SweepPlanner::valid(Value value, int k) {
  SetVector<Value> streams;
  findLoads(value, k, streams);
  return llvm::all_of(streams, [&](Value stream) { return storedAt(stream) >= k; });
}

// A stream that holds exactly `value` before stage `k`, or null. What is stored under
// a condition is there for sweeps under the same one, of which nothing is kept.
Value SweepPlanner::storedCopy(Value value, int k) {
  auto seenIf = [&](Value condition) {
    return !condition ||
           (!how.alternates && k + 1 == plan.stages && llvm::all_of(plan.outputs, [&](const Output &output) {
             return output.stage != k || output.condition == condition;
           }));
  };
  for (const Output &output : plan.outputs) {
    if (!output.stream || output.stage >= k || !seenIf(output.condition))
      continue;
    auto encode = output.value.getDefiningOp<EncodeOp>();
    if (encode && encode.getNumber() == value && encode.getFormat().isF32())
      return output.stream;
  }
  return {};
}

// Bytes per element that stage `k` pays for its frontier.
double SweepPlanner::stageCost(int k, ArrayRef<Value> frontier, const DenseSet<Value> &kept) {
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
    bytes += isa<TensorsType>(stream.getType()) ? getBytes(stream) : bytesKept(stream);
  return bytes;
}

void SweepPlanner::decideStage(int k) {
  SetVector<Value> frontier;
  for (const Output &output : findLiveOuts())
    if (output.stage == k)
      findFrontier(output.value, k, frontier);
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
      plan.spilled.insert({value, getStage(value)});
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
        plan.bytes += getBytes(output.stream);
    }
    for (auto [value, stage] : plan.spilled)
      if (stage == k) {
        findLoads(value, k, streams);
        plan.bytes += bytesKept(value);
        plan.possible &= fits(value);
      }
    for (Value stream : streams)
      plan.bytes += isa<TensorsType>(stream.getType()) ? getBytes(stream) : bytesKept(stream);
  }
}

// Stages with sums over units and over tensors, which are two phases of folds.
static unsigned doubleFolds(const SweepPlan &plan) {
  SmallVector<unsigned> scopes(plan.stages); // a bit for units, one for tensors
  for (const Output &output : plan.outputs)
    scopes[output.stage] |= !output.reduce ? 0 : ReduceOp(output.reduce).getScope() == Scope::Unit ? 1 : 2;
  return llvm::count(scopes, 3u);
}

// Of equal plans the one without a workspace, with early reductions unless units make more phases of them.
PlanChoice altgrad::planSweeps(StepOp step, Planning way) {
  auto better = [](const SweepPlan &one, const SweepPlan &other) {
    auto cost = [](const SweepPlan &plan) { return std::tuple(!plan.possible, plan.bytes, doubleFolds(plan)); };
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
  SweepPlan recompute = best(false), kept = best(true);
  return {better(kept, recompute) ? kept : recompute, recompute.bytes, kept.bytes};
}

// Sweeps of one set that need not wait for each other ==> one sweep.
#include "passes/Passes.h"

#include "dialect/RowSets.h"
#include "dialect/Variance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Forms.h"
#include "passes/SweepBuilder.h"
#include "passes/SweepQueries.h"

namespace altgrad {
#define GEN_PASS_DEF_FUSESWEEPSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// The products that an operation fills the workspace for, and who waits for them.
static SmallVector<Operation *> getMatrixReaders(Operation *op) {
  SmallVector<Operation *> readers;
  if (auto work = dyn_cast<PhaseWork>(op))
    for (const MemoryAccess &access : work.getWrites())
      if (access.memory && access.memory.getDefiningOp<SpillOp>())
        for (Operation *user : access.memory.getUsers())
          if (op->isBeforeInBlock(user) && (isa<MultiplyOp>(user) || isa<MultiplyOp>(op)))
            readers.push_back(user);
  // Who multiplies may fail: what the caller sees is stored afterwards.
  auto isSeen = [](Value stream) { return isa<BlockArgument>(stream); };
  if (isa<MultiplyOp>(op))
    for (auto sweep : op->getBlock()->getOps<SweepOp>())
      if (op->isBeforeInBlock(sweep) && llvm::any_of(sweep.getStores(), isSeen))
        readers.push_back(sweep);
  return readers;
}

// The operations of the step's body that need a result of `first`, in order.
static SetVector<Operation *> collectDependents(Operation *first) {
  SetVector<Operation *> found;
  SmallVector<Operation *> work{first};
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    SmallVector<Operation *> users = getMatrixReaders(op);
    llvm::append_range(users, op->getUsers());
    for (Operation *user : users) {
      Operation *top = first->getBlock()->findAncestorOpInBlock(*user);
      if (found.insert(top))
        work.push_back(top);
    }
  }
  return found;
}

// Whether nobody outside the sweeps and writes guarded by `condition` sees
// `value`.
static bool isSeenOnlyUnder(Value value, Value condition, Block *block) {
  SetVector<Value> work;
  work.insert(value);
  for (size_t i = 0; i < work.size(); ++i)
    for (OpOperand &use : work[i].getUses()) {
      Operation *top = block->findAncestorOpInBlock(*use.getOwner());
      if (auto sweep = dyn_cast<SweepOp>(top)) {
        if (sweep.getCondition() != condition)
          return false;
      } else if (auto commit = dyn_cast<CommitOp>(top)) {
        if (commit.getCondition() != condition || work[i] == condition ||
            llvm::is_contained(commit.getAlwaysValues(), work[i]))
          return false;
      } else {
        work.insert_range(top->getResults());
      }
    }
  return true;
}

// Whether running `sweep` only if `condition` holds changes nothing that is seen.
static bool mayBecomeConditional(SweepOp sweep, Value condition) {
  if (sweep.getCondition())
    return false;
  Block *block = sweep->getBlock();
  for (Value stream : sweep.getStores()) {
    if (!stream.getDefiningOp<SpillOp>())
      return false;
    for (Operation *user : stream.getUsers())
      if (auto other = dyn_cast<SweepOp>(user); !other || (other != sweep && other.getCondition() != condition))
        return false;
  }
  return llvm::all_of(sweep.getReduced(), [&](Value value) { return isSeenOnlyUnder(value, condition, block); });
}

static bool reducesTiles(SweepOp sweep) {
  return llvm::any_of(sweep.getBody().front(), [](Operation &op) { return isOverTile(&op); });
}

// Whether a sweep over tiles could have the other one's sums, codes and scalars as well.
static bool areTilesCompatible(SweepOp first, SweepOp second) {
  BlockAttr block = first.getTileBlock(), next = second.getTileBlock();
  if (block && next && (block != next || (reducesTiles(first) && reducesTiles(second))))
    return false;
  auto cut = [](Value stream) { return isCutByTiles(cast<TensorsType>(stream.getType())); };
  auto suits = [&](SweepOp tiles, SweepOp other) {
    return !tiles.usesTiles() ||
           (!other.getNumResults() && other.getBlock() <= tileColumns && llvm::none_of(other.getLoads(), cut) &&
            (other.usesTiles() || llvm::none_of(other.getStores(), cut)) &&
            !Variances(other->getParentOfType<StepOp>()).readUnit(other));
  };
  return suits(first, second) && suits(second, first);
}

// The order of rows is nothing to a sweep that only reduces.
static bool areWalksCompatible(SweepOp first, SweepOp second) {
  if (first.getWalk() == second.getWalk())
    return first.getCombine() == second.getCombine();
  auto suits = [](SweepOp sums, SweepOp runs) {
    return sums.getWalk() == Walk::Chunks && sums.getStores().empty() && runs.getWalk() == Walk::Runs &&
           getBlockReductions(sums.getBody()).empty();
  };
  return suits(first, second) || suits(second, first);
}

static bool mayFuse(SweepOp first, SweepOp second) {
  if (!areWalksCompatible(first, second))
    return false;
  if (!areTilesCompatible(first, second) || collectDependents(first).contains(second))
    return false;
  for (Value stream : first.getStores())
    if (llvm::is_contained(second.getLoads(), stream))
      return false; // the second wants the new content
  if (first.getCondition() == second.getCondition())
    return true;
  if (Value condition = second.getCondition())
    return mayBecomeConditional(first, condition);
  return mayBecomeConditional(second, first.getCondition());
}

// Copies the body of `sweep` to the end of `block`; equal contents share a load.
static void appendBody(SweepOp sweep, Block *block, SweepParts &parts, IRMapping &map) {
  for (auto [index, argument] : llvm::enumerate(sweep.getBody().getArguments())) {
    Value stream = sweep.getLoads()[index];
    bool isNew = sweep.isRenewed(index);
    unsigned known = 0;
    while (known < parts.loads.size() && (parts.loads[known] != stream || parts.renewed[known] != isNew))
      ++known;
    if (known == parts.loads.size()) {
      parts.loads.push_back(stream);
      parts.renewed.push_back(isNew);
      block->addArgument(argument.getType(), argument.getLoc());
    }
    map.map(argument, block->getArgument(known));
  }
  OpBuilder builder(sweep.getContext());
  builder.setInsertionPointToEnd(block);
  for (Operation &op : sweep.getBody().front().without_terminator())
    builder.clone(op, map);
}

static void fuse(SweepOp first, SweepOp second) {
  SetVector<Operation *> later = collectDependents(first);
  auto owned = std::make_unique<Block>();
  SweepParts parts;
  SmallVector<Value> reduced, stored;
  for (SweepOp sweep : {first, second}) {
    IRMapping map;
    appendBody(sweep, owned.get(), parts, map);
    unsigned count = sweep.getNumResults();
    for (auto [index, value] : llvm::enumerate(sweep.getEmit().getValues()))
      (index < count ? reduced : stored).push_back(map.lookupOrDefault(value));
    llvm::append_range(parts.stores, sweep.getStores());
    llvm::append_range(parts.reductions, sweep.getReductions());
    llvm::append_range(parts.scopes, sweep.getScopes());
    llvm::append_range(parts.results, sweep.getResultTypes());
  }
  OpBuilder builder(second);
  OpBuilder inner(second.getContext());
  inner.setInsertionPointToEnd(owned.get());
  llvm::append_range(reduced, stored);
  Location loc = builder.getFusedLoc({first.getLoc(), second.getLoc()});
  EmitOp::create(inner, loc, reduced);
  parts.name = second.getStores().empty() ? first.getNameAttr() : second.getNameAttr();
  SweepOp walking = first.getWalk() == Walk::Chunks ? second : first;
  parts.walk = walking.getWalk();
  parts.combine = walking.getCombine();
  parts.condition = first.getCondition() ? first.getCondition() : second.getCondition();
  SweepOp fused = createSweep(builder, loc, parts, std::move(owned));
  unsigned split = first.getNumResults();
  first.replaceAllUsesWith(fused.getReduced().take_front(split));
  second.replaceAllUsesWith(fused.getReduced().drop_front(split));

  // What waited for the first sweep now waits for both.
  Operation *after = fused;
  for (Operation &op : llvm::make_early_inc_range(llvm::make_range(first->getIterator(), fused->getIterator())))
    if (later.contains(&op)) {
      op.moveAfter(after);
      after = &op;
    }
  first.erase();
  second.erase();
}

static double getBytes(ArrayRef<SweepOp> sweeps) {
  double bytes = 0;
  for (SweepOp sweep : sweeps)
    bytes += sweep.getBytesRead() + sweep.getBytesWritten();
  return bytes;
}

// Bytes per element that both load.
static double getCommonLoadBytes(SweepOp first, SweepOp second) {
  double bytes = 0;
  for (Value stream : first.getLoads())
    if (llvm::is_contained(second.getLoads(), stream))
      bytes += cast<TensorsType>(stream.getType()).getBytes();
  return bytes;
}

namespace {
struct FuseSweeps : altgrad::impl::FuseSweepsPassBase<FuseSweeps> {
  void runOnOperation() override {
    if (failed(checkForm(getOperation(), getArgument(), Form::Sweeps, Form::Sweeps)))
      return signalPassFailure();
    SmallVector<SweepOp> sweeps(getOperation().getBody().getOps<SweepOp>());
    double before = getBytes(sweeps);
    SmallVector<SweepOp> remaining = sweeps;
    // The pair that saves most comes first: a sweep may suit either neighbour.
    for (;;) {
      RowSets sets(getOperation());
      std::pair<SweepOp, SweepOp> best;
      double saved = 0;
      DenseMap<unsigned, SweepOp> next; // of each set
      for (SweepOp first : llvm::reverse(remaining)) {
        SweepOp second = std::exchange(next[sets.of(first)], first);
        double shared = second ? getCommonLoadBytes(first, second) : 0;
        if (!second || (best.first && shared < saved) || !mayFuse(first, second))
          continue;
        best = {first, second};
        saved = shared;
      }
      if (!best.first)
        break;
      fuse(best.first, best.second);
      remaining.assign(getOperation().getBody().getOps<SweepOp>().begin(),
                       getOperation().getBody().getOps<SweepOp>().end());
    }
    remark::passed(getOperation().getLoc(), remark::RemarkOpts::name("fuse").category("altgrad"))
        << remark::metric("sweeps-before", sweeps.size()) << remark::metric("sweeps-after", remaining.size())
        << remark::metric("bytes-before", formatBytes(before))
        << remark::metric("bytes-after", formatBytes(getBytes(remaining)));
  }
};
} // namespace

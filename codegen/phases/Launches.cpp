// The mapping of phases to launches and blocks.
#include "codegen/phases/Launches.h"

#include "codegen/kernels/gpu/ThreadSums.h"

using namespace mlir;
using namespace altgrad;

// Only a sweep that stores nothing has registers to spare for what comes after
// it.
static bool mayGoOn(PhaseOp phase) {
  SweepOp sweep = phase.getSweep();
  return !phase.getExchange() && (!sweep || sweep.getStores().empty());
}

// A launch goes on to the next sweep or exchange.
static SmallVector<SmallVector<PhaseOp>> launchesOf(StepOp step) {
  SmallVector<SmallVector<PhaseOp>> launches;
  bool ended = true;
  for (auto phase : step.getBody().getOps<PhaseOp>()) {
    if (ended || phase.getSweep())
      launches.emplace_back();
    launches.back().push_back(phase);
    ended = !mayGoOn(phase);
  }
  return launches;
}

SmallVector<PhaseOp> altgrad::finishedBy(PhaseOp phase) {
  for (const SmallVector<PhaseOp> &launch :
       launchesOf(phase->getParentOfType<StepOp>()))
    if (launch[0] == phase)
      return SmallVector<PhaseOp>(llvm::drop_begin(launch));
  return {};
}

unsigned altgrad::countLaunches(StepOp step) { return launchesOf(step).size(); }

static PhaseOp nextOf(PhaseOp phase) {
  Operation *next = phase->getNextNode();
  while (next && !isa<PhaseOp>(next))
    next = next->getNextNode();
  return cast_or_null<PhaseOp>(next);
}

bool altgrad::followsLaunch(PhaseOp phase) {
  auto step = phase->getParentOfType<StepOp>();
  return phase != *step.getBody().getOps<PhaseOp>().begin();
}

bool altgrad::precedesLaunch(PhaseOp phase) {
  SmallVector<PhaseOp> others = finishedBy(phase);
  PhaseOp last = others.empty() ? phase : others.back();
  return !last.getExchange() && nextOf(last);
}

int64_t altgrad::chunkThreads(SweepOp sweep) {
  return sweep.getNumResults() ? warpThreads : ALTGRAD_BLOCK_THREADS;
}

int64_t altgrad::itemsPerBlock(PhaseOp phase) {
  if (phase.getDomain() == Domain::Once)
    return 1;
  if (SweepOp sweep = phase.getSweep())
    return ALTGRAD_BLOCK_THREADS / chunkThreads(sweep);
  // A warp folds a row; a thread does the scalars of a row.
  return phase.count<FoldOp>() ? warpsPerBlock : ALTGRAD_BLOCK_THREADS;
}

bool altgrad::runsBackwards(PhaseOp phase) {
  bool backwards = false;
  for (Operation *op = phase->getPrevNode(); op; op = op->getPrevNode())
    if (auto earlier = dyn_cast<PhaseOp>(op))
      backwards ^= earlier.getSweep() && earlier.getSet() == phase.getSet();
  return backwards;
}

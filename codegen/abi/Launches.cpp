// The mapping of phases to launches and blocks.
#include "codegen/abi/Launches.h"

using namespace mlir;
using namespace altgrad;

// A launch goes on to the next sweep or exchange.
static SmallVector<SmallVector<PhaseOp>> launchesOf(StepOp step) {
  SmallVector<SmallVector<PhaseOp>> launches;
  bool ended = true;
  for (auto phase : step.getBody().getOps<PhaseOp>()) {
    if (ended || phase.startsLaunch())
      launches.emplace_back();
    launches.back().push_back(phase);
    ended = phase.endsLaunch();
  }
  return launches;
}

SmallVector<PhaseOp> altgrad::finishedBy(PhaseOp phase) {
  for (const SmallVector<PhaseOp> &launch : launchesOf(phase->getParentOfType<StepOp>()))
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

int64_t altgrad::threadsOf(PhaseWork work) {
  switch (work.getWorkers()) {
  case Workers::Thread:
    return 1;
  case Workers::Warp:
    return warpThreads;
  case Workers::Block:
    return ALTGRAD_BLOCK_THREADS;
  }
  llvm_unreachable("unknown workers");
}

int64_t altgrad::itemsPerBlock(PhaseOp phase) { return ALTGRAD_BLOCK_THREADS / threadsOf(phase); }

bool altgrad::runsBackwards(PhaseOp phase) {
  bool backwards = false;
  for (Operation *op = phase->getPrevNode(); op; op = op->getPrevNode())
    if (auto earlier = dyn_cast<PhaseOp>(op))
      backwards ^= earlier.getDomain() == Domain::Chunks && earlier.getSet() == phase.getSet();
  return backwards;
}

LogicalResult altgrad::checkPhases(StepOp step) {
  for (Operation &op : step.getBody().front())
    if (!isa<PhaseOp, SpillOp, CommitOp>(op))
      return op.emitOpError("is in no phase: altgrad-plan-phases comes first");
  return success();
}

std::string altgrad::symbolOf(PhaseOp phase) {
  auto step = phase->getParentOfType<StepOp>();
  return ("altgrad_" + step.getSymName() + "_" + phase.getName()).str();
}

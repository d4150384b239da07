// The mapping of phases to launches and blocks.
#include "codegen/abi/Launches.h"

using namespace mlir;
using namespace altgrad;

// A launch goes on to the next sweep or exchange.
static SmallVector<SmallVector<PhaseOp>> groupLaunches(StepOp step) {
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

SmallVector<PhaseOp> altgrad::getEpiloguePhases(PhaseOp phase) {
  for (const SmallVector<PhaseOp> &launch : groupLaunches(phase->getParentOfType<StepOp>()))
    if (launch[0] == phase)
      return SmallVector<PhaseOp>(llvm::drop_begin(launch));
  return {};
}

unsigned altgrad::countLaunches(StepOp step) { return groupLaunches(step).size(); }

static PhaseOp getNext(PhaseOp phase) {
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
  SmallVector<PhaseOp> others = getEpiloguePhases(phase);
  PhaseOp last = others.empty() ? phase : others.back();
  return !last.getExchange() && getNext(last);
}

int64_t altgrad::getThreads(PhaseWork work) {
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

int64_t altgrad::itemsPerBlock(PhaseOp phase) { return ALTGRAD_BLOCK_THREADS / getThreads(phase); }

bool altgrad::runsInReverse(PhaseOp phase) {
  bool backwards = false;
  for (Operation *op = phase->getPrevNode(); op; op = op->getPrevNode())
    if (auto earlier = dyn_cast<PhaseOp>(op))
      backwards ^= earlier.getDomain() == Domain::Chunks && earlier.getSet() == phase.getSet();
  return backwards;
}

std::string altgrad::getSymbol(PhaseOp phase) {
  auto step = phase->getParentOfType<StepOp>();
  return ("altgrad_" + step.getSymName() + "_" + phase.getName()).str();
}

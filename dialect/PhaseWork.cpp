// What the operations of a phase are done for, which memory they touch and what they cost.
#include "dialect/Arithmetic.h"
#include "dialect/Dialect.h"

using namespace mlir;
using namespace altgrad;

#include "dialect/PhaseWork.cpp.inc"

double altgrad::bytesPerElement(ArrayRef<MemoryAccess> accesses) {
  double bytes = 0;
  for (const MemoryAccess &access : accesses)
    if (access.memory)
      if (auto type = dyn_cast<TensorsType>(access.memory.getType()))
        bytes += type.getBytes();
  return bytes;
}

static SmallVector<MemoryAccess> getAccesses(ValueRange memory) {
  return llvm::map_to_vector(memory, [](Value one) { return MemoryAccess{one}; });
}

//===-- Scalars -------------------------------------------------------------===//

SmallVector<MemoryAccess> ReadOp::getReads() { return getAccesses(getScalar()); }
SmallVector<MemoryAccess> WriteOp::getWrites() { return getAccesses(getTarget()); }
SmallVector<MemoryAccess> PercentileOp::getReads() { return getAccesses(getHistory()); }
SmallVector<MemoryAccess> WorkspaceLoadOp::getReads() { return {{Value(), getSpace()}}; }
SmallVector<MemoryAccess> WorkspaceStoreOp::getWrites() { return {{Value(), getSpace()}}; }
SmallVector<MemoryAccess> TagOp::getReads() { return {{Value(), Space::Row}}; }
SmallVector<MemoryAccess> HasFirstOp::getReads() { return {{Value(), Space::Row}}; }
SmallVector<MemoryAccess> DimOp::getReads() { return {{Value(), Space::Row}}; }

//===-- Folds and totals ----------------------------------------------------===//

PhaseKind FoldOp::getPhaseKind() { return PhaseKind::Fold; }
std::optional<Domain> FoldOp::getItem() { return Domain::Rows; }
SmallVector<MemoryAccess> FoldOp::getReads() { return {{Value(), getRows() ? Space::Row : Space::Chunk}}; }
Workers FoldOp::getWorkers() { return Workers::Warp; }

PhaseKind TotalOp::getPhaseKind() { return getShare() ? PhaseKind::Total : PhaseKind::Scalars; }
std::optional<Domain> TotalOp::getItem() { return Domain::Once; }
std::optional<Reduction> TotalOp::getShare() {
  bool exchanged = cast<PhaseOp>((*this)->getParentOp()).getExchange();
  return exchanged ? std::optional(getReduction()) : std::nullopt;
}

//===-- Products ------------------------------------------------------------===//

PhaseKind MultiplyOp::getPhaseKind() { return PhaseKind::Matrix; }
std::optional<Domain> MultiplyOp::getItem() { return Domain::Rows; }
SmallVector<MemoryAccess> MultiplyOp::getReads() { return getAccesses(getOperands().drop_back()); }
SmallVector<MemoryAccess> MultiplyOp::getWrites() { return getAccesses(getInto()); }
bool MultiplyOp::startsLaunch() { return true; }
bool MultiplyOp::endsLaunch() { return true; }

//===-- Sweeps --------------------------------------------------------------===//

PhaseKind SweepOp::getPhaseKind() { return PhaseKind::Sweep; }
std::optional<Domain> SweepOp::getItem() { return Domain::Chunks; }
SmallVector<MemoryAccess> SweepOp::getReads() { return getAccesses(getLoads()); }
SmallVector<MemoryAccess> SweepOp::getWrites() { return getAccesses(getStores()); }

double SweepOp::getFlops() {
  double flops = 0;
  for (Operation &op : getBody().front())
    if (const AllowedOperation *row = findAllowedOperation(op))
      flops += row->facts.flops;
    else
      flops += isa<ScaledQuotientOp>(op) ? 5 : isa<AdvanceCodeOp>(op);
  for (unsigned i = 0; i < getNumResults(); ++i)
    flops += getReduction(i) == Reduction::SumSq ? 2 : getFoldKind(getReduction(i)) == Reduction::Add;
  return flops;
}

// Only a sweep that stores nothing has registers to spare for what comes after it.
bool SweepOp::startsLaunch() { return true; }
bool SweepOp::endsLaunch() { return !getStores().empty(); }

// Sums of a warp are kept apart.
// Blocks of more elements than a sum has lanes are those of several warps.
Workers SweepOp::getWorkers() {
  return getNumResults() && getBlock() <= ALTGRAD_LANES ? Workers::Warp : Workers::Block;
}

unsigned SweepOp::getBlock() {
  int64_t block = 1;
  auto hold = [&](BlockAttr one) { block = std::max(block, one.isRun() ? one.getColumns() : 1); };
  for (OperandRange streams : {getLoads(), getStores()})
    for (Value stream : streams) {
      auto type = cast<TensorsType>(stream.getType());
      hold(type.getBlock());
      block = std::max<int64_t>(block, type.getPacked() ? minBlock : 1);
    }
  for (auto reduce : getBody().getOps<ReduceOp>())
    hold(reduce.getOver());
  return block;
}

BlockAttr SweepOp::getTileBlock() {
  BlockAttr block;
  auto hold = [&](BlockAttr one) {
    if (one.isOverRows() && (!block || one.getRows() > block.getRows()))
      block = one;
  };
  for (OperandRange streams : {getLoads(), getStores()})
    for (Value stream : streams)
      hold(cast<TensorsType>(stream.getType()).getBlock());
  for (auto reduce : getBody().getOps<ReduceOp>())
    hold(reduce.getOver());
  return block;
}

unsigned SweepOp::getTileRows() {
  BlockAttr block = getTileBlock();
  return block ? altgrad::getTileRows(block.getRows()) : 0;
}

SweepOp SweepOp::getTiles() {
  auto next = dyn_cast_or_null<SweepOp>((*this)->getNextNode());
  return next && next.usesTiles() && isa<PhaseOp>((*this)->getParentOp()) ? next : SweepOp();
}

//===-- Phases --------------------------------------------------------------===//

PhaseWork PhaseOp::getMain() {
  for (Operation &op : getBody().front())
    if (auto work = dyn_cast<PhaseWork>(op); work && work.getItem())
      return work;
  return {};
}

PhaseKind PhaseOp::getPhaseKind() { return getMain() ? getMain().getPhaseKind() : PhaseKind::Scalars; }

std::optional<Domain> PhaseOp::getItem() { return getDomain(); }

template <typename Question> static SmallVector<MemoryAccess> getAccesses(PhaseOp phase, Question accesses) {
  SmallVector<MemoryAccess> all;
  for (Operation &op : phase.getBody().front())
    if (auto work = dyn_cast<PhaseWork>(op))
      llvm::append_range(all, accesses(work));
  return all;
}

SmallVector<MemoryAccess> PhaseOp::getReads() {
  return getAccesses(*this, [](PhaseWork work) { return work.getReads(); });
}

SmallVector<MemoryAccess> PhaseOp::getWrites() {
  return getAccesses(*this, [](PhaseWork work) { return work.getWrites(); });
}

double PhaseOp::getFlops() { return getMain() ? getMain().getFlops() : 0; }
bool PhaseOp::startsLaunch() { return getMain() && getMain().startsLaunch(); }

bool PhaseOp::endsLaunch() { return getExchange() || (getMain() && getMain().endsLaunch()); }

Workers PhaseOp::getWorkers() {
  return getDomain() == Domain::Once ? Workers::Block : getMain() ? getMain().getWorkers() : Workers::Thread;
}

unsigned PhaseOp::getBlock() {
  SweepOp sweep = getSweep(), tiles = sweep ? sweep.getTiles() : SweepOp();
  return std::max(getMain() ? getMain().getBlock() : 1, tiles ? tiles.getBlock() : 1);
}

unsigned PhaseOp::getTileRows() { return getMain() ? getMain().getTileRows() : 0; }

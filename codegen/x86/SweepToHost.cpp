// A sweep on a host: a chunk after the other, as vectors and then element by element; block by block where elements of
// a block exchange values.
#include "codegen/x86/HostSweep.h"

#include "codegen/common/Scalars.h"

using namespace mlir;
using namespace altgrad;

SmallVector<Lanes> HostSweep::allocateLanes(KernelBuilder &kernel, const Target &target, SweepOp sweep) {
  bool byRows = RowSums::isFor(sweep, target);
  SmallVector<Lanes> lanes;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    Reduction kind = sweep.getReduction(i);
    lanes.push_back(Lanes::allocate(kernel, kind, target.vectorWidth, isOrdered(byRows ? getFoldKind(kind) : kind)));
  }
  return lanes;
}

Value HostSweep::loadPrefetch(KernelBuilder &kernel) {
  CodeBuilder &builder = kernel.builder;
  return kernel.load(builder.getI64Type(), LLVM::AddressOfOp::create(builder, kernel.pointerType(), prefetchVariable),
                     8);
}

HostSweep::HostSweep(KernelBuilder &kernel, const Target &target, SweepOp sweep)
    : HostEmitter(kernel, target, sweep), lanes(allocateLanes(kernel, target, sweep)), ahead(loadPrefetch(kernel)),
      draws(*this), elements(*this, draws, ahead) {
  const HostEmitter &emitter = *this;
  if (exchangesInBlocks(sweep))
    blocks.emplace(emitter, elements);
  else if (!getStages(sweep.getBody()).empty())
    pairs.emplace(kernel, sweep, target.cpu, ahead);
  SweepOp waiting = sweep.getTiles();
  if (waiting || sweep.goesOverTiles())
    tiles.emplace(emitter, waiting, elements, blocks ? &*blocks : nullptr);
}

void HostSweep::lower(Value begin, Value end) {
  kernel.loop(begin, end, kernel.i64(1), [&](Value index) {
    if (tiles)
      tiles->lower(index);
    else
      lowerChunk(index);
  });
}

void HostSweep::lowerChunk(Value index) {
  ChunkPlace place = kernel.openChunk(index);
  Row row = place.row;
  Value first = place.first, count = place.count;
  HostChunk chunk{lanes};
  ScalarLowering scalars(kernel, row);
  scalars.lowerFor(sweep, count);
  chunk.known = scalars.known;
  chunk.count = count;

  if (usesIndex(sweep) || usesDraws(sweep))
    chunk.base = kernel.globalIndex(row, first);
  auto pointers = [&](OperandRange streams) {
    SmallVector<Value> all;
    for (Value tensors : streams)
      all.push_back(elementAt(kernel, tensors, kernel.stream(tensors, row), first));
    return all;
  };
  chunk.loads = pointers(sweep.getLoads());
  draws.drawAll(chunk, row);
  chunk.stores = pointers(sweep.getStores());
  if (!RowSums::isFor(sweep, target))
    for (const Lanes &one : lanes)
      one.clear();
  if (blocks)
    blocks->lower(chunk, count);
  else
    lowerElements(chunk, count);
  for (auto [i, one] : llvm::enumerate(lanes))
    kernel.store(one.total(), kernel.chunkWord(sweep.getChunkWord(i), index), laneBytes);
}

void HostSweep::lowerElements(HostChunk &chunk, Value count) {
  int64_t width = sweep.getWidth();
  Value whole = builder.bitAnd(count, kernel.i64(pairs ? -pairs->elementsAtOnce() : -width));
  Value done = kernel.i64(0);
  if (RowSums::isFor(sweep, target)) {
    done = builder.bitAnd(count, kernel.i64(-ALTGRAD_LANES));
    RowSums(*this, elements).lower(chunk, done);
  }
  if (pairs)
    pairs->lower(whole, chunk);
  else
    elements.lower(chunk, sweep.getWide().front(), width, done, whole);
  elements.lower(chunk, sweep.getBody(), 1, whole, count);
}

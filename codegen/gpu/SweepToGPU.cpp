// A sweep on a GPU: a block for a chunk, or a warp where sums are to be kept
// apart; 16 bytes of every stream per access.
#include "codegen/common/Scalars.h"
#include "codegen/gpu/SweepLowering.h"

using namespace mlir;
using namespace altgrad;

static bool hasBlockStores(SweepOp sweep) {
  return llvm::any_of(sweep.getStores(), [](Value stream) { return getBlock(stream) > 1; });
}

// Numbers exist as f32 only between their first and last use: a code takes
// fewer registers. The back ends keep this order.
static void shortenLiveRanges(Block &body) {
  auto order = [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); };
  SmallVector<Operation *> decodes, encodes;
  for (Operation &op : body)
    if (isa<DecodeOp, JoinCodesOp>(op))
      decodes.push_back(&op);
    else if (isa<EncodeOp, UpperCodeOp, LowerCodeOp>(op))
      encodes.push_back(&op);
  for (Operation *decode : decodes) {
    SmallVector<Operation *> users(decode->getUsers());
    if (!users.empty())
      decode->moveBefore(*llvm::min_element(users, order));
  }
  for (Operation *encode : encodes) {
    Value number = encode->getOperand(0);
    Operation *last = number.getDefiningOp();
    if (!last || last->getBlock() != &body) // a uniform number
      continue;
    for (Value draw : llvm::drop_begin(encode->getOperands()))
      if (Operation *drawn = draw.getDefiningOp(); drawn && order(last, drawn))
        last = drawn;
    for (Operation *user : number.getUsers())
      if (!isa<EncodeOp, UpperCodeOp, LowerCodeOp, EmitOp, StageOp>(user) && order(last, user))
        last = user;
    if (llvm::none_of(encode->getUsers(), [&](Operation *user) { return order(user, last); }))
      encode->moveAfter(last);
  }
}

void SweepLowering::lower(SweepOp sweep) {
  for (Region &wide : sweep.getWide())
    shortenLiveRanges(wide.front());
  bool byBlock = getThreads(sweep) == ALTGRAD_BLOCK_THREADS;
  Value first = byBlock ? gpu.block : gpu.warp, stride = byBlock ? gpu.blocks : gpu.warps;
  SweepOp tiles = sweep.getTiles();
  std::optional<TileLowering> tile;
  if (tiles || sweep.usesTiles())
    tile.emplace(gpu, sweep, tiles);
  auto body = [&](Value index) {
    if (tile)
      return tile->lower(index);
    kernel.readsTablesEarly = gpu.mayOverlapPredecessor(); // until a chunk is open
    forEachRow(kernel, sweep, index, [&] {
      lowerChunk(sweep, index);
      if (sweep.getCombine()) // another thread may have the next row's elements of a column
        byBlock ? gpu.barrier() : void(NVVM::SyncWarpOp::create(builder, kernel.i32(-1)));
    });
  };
  if (!runsInReverse(gpu.phase)) {
    kernel.loop(builder.add(gpu.begin, first), gpu.end, stride, body);
  } else {
    Value beyond = builder.sub(gpu.end, first);
    kernel.loopDown(builder.sub(beyond, kernel.i64(1)), gpu.begin, stride, body);
  }
  gpu.waitForLaunches(); // who had no chunk
}

void SweepLowering::openChunk(Chunk &chunk, Value index) {
  Type i64 = builder.getI64Type(), i32 = builder.getI32Type();
  SweepOp sweep = chunk.sweep;
  auto &pointers = chunk.streams.pointers;
  kernel.readsTablesEarly = gpu.mayOverlapPredecessor();
  auto [row, first, numel, all] = kernel.openChunk(index, sweep.getWalk());
  Value count = builder.truncate(i32, all);
  for (Value tensors : getStreams(sweep))
    if (!pointers.contains(tensors))
      pointers[tensors] = kernel.stream(tensors, row);
  chunk.streams.prefetchRow(first, builder.sub(numel, kernel.i64(1)));
  gpu.waitForLaunches();
  kernel.readsTablesEarly = false;
  ScalarLowering scalars(kernel, row);
  scalars.lowerScalarsFor(sweep, count);
  chunk.known = scalars.known;
  if (usesDraws(sweep))
    chunk.draws.tag = kernel.rowHeader(row, ALTGRAD_ROW_TAG);
  if (usesIndex(sweep) || chunk.draws.tag)
    chunk.draws.end = builder.add(kernel.globalIndex(row, first), builder.extendSigned(i64, count));

  Value mine = builder.mul(chunk.threads == warpThreads ? gpu.inWarp : gpu.inBlock, kernel.i64(chunk.width));
  Value mine32 = builder.truncate(i32, mine);
  chunk.count = count;
  chunk.from = builder.sub(mine32, count);
  if (isBlockwise(sweep) || hasBlockStores(sweep)) {
    chunk.start = builder.sub(kernel.i32(0), count);
    chunk.threadOffset = mine32;
  }
  Value element = builder.add(first, mine);
  chunk.aligned = builder.constBool();
  if (chunk.draws.tag) { // a thread's elements are those of whole calls
    Value offset = builder.bitAnd(kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), kernel.i64(drawGroup - 1));
    chunk.aligned = builder.equal(offset, kernel.i64(0));
  }
  for (auto &[tensors, pointer] : pointers) {
    if (getBlock(tensors) == 1) // others are moved value by value
      chunk.aligned = builder.bitAnd(chunk.aligned, chunk.streams.isAligned(tensors, pointer));
    pointer = getElementPointer(kernel, tensors, pointer, element);
    // Or LLVM would add their common part in each round, to other registers.
    if (!sweep.getFastPath())
      pointer = launderPointer(builder, pointer);
  }
  chunk.draws.allocate();
  chunk.storeScalars(gpu);
  chunk.kept.allocate();
}

void SweepLowering::lowerChunk(SweepOp sweep, Value index) {
  Chunk chunk(gpu, sweep, getThreads(sweep));
  openChunk(chunk, index);
  ChunkLowering lowering(gpu, chunk);
  Carried sums = lowering.lower(index);
  std::pair<Row, Value> number = sweep.getNumResults() ? getChunkNumber(kernel, sweep, index) : std::pair<Row, Value>();
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    Value total = lowering.reduceTotal(sums, i);
    auto store = [&] { storePartial(kernel, sweep, i, number, total); };
    if (joinsWarps(sweep)) // all warps have it
      kernel.when(builder.equal(gpu.inBlock, kernel.i64(0)), store);
    else
      gpu.onFirstThread(store);
  }
}

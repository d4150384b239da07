// A sweep over tiles on a GPU.
#include "codegen/common/Scalars.h"
#include "codegen/gpu/SweepLowering.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t perRow = threadsPerRow, rowsAtOnce = ALTGRAD_BLOCK_THREADS / perRow;
static_assert(rowsAtOnce == columnBlock);
static_assert(ALTGRAD_BLOCK_THREADS == 2 * tileColumns);

TileLowering::TileLowering(GpuKernel &gpu, SweepOp sweep, SweepOp waiting)
    : GpuEmitter(gpu), sweep(sweep), tiles(waiting ? waiting : sweep) {
  static_assert(ALTGRAD_SQUARE_BYTES == squareBlock * tileColumns * sizeof(float));
  if (!waiting)
    return;
  memory = gpu.shared.allocate("tile", 16, /*atLaunch=*/tiles.isSquare());
  columnParts = gpu.shared.allocate("halves", 16);
}

// The thread's part of a row as a chunk of its own, of as many elements as exist.
void TileLowering::openPart(Chunk &chunk, Row row, const TilePart &part) {
  Type i32 = builder.getI32Type();
  const Tile &tile = part.tile;
  Value own = builder.div(gpu.inBlock, kernel.i64(perRow));
  Value column = builder.mul(builder.bitAnd(gpu.inBlock, kernel.i64(perRow - 1)), kernel.i64(chunk.width));
  Value count = builder.sub(tile.columns, column);
  count = builder.minSigned(count, kernel.i64(chunk.width));
  count = builder.maxSigned(count, kernel.i64(0));
  Value exists = builder.less(own, tile.rows);
  count = builder.select(exists, count, kernel.i64(0));
  Value element = builder.add(builder.add(part.first, column), builder.mul(own, tile.rowLength));
  chunk.count = builder.truncate(i32, count);
  chunk.from = builder.sub(kernel.i32(0), chunk.count);
  chunk.start = chunk.from;
  chunk.threadOffset = kernel.i32(0);
  chunk.aligned = builder.constBool();
  if (usesDraws(sweep))
    chunk.draws.tag = kernel.rowHeader(row, ALTGRAD_ROW_TAG);
  if (usesIndex(sweep) || chunk.draws.tag) {
    Value index = kernel.globalIndex(row, element);
    chunk.draws.end = builder.add(index, count);
    if (chunk.draws.tag) { // a thread's elements are those of whole calls
      Value offset = builder.bitAnd(index, kernel.i64(drawGroup - 1));
      chunk.aligned = builder.equal(offset, kernel.i64(0));
    }
  }
  for (Value tensors : getStreams(sweep)) {
    Value &pointer = chunk.streams.pointers[tensors];
    if (pointer)
      continue;
    if (memory && tensors == tiles.tile()) {
      pointer = kernel.offset(part.held, builder.mul(gpu.inBlock, kernel.i64(chunk.width)), sizeof(float));
      continue;
    }
    if (isPerTileBlock(tensors))
      pointer = kernel.offset(getBlockPointer(kernel, tensors, row, tile),
                              getBlock(tensors) > 1 ? kernel.i64(0) : column, getBytes(tensors));
    else
      pointer = getElementPointer(kernel, tensors, kernel.stream(tensors, row), element);
    if (getBlock(tensors) == 1)
      chunk.aligned = builder.bitAnd(chunk.aligned, chunk.streams.isAligned(tensors, pointer));
  }
  chunk.draws.allocate();
  chunk.storeScalars(gpu);
}

// What a sweep asks of a tile's row; a step that was called off has no columns.
IRMapping TileLowering::getScalars(Row row, Tile &tile) {
  ScalarLowering scalars(kernel, row);
  scalars.lowerScalarsFor(sweep, tile.columns);
  return scalars.known;
}

void TileLowering::lower(Value index) {
  bool square = tiles.isSquare();
  kernel.readsTablesEarly = gpu.mayOverlapPredecessor();
  auto [row, first] = kernel.locateChunk(index);
  Tile tile = getTile(kernel, row, first, tiles.rows());
  gpu.waitForLaunches();
  kernel.readsTablesEarly = false;
  IRMapping known;
  if (square) {
    kernel.loop(kernel.i64(0), tile.rows, kernel.i64(rowsAtOnce), [&](Value r) { lowerRows(tile, index, r); });
  } else {
    known = getScalars(row, tile);
    lowerPart(known, row, {tile, first, memory});
  }
  if (!memory)
    return;
  gpu.barrier();
  if (square) {
    std::tie(row, first) = kernel.locateChunk(launderPointer(builder, index));
    tile = getTile(kernel, row, first, tiles.rows());
    known = getScalars(row, tile);
  }
  reduceColumnPart(tile, known, row, first);
  gpu.barrier(); // before other numbers are there
}

// Rows of a square from `r` on. What is of its row is found again each time, or
// pointers to all streams and uniform numbers would be registers till the end.
void TileLowering::lowerRows(Tile tile, Value index, Value r) {
  auto [row, first] = kernel.locateChunk(launderPointer(builder, index));
  tile.rows = builder.sub(tile.rows, r);
  tile.rowLength = kernel.rowHeader(row, ALTGRAD_ROW_LENGTH);
  IRMapping known = getScalars(row, tile);
  first = builder.add(first, builder.mul(r, tile.rowLength));
  Value held = memory ? kernel.offset(memory, r, tileColumns * sizeof(float)) : Value();
  lowerPart(known, row, {tile, first, held});
}

void TileLowering::lowerPart(const IRMapping &known, Row row, const TilePart &part) {
  Chunk chunk(gpu, sweep, ALTGRAD_BLOCK_THREADS);
  chunk.known = known;
  openPart(chunk, row, part);
  ChunkLowering(gpu, chunk).lowerBlocks(chunk.from, chunk.sums.clear(), /*part=*/0);
}

// What all threads know of one number of each, of which a column has two: the tree 128, 64 … 1, or its first level.
Value TileLowering::combineColumnParts(Value own) {
  Reduction kind = tiles.kind();
  kernel.store(own, kernel.offset(columnParts, gpu.inBlock, sizeof(float)), sizeof(float));
  gpu.barrier();
  bool square = tiles.isSquare();
  int64_t stride = square ? warpThreads : tileColumns;
  Value mine = builder.bitAnd(gpu.inBlock, kernel.i64(stride - 1));
  SmallVector<Value> parts;
  for (int64_t of = 0; of < ALTGRAD_BLOCK_THREADS; of += stride)
    parts.push_back(kernel.load(builder.getF32Type(),
                                kernel.offset(columnParts, builder.add(mine, kernel.i64(of)), sizeof(float)),
                                sizeof(float)));
  Value all = combineElements(builder, kind, parts);
  for (int32_t distance = square ? warpThreads / 2 : 0; distance; distance /= 2)
    all = combine(builder, kind, all, gpu.shuffleXor(all, distance));
  return all;
}

void TileLowering::reduceColumnPart(const Tile &tile, const IRMapping &known, Row row, Value first) {
  Value column = builder.bitAnd(gpu.inBlock, kernel.i64(tileColumns - 1));
  int64_t halfRows = tiles.rows() / 2;
  Value half = builder.div(gpu.inBlock, kernel.i64(tileColumns));
  Value from = builder.mul(half, kernel.i64(halfRows));
  Value to = builder.minSigned(tile.rows, builder.add(from, kernel.i64(halfRows)));
  Value exists = builder.less(column, tile.columns);
  to = builder.select(exists, to, from);
  auto number = [&](Value r) {
    Value at = kernel.offset(memory, r, tileColumns * sizeof(float));
    return kernel.load(builder.getF32Type(), kernel.offset(at, column, sizeof(float)), sizeof(float));
  };
  Value own = kernel.loopWith(from, to, kernel.i64(1), neutral(builder, tiles.kind(), builder.getF32Type()),
                              [&](Value r, SmallVector<Value> before) -> SmallVector<Value> {
                                return {accumulate(builder, tiles.kind(), before[0], number(r))};
                              })[0];
  auto blockAt = [&](Value stream) {
    Value at = getBlockPointer(kernel, stream, row, tile);
    return tiles.isSquare() ? at : kernel.offset(at, column, getBytes(stream));
  };
  SmallVector<Value> lists; // before one of the threads overwrites them
  for (auto [code, stream] : llvm::zip(tiles.scalarBody().getArguments().drop_front(), tiles.lists()))
    lists.push_back(loadIf(kernel, exists, code.getType(), stream, [&, stream = stream] { return blockAt(stream); }));
  Value reduced = combineColumnParts(own);
  Value at = builder.add(first, column);
  Value isLeader = builder.bitAnd(exists, builder.equal(tiles.isSquare() ? gpu.inBlock : half, kernel.i64(0)));
  SmallVector<Value> values = tiles.computeBlock(kernel, tiles.scalarBody(), known, reduced, lists);
  size_t next = 0;
  auto shares = ArrayRef(values).take_back(tiles.countShared());
  for (auto [store, stream] : llvm::enumerate(tiles.streams())) {
    Value base = kernel.stream(stream, row);
    unsigned bytes = getBytes(stream);
    if (isPerTileBlock(stream))
      kernel.when(isLeader, [&, stream = stream] { kernel.store(values[next++], blockAt(stream), bytes); });
    else
      kernel.loop(from, to, kernel.i64(1), [&, store = store](Value r) {
        Value code = tiles.computeElement(kernel, tiles.scalarBody(), store, known, number(r), shares);
        Value index = builder.add(at, builder.mul(r, tile.rowLength));
        kernel.store(code, kernel.offset(base, index, bytes), bytes);
      });
  }
}

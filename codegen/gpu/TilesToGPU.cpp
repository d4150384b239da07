// A sweep over tiles on a GPU, a block of threads for a tile. Each thread does its elements of a row, or of one in 32,
// as in other sweeps and leaves their numbers in shared memory; then each does half of a column.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t perRow = threadsOfRow, rowsAtOnce = ALTGRAD_BLOCK_THREADS / perRow;
static_assert(rowsAtOnce == columnBlock);
static_assert(ALTGRAD_BLOCK_THREADS == 2 * tileColumns);

GpuLowering::TileMemory GpuLowering::makeTile(SweepOp tiles) {
  TileSweep sweep(tiles);
  static_assert(ALTGRAD_SQUARE_BYTES == squareBlock * tileColumns * sizeof(float));
  Value tile = shared->allocate("tile", 16, /*atLaunch=*/sweep.isSquare());
  return {sweep, tile, shared->allocate("halves", 16)};
}

// The thread's part of a row as a chunk of its own, of as many elements as exist.
GpuLowering::Chunk GpuLowering::openPart(SweepOp sweep, const TileMemory &memory, const IRMapping &known, Row row,
                                         const TilePart &part) {
  Type i32 = builder.getI32Type();
  Chunk chunk{sweep, ThreadSums(kernel, sweep, *shared), ALTGRAD_BLOCK_THREADS, getWidth(sweep, target.gpu)};
  const Tile &tile = part.tile;
  chunk.known = known;
  Value own = builder.div(inBlock, kernel.i64(perRow));
  Value column = builder.mul(builder.bitAnd(inBlock, kernel.i64(perRow - 1)), kernel.i64(chunk.width));
  Value count = builder.sub(tile.columns, column);
  count = builder.minSigned(count, kernel.i64(chunk.width));
  count = builder.maxSigned(count, kernel.i64(0));
  Value exists = builder.less(own, tile.rows);
  count = builder.select(exists, count, kernel.i64(0));
  Value element = builder.add(builder.add(part.first, column), builder.mul(own, tile.rowLength));
  chunk.count = builder.truncate(i32, count);
  chunk.from = builder.sub(kernel.i32(0), chunk.count);
  chunk.start = chunk.from;
  chunk.mine = kernel.i32(0);
  chunk.aligned = builder.constBool();
  if (usesDraws(sweep))
    chunk.tag = kernel.rowHeader(row, ALTGRAD_ROW_TAG);
  if (usesIndex(sweep) || chunk.tag) {
    Value index = builder.add(kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), element);
    chunk.end = builder.add(index, count);
    if (chunk.tag) { // a thread's elements are those of whole calls
      Value offset = builder.bitAnd(index, kernel.i64(drawnTogether - 1));
      chunk.aligned = builder.equal(offset, kernel.i64(0));
    }
  }
  for (Value tensors : getStreams(sweep)) {
    Value &pointer = chunk.pointers[tensors];
    if (pointer)
      continue;
    if (memory.holds(tensors)) {
      pointer = kernel.offset(part.memory, builder.mul(inBlock, kernel.i64(chunk.width)), sizeof(float));
      continue;
    }
    if (isPerTileBlock(tensors))
      pointer = kernel.offset(listAt(kernel, tensors, row, tile), getBlock(tensors) > 1 ? kernel.i64(0) : column,
                              getBytes(tensors));
    else
      pointer = elementAt(kernel, tensors, kernel.stream(tensors, row), element);
    if (getBlock(tensors) == 1)
      chunk.aligned = builder.bitAnd(chunk.aligned, isAligned(chunk, tensors, pointer));
  }
  allocateDraws(chunk);
  storeScalars(chunk);
  return chunk;
}

// What a sweep asks of a tile's row; a step that was called off has no columns.
IRMapping GpuLowering::getScalars(SweepOp sweep, Row row, Tile &tile) {
  ScalarLowering scalars(kernel, row);
  scalars.lowerFor(sweep, tile.columns);
  return scalars.known;
}

void GpuLowering::sweepTile(SweepOp sweep, const TileMemory &shared, Value index) {
  auto phase = sweep->getParentOfType<PhaseOp>();
  const TileSweep &tiles = shared.sweep;
  bool square = tiles.isSquare();
  kernel.readsTablesEarly = mustWait(phase);
  auto [row, first] = kernel.locateChunk(index);
  Tile tile = tileAt(kernel, row, first, tiles.rows());
  waitForLaunches(phase);
  kernel.readsTablesEarly = false;
  IRMapping known;
  if (square) {
    kernel.loop(kernel.i64(0), tile.rows, kernel.i64(rowsAtOnce),
                [&](Value r) { somePart(sweep, shared, tile, index, r); });
  } else {
    known = getScalars(sweep, row, tile);
    inPart(sweep, shared, known, row, {tile, first, shared.tile});
  }
  if (!shared.tile)
    return;
  barrier();
  if (square) {
    std::tie(row, first) = kernel.locateChunk(launderPointer(index));
    tile = tileAt(kernel, row, first, tiles.rows());
    known = getScalars(sweep, row, tile);
  }
  reduceColumnPart(shared, tile, known, row, first);
  barrier(); // before other numbers are there
}

// Rows of a square from `r` on. What is of its row is found again each time, or
// pointers to all streams and uniform numbers would be registers till the end.
void GpuLowering::somePart(SweepOp sweep, const TileMemory &shared, Tile tile, Value index, Value r) {
  auto [row, first] = kernel.locateChunk(launderPointer(index));
  tile.rows = builder.sub(tile.rows, r);
  tile.rowLength = kernel.rowHeader(row, ALTGRAD_ROW_LENGTH);
  IRMapping known = getScalars(sweep, row, tile);
  first = builder.add(first, builder.mul(r, tile.rowLength));
  Value held = shared.tile ? kernel.offset(shared.tile, r, tileColumns * sizeof(float)) : Value();
  inPart(sweep, shared, known, row, {tile, first, held});
}

void GpuLowering::inPart(SweepOp sweep, const TileMemory &shared, const IRMapping &known, Row row,
                         const TilePart &part) {
  Chunk chunk = openPart(sweep, shared, known, row, part);
  threadInBlock(chunk, chunk.from, chunk.sums.clear(), /*part=*/0);
}

// What all threads know of one number of each, of which a column has two: the tree 128, 64 … 1, or its first level.
Value GpuLowering::combineColumnParts(const TileMemory &shared, Value own) {
  Reduction kind = shared.sweep.kind();
  kernel.store(own, kernel.offset(shared.columnParts, inBlock, sizeof(float)), sizeof(float));
  barrier();
  bool square = shared.sweep.isSquare();
  int64_t apart = square ? warpThreads : tileColumns;
  Value mine = builder.bitAnd(inBlock, kernel.i64(apart - 1));
  SmallVector<Value> parts;
  for (int64_t of = 0; of < ALTGRAD_BLOCK_THREADS; of += apart)
    parts.push_back(kernel.load(builder.getF32Type(),
                                kernel.offset(shared.columnParts, builder.add(mine, kernel.i64(of)), sizeof(float)),
                                sizeof(float)));
  Value all = joinElements(kind, parts);
  for (int32_t distance = square ? warpThreads / 2 : 0; distance; distance /= 2)
    all = join(builder, kind, all, exchanged(all, distance));
  return all;
}

void GpuLowering::reduceColumnPart(const TileMemory &shared, const Tile &tile, const IRMapping &known, Row row,
                                   Value first) {
  const TileSweep &cut = shared.sweep;
  Value column = builder.bitAnd(inBlock, kernel.i64(tileColumns - 1));
  int64_t halfRows = cut.rows() / 2;
  Value half = builder.div(inBlock, kernel.i64(tileColumns));
  Value from = builder.mul(half, kernel.i64(halfRows));
  Value to = builder.minSigned(tile.rows, builder.add(from, kernel.i64(halfRows)));
  Value exists = builder.less(column, tile.columns);
  to = builder.select(exists, to, from);
  auto number = [&](Value r) {
    Value at = kernel.offset(shared.tile, r, tileColumns * sizeof(float));
    return kernel.load(builder.getF32Type(), kernel.offset(at, column, sizeof(float)), sizeof(float));
  };
  Value own = kernel.loopWith(from, to, kernel.i64(1), neutral(builder, cut.kind(), builder.getF32Type()),
                              [&](Value r, SmallVector<Value> before) -> SmallVector<Value> {
                                return {accumulate(builder, cut.kind(), before[0], number(r))};
                              })[0];
  auto blockAt = [&](Value stream) {
    Value at = listAt(kernel, stream, row, tile);
    return cut.isSquare() ? at : kernel.offset(at, column, getBytes(stream));
  };
  SmallVector<Value> lists; // before one of the threads overwrites them
  for (auto [code, stream] : llvm::zip(cut.narrow().getArguments().drop_front(), cut.lists()))
    lists.push_back(codeIf(exists, code.getType(), stream, [&, stream = stream] { return blockAt(stream); }));
  Value reduced = combineColumnParts(shared, own);
  Value at = builder.add(first, column);
  Value leads = builder.bitAnd(exists, builder.equal(cut.isSquare() ? inBlock : half, kernel.i64(0)));
  SmallVector<Value> values = cut.ofBlock(kernel, cut.narrow(), known, reduced, lists);
  size_t next = 0;
  auto shares = ArrayRef(values).take_back(cut.countShared());
  for (auto [store, stream] : llvm::enumerate(cut.streams())) {
    Value base = kernel.stream(stream, row);
    unsigned bytes = getBytes(stream);
    if (isPerTileBlock(stream))
      kernel.when(leads, [&, stream = stream] { kernel.store(values[next++], blockAt(stream), bytes); });
    else
      kernel.loop(from, to, kernel.i64(1), [&, store = store](Value r) {
        Value code = cut.ofElement(kernel, cut.narrow(), store, known, number(r), shares);
        Value place = builder.add(at, builder.mul(r, tile.rowLength));
        kernel.store(code, kernel.offset(base, place, bytes), bytes);
      });
  }
}

// A sweep over tiles on a GPU.
#include "codegen/common/PackedCodes.h"
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
    if (isSmallSquare(tensors)) {
      Tile at = tile; // its own elements are of one
      at.row = builder.add(tile.row, own), at.column = builder.add(tile.column, column);
      pointer = getBlockPointer(kernel, tensors, row, at);
    } else if (isPerTileBlock(tensors))
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

// What all threads know of one number of each, of which a column has one or two: the tree 128, 64 … 1, or those of its
// levels that are of a column or of a small square.
Value TileLowering::combineColumnParts(Value own) {
  Reduction kind = tiles.kind();
  bool square = tiles.isSquare();
  int64_t columns = tiles.block().getColumns();
  Value all = own;
  if (tiles.block().getRows() > tiles.laneRows()) {
    kernel.store(own, kernel.offset(columnParts, gpu.inBlock, sizeof(float)), sizeof(float));
    gpu.barrier();
    int64_t stride = square ? warpThreads : tileColumns;
    Value mine = builder.bitAnd(gpu.inBlock, kernel.i64(stride - 1));
    SmallVector<Value> parts;
    for (int64_t of = 0; of < ALTGRAD_BLOCK_THREADS; of += stride)
      parts.push_back(kernel.load(builder.getF32Type(),
                                  kernel.offset(columnParts, builder.add(mine, kernel.i64(of)), sizeof(float)),
                                  sizeof(float)));
    all = combineElements(builder, kind, parts);
  } else if (!tiles.lists().empty()) {
    gpu.barrier(); // as above, before a list is overwritten
  }
  for (int32_t distance = std::min<int64_t>(columns, warpThreads) / 2; distance; distance /= 2)
    all = combine(builder, kind, all, gpu.shuffleXor(all, distance));
  return all;
}

TileLowering::ColumnPart TileLowering::getColumnPart(const Tile &tile) {
  ColumnPart part;
  part.column = builder.bitAnd(gpu.inBlock, kernel.i64(tileColumns - 1));
  part.half = builder.div(gpu.inBlock, kernel.i64(tileColumns));
  part.from = builder.mul(part.half, kernel.i64(tiles.laneRows()));
  part.to = builder.minSigned(tile.rows, builder.add(part.from, kernel.i64(tiles.laneRows())));
  part.exists = builder.less(part.column, tile.columns);
  if (tiles.block().getRows() == tiles.laneRows())
    part.exists = builder.bitAnd(part.exists, builder.less(part.from, tile.rows));
  part.to = builder.select(part.exists, part.to, part.from);
  return part;
}

// The thread that stores what a block does.
Value TileLowering::isLeader(const ColumnPart &part) {
  Value number = part.half;
  if (tiles.isSquare())
    number = gpu.inBlock;
  else if (tiles.hasSquares())
    number = builder.bitAnd(gpu.inBlock, kernel.i64(tiles.block().getColumns() - 1 +
                                                    (tiles.block().getRows() > tiles.laneRows()) * tileColumns));
  return builder.bitAnd(part.exists, builder.equal(number, kernel.i64(0)));
}

Value TileLowering::locateBlock(Value stream, Row row, const Tile &tile, const ColumnPart &part) {
  Tile at = tile;
  if (tiles.hasSquares()) {
    at.row = builder.add(tile.row, part.from), at.column = builder.add(tile.column, part.column);
    return getBlockPointer(kernel, stream, row, at);
  }
  Value begin = getBlockPointer(kernel, stream, row, tile);
  return tiles.isSquare() ? begin : kernel.offset(begin, part.column, getBytes(stream));
}

Value TileLowering::loadNumber(Value r, Value column) {
  Value at = kernel.offset(memory, r, tileColumns * sizeof(float));
  return kernel.load(builder.getF32Type(), kernel.offset(at, column, sizeof(float)), sizeof(float));
}

// A byte has the codes of an even column and of the next: the thread of one takes every second row, that of the other
// those between. A last even column, of a tensor of one row, has 0 behind it.
void TileLowering::storePairs(Value stream, Row row, Value first, const Tile &tile, const ColumnPart &part,
                              function_ref<Value(Value r, Value column)> compute) {
  Value base = kernel.stream(stream, row);
  Value even = builder.bitAnd(part.column, kernel.i64(-2)), odd = builder.bitOr(part.column, kernel.i64(1));
  Value isPair = builder.less(odd, tile.columns), second = builder.select(isPair, odd, even);
  Value begin = builder.add(part.from, builder.bitAnd(part.column, kernel.i64(1)));
  kernel.loop(begin, part.to, kernel.i64(2), [&](Value r) {
    Value code = compute(r, even), next = compute(r, second);
    next = builder.select(isPair, next, builder.integer(next.getType(), 0));
    Value index = builder.add(builder.add(first, even), builder.mul(r, tile.rowLength));
    Value byte = builder.truncate(code.getType(), packWord(builder, stream, {code, next}));
    kernel.store(byte, getElementPointer(kernel, stream, base, index), getBytes(stream));
  });
}

void TileLowering::reduceColumnPart(const Tile &tile, const IRMapping &known, Row row, Value first) {
  const ColumnPart part = getColumnPart(tile);
  Value own = kernel.loopWith(part.from, part.to, kernel.i64(1), neutral(builder, tiles.kind(), builder.getF32Type()),
                              [&](Value r, SmallVector<Value> before) -> SmallVector<Value> {
                                return {accumulate(builder, tiles.kind(), before[0], loadNumber(r, part.column))};
                              })[0];
  SmallVector<Value> lists; // before one of the threads overwrites them
  for (auto [code, stream] : llvm::zip(tiles.scalarBody().getArguments().drop_front(), tiles.lists()))
    lists.push_back(loadIf(kernel, part.exists, code.getType(), stream,
                           [&, stream = stream] { return locateBlock(stream, row, tile, part); }));
  Value reduced = combineColumnParts(own);
  Value at = builder.add(first, part.column);
  Value leads = isLeader(part);
  SmallVector<Value> values = tiles.computeBlock(kernel, tiles.scalarBody(), known, reduced, lists);
  size_t next = 0;
  auto shares = ArrayRef(values).take_back(tiles.countShared());
  auto compute = [&](int64_t store, Value r, Value column) {
    return tiles.computeElement(kernel, tiles.scalarBody(), store, known, loadNumber(r, column), shares);
  };
  for (auto [store, stream] : llvm::enumerate(tiles.streams())) {
    Value base = kernel.stream(stream, row);
    unsigned bytes = getBytes(stream);
    if (isPerTileBlock(stream))
      kernel.when(leads,
                  [&, stream = stream] { kernel.store(values[next++], locateBlock(stream, row, tile, part), bytes); });
    else if (isPacked(stream))
      storePairs(stream, row, first, tile, part,
                 [&, store = store](Value r, Value column) { return compute(store, r, column); });
    else
      kernel.loop(part.from, part.to, kernel.i64(1), [&, store = store](Value r) {
        Value code = compute(store, r, part.column);
        Value index = builder.add(at, builder.mul(r, tile.rowLength));
        kernel.store(code, kernel.offset(base, index, bytes), bytes);
      });
  }
}

// A sweep over tiles on a host.
#include "codegen/x86/HostTiles.h"

#include "codegen/common/PackedCodes.h"
#include "codegen/common/Scalars.h"

using namespace mlir;
using namespace altgrad;

HostTiles::HostTiles(const HostEmitter &emitter, SweepOp waiting, HostElements &elements, HostBlocks *blocks)
    : HostEmitter(emitter), elements(elements), blocks(blocks) {
  auto numbers = [&](int64_t count) -> Value {
    return LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getF32Type(), kernel.i64(count),
                                  /*alignment=*/64);
  };
  for (Value tensors : sweep.getLoads())
    if (isSmallSquare(tensors))
      spread[tensors] = numbers(tileColumns);
  if (!waiting)
    return;
  TileSweep tiles(waiting);
  Value memory = numbers(tiles.rows() * tileColumns);
  Value shared = numbers(tiles.countShared() * tileColumns);
  work = HostTile{tiles, memory, shared,
                  Lanes(kernel, tiles.kind(), target.vectorWidth, tileColumns, numbers(tileColumns))};
}

void HostTiles::lower(Value index) {
  Row row = kernel.row(kernel.chunkHeader(index, 0));
  Value first = kernel.chunkHeader(index, 1);
  Tile tile = getTile(kernel, row, first, work ? work->sweep.rows() : sweep.getTileRows());
  ScalarLowering scalars(kernel, row);
  scalars.lowerScalarsFor(sweep, tile.columns);
  DenseMap<Value, Value> bases;
  IRMapping squares;
  for (Value tensors : getStreams(sweep)) {
    if (isWaiting(tensors) || bases.contains(tensors))
      continue;
    bases[tensors] =
        isPerTileBlock(tensors) ? getBlockPointer(kernel, tensors, row, tile) : kernel.stream(tensors, row);
    Type code = cast<TensorsType>(tensors.getType()).getFormat().getCodeType();
    if (isPerTileBlock(tensors) && getBlock(tensors) == squareBlock)
      squares.map(tensors, kernel.load(code, bases[tensors], getBytes(tensors)));
  }
  kernel.loop(kernel.i64(0), tile.rows, kernel.i64(1), [&](Value r) {
    HostChunk chunk{{}};
    chunk.known = scalars.known;
    chunk.shared = squares;
    chunk.count = tile.columns;
    Value from = builder.add(first, builder.mul(r, tile.rowLength));
    if (usesIndex(sweep) || usesDraws(sweep))
      chunk.base = kernel.globalIndex(row, from);
    if (!spread.empty())
      spreadSquares(tile, row, r);
    auto pointerTo = [&](Value tensors) -> Value {
      if (Value codes = spread.lookup(tensors))
        return codes;
      if (isWaiting(tensors))
        return kernel.offset(work->memory, r, tileColumns * sizeof(float));
      return isPerTileBlock(tensors) ? bases[tensors] : getElementPointer(kernel, tensors, bases[tensors], from);
    };
    for (Value tensors : sweep.getLoads())
      chunk.loadPointers.push_back(pointerTo(tensors));
    elements.draws.drawAll(chunk, row);
    for (Value tensors : sweep.getStores())
      chunk.storePointers.push_back(pointerTo(tensors));
    if (blocks)
      blocks->lower(chunk, tile.columns);
    else
      elements.lower(chunk, tile.columns);
  });
  if (work)
    reduceTile(tile, scalars.known, row, first);
}

// What the squares of a row that begins with row `r` share, once for each column.
void HostTiles::spreadSquares(const Tile &tile, Row row, Value r) {
  for (auto [tensors, memory] : spread) {
    BlockAttr block = cast<TensorsType>(tensors.getType()).getBlock();
    Value within = builder.bitAnd(r, kernel.i64(block.getRows() - 1));
    kernel.when(builder.equal(within, kernel.i64(0)), [&, tensors = tensors, memory = memory] {
      Tile part = tile;
      part.row = builder.add(tile.row, r);
      Value codes = getBlockPointer(kernel, tensors, row, part);
      Type type = cast<TensorsType>(tensors.getType()).getFormat().getCodeType();
      kernel.loop(kernel.i64(0), tile.columns, kernel.i64(1), [&](Value column) {
        Value which = builder.shiftRight(column, kernel.i64(llvm::Log2_64(block.getColumns())));
        Value code = kernel.load(type, kernel.offset(codes, which, getBytes(tensors)), getBytes(tensors));
        kernel.store(code, kernel.offset(memory, column, getBytes(tensors)), getBytes(tensors));
      });
    });
  }
}

// A row of blocks after the other.
void HostTiles::reduceTile(const Tile &tile, const IRMapping &known, Row row, Value first) {
  int64_t rows = work->sweep.block().getRows();
  if (rows == work->sweep.rows())
    return reduceBlocks(*work, tile, known, row, first);
  kernel.loop(kernel.i64(0), tile.rows, kernel.i64(rows), [&](Value r) {
    HostTile some = *work;
    some.memory = kernel.offset(work->memory, r, tileColumns * sizeof(float));
    Tile part = tile;
    part.row = builder.add(tile.row, r);
    part.rows = builder.minSigned(builder.sub(tile.rows, r), kernel.i64(rows));
    reduceBlocks(some, part, known, row, builder.add(first, builder.mul(r, tile.rowLength)));
  });
}

// What waits for the reduction over each column of a tile, or over squares. The columns of squares are lanes, of which
// those beyond the tensor have nothing.
void HostTiles::reduceBlocks(const HostTile &work, const Tile &tile, const IRMapping &known, Row row, Value first) {
  SmallVector<Value> storePointers, lists;
  for (Value stream : work.sweep.streams())
    storePointers.push_back(isPerTileBlock(stream)
                                ? getBlockPointer(kernel, stream, row, tile)
                                : getElementPointer(kernel, stream, kernel.stream(stream, row), first));
  for (Value stream : work.sweep.lists())
    lists.push_back(getBlockPointer(kernel, stream, row, tile));
  int64_t width = sweep.getWidth();
  Value whole = builder.bitAnd(tile.columns, kernel.i64(-width));
  TileColumns wide(kernel, work, tile, known, storePointers, lists, width);
  TileColumns narrow(kernel, work, tile, known, storePointers, lists, 1);
  if (work.sweep.isSquare() || work.sweep.hasSquares()) {
    work.columns.clear();
    wide.reduce(kernel.i64(0), whole);
    narrow.reduce(whole, tile.columns);
    if (work.sweep.isSquare())
      narrow.computeSharedOfSquare(work.columns.total());
    else
      narrow.computeSharedOfSquares();
  } else {
    wide.computeShared(kernel.i64(0), whole);
    narrow.computeShared(whole, tile.columns);
  }
  kernel.loop(kernel.i64(0), tile.rows, kernel.i64(1), [&](Value r) {
    wide.storeRow(r, kernel.i64(0), whole);
    narrow.storeRow(r, whole, tile.columns);
  });
}

//===-- Columns -------------------------------------------------------------===//

Type TileColumns::getType() const {
  Type type = builder.getF32Type();
  return width > 1 ? VectorType::get({width}, type) : type;
}

// What neighbouring columns share, or the square.
SmallVector<Value> TileColumns::loadLists(Region &body, Value column) const {
  SmallVector<Value> loaded;
  for (auto [code, stream, at] : llvm::zip(body.getArguments().drop_front(), work.sweep.lists(), lists))
    loaded.push_back(kernel.load(code.getType(), kernel.offset(at, column, getBytes(stream)), getBytes(stream)));
  return loaded;
}

Value TileColumns::loadNumber(Value memory, Value row, Value column) const {
  Value at = kernel.offset(memory, row, tileColumns * sizeof(float));
  return kernel.load(getType(), kernel.offset(at, column, sizeof(float)), sizeof(float));
}

// What elements of a column share, or those of a square, of which there is one.
Value TileColumns::loadSharedValue(unsigned number, Value column) const {
  Value which = kernel.i64(number);
  if (!work.sweep.isSquare())
    return loadNumber(work.shared, which, column);
  Value one =
      kernel.load(builder.getF32Type(), kernel.offset(work.shared, which, tileColumns * sizeof(float)), sizeof(float));
  return width == 1 ? one : builder.broadcast(getType(), one);
}

// Of a column, or of neighbouring ones: a lane, or the upper half of its rows in order, then the lower half.
Value TileColumns::reduceColumn(Value column) const {
  Reduction kind = work.sweep.kind();
  auto reduce = [&](Value from, Value to) {
    return kernel.loopWith(from, to, kernel.i64(1), neutral(builder, kind, getType()),
                           [&](Value r, SmallVector<Value> before) -> SmallVector<Value> {
                             return {accumulate(builder, kind, before[0], loadNumber(work.memory, r, column))};
                           })[0];
  };
  if (work.sweep.block().getRows() == work.sweep.laneRows())
    return reduce(kernel.i64(0), tile.rows);
  Value half = builder.minSigned(tile.rows, kernel.i64(work.sweep.laneRows()));
  return combine(builder, kind, reduce(kernel.i64(0), half), reduce(half, tile.rows));
}

// Columns from `from` to `to`: what each stores once, and what its elements share.
void TileColumns::computeShared(Value from, Value to) const {
  const TileSweep &cut = work.sweep;
  Region &body = getBody();
  kernel.loop(from, to, kernel.i64(width), [&](Value column) {
    Value reduced = reduceColumn(column);
    SmallVector<Value> values = cut.computeBlock(kernel, body, known, reduced, loadLists(body, column));
    size_t next = 0;
    for (int64_t store : cut.getBlockStores()) {
      unsigned bytes = getBytes(cut.streams()[store]);
      kernel.store(values[next++], kernel.offset(storePointers[store], column, bytes), bytes);
    }
    for (auto [i, value] : llvm::enumerate(ArrayRef(values).drop_front(next))) {
      Value at = kernel.offset(work.shared, kernel.i64(i), tileColumns * sizeof(float));
      kernel.store(value, kernel.offset(at, column, sizeof(float)), sizeof(float));
    }
  });
}

void TileColumns::reduce(Value from, Value to) const {
  kernel.loop(from, to, kernel.i64(width),
              [&](Value column) { kernel.store(reduceColumn(column), work.columns.at(column), sizeof(float)); });
}

// A tile without columns, of a step that was called off, stores nothing.
void TileColumns::computeSharedOfSquare(Value reduced) const {
  const TileSweep &cut = work.sweep;
  SmallVector<Value> values =
      cut.computeBlock(kernel, cut.scalarBody(), known, reduced, loadLists(cut.scalarBody(), kernel.i64(0)));
  size_t next = 0;
  Value any = builder.notEqual(tile.columns, kernel.i64(0));
  for (int64_t store : cut.getBlockStores())
    kernel.when(any, [&] { kernel.store(values[next++], storePointers[store], getBytes(cut.streams()[store])); });
  for (auto [i, value] : llvm::enumerate(ArrayRef(values).drop_front(next)))
    kernel.store(value, kernel.offset(work.shared, kernel.i64(i), tileColumns * sizeof(float)), sizeof(float));
}

void TileColumns::computeSharedOfSquares() const {
  const TileSweep &cut = work.sweep;
  int64_t side = cut.block().getColumns();
  kernel.loop(kernel.i64(0), tile.columns, kernel.i64(side), [&](Value column) {
    Value which = builder.shiftRight(column, kernel.i64(llvm::Log2_64(side)));
    SmallVector<Value> values = cut.computeBlock(
        kernel, cut.scalarBody(), known, work.columns.slice(column, side).total(), loadLists(cut.scalarBody(), which));
    size_t next = 0;
    for (int64_t store : cut.getBlockStores()) {
      unsigned bytes = getBytes(cut.streams()[store]);
      kernel.store(values[next++], kernel.offset(storePointers[store], which, bytes), bytes);
    }
    int64_t lanes = work.columns.width;
    for (auto [i, value] : llvm::enumerate(ArrayRef(values).drop_front(next)))
      for (int64_t lane = 0; lane < side; lane += lanes) {
        Value all = builder.broadcast(VectorType::get({lanes}, builder.getF32Type()), value);
        Value at = kernel.offset(work.shared, kernel.i64(i * tileColumns + lane), sizeof(float));
        kernel.store(all, kernel.offset(at, column, sizeof(float)), sizeof(float));
      }
  });
}

// Of a row whose elements are an even number where two share a byte.
void TileColumns::storeElement(int64_t store, Value code, Value index) const {
  Value stream = work.sweep.streams()[store];
  Value at = getElementPointer(kernel, stream, storePointers[store], index);
  if (width > 1)
    storeCodes(kernel, stream, code, at, getBytes(stream));
  else
    storeCode(kernel, stream, code, at, index, /*preservesNext=*/{});
}

// Row by row: the stores of a column lie in one set of the cache where rows are as long as a power of two.
void TileColumns::storeRow(Value row, Value from, Value to) const {
  const TileSweep &cut = work.sweep;
  Region &body = getBody();
  Value before = builder.mul(row, tile.rowLength);
  kernel.loop(from, to, kernel.i64(width), [&](Value column) {
    SmallVector<Value> shared;
    for (unsigned i = 0; i < cut.countShared(); ++i)
      shared.push_back(loadSharedValue(i, column));
    Value number = loadNumber(work.memory, row, column);
    Value at = builder.add(column, before);
    for (int64_t store : cut.getElementStores())
      storeElement(store, cut.computeElement(kernel, body, store, known, number, shared), at);
  });
}

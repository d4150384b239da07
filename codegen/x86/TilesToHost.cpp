// A sweep over tiles on a host: row by row as other sweeps, then what waits for the
// reduction over each column, or over the square. The numbers of a tile are in the caches.
#include "codegen/x86/HostLowering.h"

using namespace mlir;
using namespace altgrad;

HostTile HostLowering::makeTile(SweepOp tiles) {
  auto numbers = [&](int64_t count) -> Value {
    return LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getF32Type(), kernel.i64(count),
                                  /*alignment=*/64);
  };
  TileSweep sweep(tiles);
  Value memory = numbers(sweep.rows() * tileColumns);
  return {
      sweep, memory, numbers(sweep.countShared() * tileColumns), {sweep.kind(), 0, tileColumns, numbers(tileColumns)}};
}

void HostLowering::sweepTile(SweepOp sweep, HostTile *work, Value index, ArrayRef<BlockBody> bodies) {
  Type i64 = builder.getI64Type();
  Value entry = kernel.offset(kernel.member(Member::Chunks), index, sizeof(altgrad_chunk));
  Row row = kernel.row(kernel.load(i64, entry, 8));
  Value first = kernel.load(i64, kernel.offset(entry, kernel.i64(1), 8), 8);
  Tile tile = tileAt(kernel, row, first, work ? work->sweep.rows() : sweep.getTileRows());
  ScalarLowering scalars(kernel, row);
  scalars.lowerFor(sweep, tile.columns);
  auto isWaiting = [&](Value tensors) { return work && tensors == work->sweep.tile(); };
  DenseMap<Value, Value> bases;
  IRMapping squares;
  for (Value tensors : getStreams(sweep)) {
    if (isWaiting(tensors) || bases.contains(tensors))
      continue;
    bases[tensors] = isPerTileBlock(tensors) ? listAt(kernel, tensors, row, tile) : kernel.stream(tensors, row);
    Type code = cast<TensorsType>(tensors.getType()).getFormat().getCodeType();
    if (isPerTileBlock(tensors) && getBlock(tensors) > 1)
      squares.map(tensors, kernel.load(code, bases[tensors], getBytes(tensors)));
  }
  kernel.loop(kernel.i64(0), tile.rows, kernel.i64(1), [&](Value r) {
    HostChunk chunk{sweep, {}};
    chunk.known = scalars.known;
    chunk.shared = squares;
    chunk.count = tile.columns;
    Value from = builder.add(first, builder.mul(r, tile.rowLength));
    if (usesIndex(sweep) || usesDraws(sweep))
      chunk.base = builder.add(kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), from);
    auto pointerTo = [&](Value tensors) -> Value {
      if (isWaiting(tensors))
        return kernel.offset(work->memory, r, tileColumns * sizeof(float));
      return isPerTileBlock(tensors) ? bases[tensors] : elementAt(kernel, tensors, bases[tensors], from);
    };
    for (Value tensors : sweep.getLoads())
      chunk.loads.push_back(pointerTo(tensors));
    drawAll(chunk, row);
    for (Value tensors : sweep.getStores())
      chunk.stores.push_back(pointerTo(tensors));
    run(chunk, bodies, tile.columns);
  });
  if (work)
    reduceTile(*work, tile, scalars.known, row, first, sweep.getWidth());
}

// What waits for the reduction over each column of a tile, or over the square.
void HostLowering::reduceTile(HostTile &work, const Tile &tile, const IRMapping &known, Row row, Value first,
                              int64_t width) {
  SmallVector<Value> places, lists;
  for (Value stream : work.sweep.streams())
    places.push_back(isPerTileBlock(stream) ? listAt(kernel, stream, row, tile)
                                            : kernel.offset(kernel.stream(stream, row), first, getBytes(stream)));
  for (Value stream : work.sweep.lists())
    lists.push_back(listAt(kernel, stream, row, tile));
  Value whole = builder.bitAnd(tile.columns, kernel.i64(-width));
  HostColumns wide{work, tile, known, places, lists, width};
  HostColumns narrow{work, tile, known, places, lists, 1};
  if (work.sweep.isSquare()) {
    shareOfSquare(wide, narrow, whole);
  } else {
    shareOfColumns(wide, kernel.i64(0), whole);
    shareOfColumns(narrow, whole, tile.columns);
  }
  kernel.loop(kernel.i64(0), tile.rows, kernel.i64(1), [&](Value r) {
    storeRow(wide, r, kernel.i64(0), whole);
    storeRow(narrow, r, whole, tile.columns);
  });
}

// What neighbouring columns share, or the square.
SmallVector<Value> HostLowering::loadLists(const HostColumns &of, Region &body, Value column) {
  SmallVector<Value> loaded;
  for (auto [code, stream, at] : llvm::zip(body.getArguments().drop_front(), of.work.sweep.lists(), of.lists))
    loaded.push_back(kernel.load(code.getType(), kernel.offset(at, column, getBytes(stream)), getBytes(stream)));
  return loaded;
}

void HostLowering::run(HostChunk &chunk, ArrayRef<BlockBody> bodies, Value count) {
  if (!bodies.empty())
    return blocks(chunk, bodies, count);
  int64_t width = chunk.sweep.getWidth();
  Value whole = builder.bitAnd(count, kernel.i64(-width));
  elements(chunk, chunk.sweep.getWide().front(), width, kernel.i64(0), whole);
  elements(chunk, chunk.sweep.getBody(), 1, whole, count);
}

Value HostLowering::numberAt(const HostColumns &of, Value memory, Value row, Value column) {
  Type type = builder.getF32Type();
  if (of.width > 1)
    type = VectorType::get({of.width}, type);
  Value at = kernel.offset(memory, row, tileColumns * sizeof(float));
  return kernel.load(type, kernel.offset(at, column, sizeof(float)), sizeof(float));
}

// What elements of a column share, or those of a square, of which there is one.
Value HostLowering::sharedAt(const HostColumns &of, unsigned number, Value column) {
  Value which = kernel.i64(number);
  if (!of.work.sweep.isSquare())
    return numberAt(of, of.work.shared, which, column);
  Value one = kernel.load(builder.getF32Type(), kernel.offset(of.work.shared, which, tileColumns * sizeof(float)),
                          sizeof(float));
  if (of.width == 1)
    return one;
  return builder.broadcast(VectorType::get({of.width}, builder.getF32Type()), one);
}

// Of a column, or of neighbouring ones: the upper half of its rows in order, then the lower half.
Value HostLowering::reduceColumn(const HostColumns &of, Value column) {
  Reduction kind = of.work.sweep.kind();
  Value half = builder.minSigned(of.tile.rows, kernel.i64(of.work.sweep.rows() / 2));
  auto reduce = [&](Value from, Value to) {
    Type type = of.width > 1 ? Type(VectorType::get({of.width}, builder.getF32Type())) : builder.getF32Type();
    return kernel.loopWith(from, to, kernel.i64(1), neutral(builder, kind, type),
                           [&](Value r, SmallVector<Value> before) -> SmallVector<Value> {
                             return {accumulate(builder, kind, before[0], numberAt(of, of.work.memory, r, column))};
                           })[0];
  };
  return join(builder, kind, reduce(kernel.i64(0), half), reduce(half, of.tile.rows));
}

// Columns from `from` to `to`: what each stores once, and what its elements share.
void HostLowering::shareOfColumns(const HostColumns &of, Value from, Value to) {
  const TileSweep &cut = of.work.sweep;
  Region &body = of.width > 1 ? cut.wide() : cut.narrow();
  kernel.loop(from, to, kernel.i64(of.width), [&](Value column) {
    Value reduced = reduceColumn(of, column);
    SmallVector<Value> values = cut.ofBlock(kernel, body, of.known, reduced, loadLists(of, body, column));
    size_t next = 0;
    for (int64_t store : cut.ofBlocks()) {
      unsigned bytes = getBytes(cut.streams()[store]);
      kernel.store(values[next++], kernel.offset(of.places[store], column, bytes), bytes);
    }
    for (auto [i, value] : llvm::enumerate(ArrayRef(values).drop_front(next))) {
      Value at = kernel.offset(of.work.shared, kernel.i64(i), tileColumns * sizeof(float));
      kernel.store(value, kernel.offset(at, column, sizeof(float)), sizeof(float));
    }
  });
}

// What the square stores once, and what its elements share. Its columns are lanes, of which those beyond the tensor
// have nothing. A tile without columns, of a step that was called off, stores nothing.
void HostLowering::shareOfSquare(const HostColumns &wide, const HostColumns &narrow, Value whole) {
  const TileSweep &cut = wide.work.sweep;
  const Lanes &lanes = wide.work.columns;
  clear(lanes);
  auto reduce = [&](const HostColumns &of, Value from, Value to) {
    kernel.loop(from, to, kernel.i64(of.width),
                [&](Value column) { kernel.store(reduceColumn(of, column), lane(lanes, column), sizeof(float)); });
  };
  reduce(wide, kernel.i64(0), whole);
  reduce(narrow, whole, wide.tile.columns);
  Value reduced = total(lanes);
  SmallVector<Value> values =
      cut.ofBlock(kernel, cut.narrow(), narrow.known, reduced, loadLists(narrow, cut.narrow(), kernel.i64(0)));
  size_t next = 0;
  Value any = builder.notEqual(wide.tile.columns, kernel.i64(0));
  for (int64_t store : cut.ofBlocks())
    kernel.when(any, [&] { kernel.store(values[next++], narrow.places[store], getBytes(cut.streams()[store])); });
  for (auto [i, value] : llvm::enumerate(ArrayRef(values).drop_front(next)))
    kernel.store(value, kernel.offset(wide.work.shared, kernel.i64(i), tileColumns * sizeof(float)), sizeof(float));
}

// Row by row: the stores of a column lie in one set of the cache where rows are as long as a power of two.
void HostLowering::storeRow(const HostColumns &of, Value row, Value from, Value to) {
  const TileSweep &cut = of.work.sweep;
  Region &body = of.width > 1 ? cut.wide() : cut.narrow();
  Value before = builder.mul(row, of.tile.rowLength);
  kernel.loop(from, to, kernel.i64(of.width), [&](Value column) {
    SmallVector<Value> shared;
    for (unsigned i = 0; i < cut.countShared(); ++i)
      shared.push_back(sharedAt(of, i, column));
    Value number = numberAt(of, of.work.memory, row, column);
    Value at = builder.add(column, before);
    for (int64_t store : cut.ofElements()) {
      unsigned bytes = getBytes(cut.streams()[store]);
      Value code = cut.ofElement(kernel, body, store, of.known, number, shared);
      kernel.store(code, kernel.offset(of.places[store], at, bytes), bytes);
    }
  });
}

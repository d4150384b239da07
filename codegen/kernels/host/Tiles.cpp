// A sweep over tiles of 32 rows on a host: row by row as other sweeps, then column by
// column what waits for the largest of each. The numbers of a tile are in the caches.
#include "codegen/kernels/host/HostLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

Value HostLowering::makeTile(KernelBuilder &kernel) {
  return LLVM::AllocaOp::create(builder, kernel.pointerType(),
                                builder.getF32Type(),
                                kernel.i64(ALTGRAD_CHUNK), /*alignment=*/64);
}

void HostLowering::sweepTile(KernelBuilder &kernel, HostTile &work, Value index,
                             ArrayRef<BlockStages> bodies) {
  Type i64 = builder.getI64Type();
  SweepOp sweep = work.sweep;
  Value entry =
      kernel.offset(kernel.member(Member::Chunks), index, sizeof(altgrad_chunk));
  Row row = kernel.row(kernel.load(i64, entry, 8));
  Value first = kernel.load(i64, kernel.offset(entry, kernel.i64(1), 8), 8);
  Tile tile = tileAt(kernel, row, first);
  ScalarLowering scalars(kernel, row);
  scalars.lowerBefore(sweep, [&](Value condition) {
    tile.columns = arith::SelectOp::create(builder, condition, tile.columns,
                                           kernel.i64(0));
  });
  scalars.lowerInside(sweep);
  DenseMap<Value, Value> bases;
  auto base = [&](Value tensors) {
    Value &known = bases[tensors];
    return known = known ? known : kernel.stream(tensors, row);
  };
  for (OperandRange streams : {sweep.getLoads(), sweep.getStores()})
    for (Value tensors : streams)
      if (tensors != work.columns.tile() && !drawnAs(tensors))
        base(tensors);
  kernel.loop(kernel.i64(0), tile.rows, kernel.i64(1), [&](Value r) {
    HostChunk chunk{sweep, {}};
    chunk.known = scalars.known;
    Value from = arith::AddIOp::create(
        builder, first, arith::MulIOp::create(builder, r, tile.rowLength));
    if (usesIndex(sweep) || !drawn.empty())
      chunk.base = arith::AddIOp::create(
          builder, kernel.rowHeader(row, ALTGRAD_ROW_OFFSET), from);
    auto pointerTo = [&](Value tensors) -> Value {
      if (const Drawn *one = drawnAs(tensors))
        return fill(kernel, *one, chunk, row, chunk.base, tile.columns);
      if (tensors == work.columns.tile())
        return kernel.offset(work.memory, r, tileColumns * sizeof(float));
      return elementAt(kernel, tensors, base(tensors), from);
    };
    for (Value tensors : sweep.getLoads())
      chunk.loads.push_back(pointerTo(tensors));
    for (Value tensors : sweep.getStores())
      chunk.stores.push_back(pointerTo(tensors));
    run(kernel, chunk, bodies, tile.columns);
  });
  auto place = [&](const Columns::Store &store) {
    Value at = first;
    if (store.ofColumn()) {
      Value block = arith::DivUIOp::create(builder, tile.row, kernel.i64(tileRows));
      at = arith::AddIOp::create(
          builder, arith::MulIOp::create(builder, block, tile.rowLength),
          tile.column);
    }
    return kernel.offset(kernel.stream(store.stream, row), at,
                         bytesOf(store.stream));
  };
  SmallVector<Value> places;
  for (const Columns::Store &store : work.columns.stores())
    places.push_back(place(store));
  Value whole = arith::AndIOp::create(builder, tile.columns,
                                      kernel.i64(-int64_t(sweep.getWidth())));
  columns(kernel, work, tile, scalars.known, places, sweep.getWidth(),
          kernel.i64(0), whole);
  columns(kernel, work, tile, scalars.known, places, 1, whole, tile.columns);
}

void HostLowering::run(KernelBuilder &kernel, HostChunk &chunk,
                       ArrayRef<BlockStages> bodies, Value count) {
  if (!bodies.empty())
    return blocks(kernel, chunk, bodies, count);
  int64_t width = chunk.sweep.getWidth();
  Value whole = arith::AndIOp::create(builder, count, kernel.i64(-width));
  elements(kernel, chunk, chunk.sweep.getWide().front(), width, kernel.i64(0),
           whole);
  elements(kernel, chunk, chunk.sweep.getBody(), 1, whole, count);
}

// The columns of a tile from `from` to `to`, `width` at a time.
void HostLowering::columns(KernelBuilder &kernel, HostTile &work,
                           const Tile &tile, const IRMapping &known,
                           ArrayRef<Value> places, int64_t width, Value from,
                           Value to) {
  Columns &cut = work.columns;
  Region &body = width > 1 ? cut.wide() : cut.narrow();
  Type type = builder.getF32Type();
  if (width > 1)
    type = VectorType::get({width}, type);
  kernel.loop(from, to, kernel.i64(width), [&](Value column) {
    auto number = [&](Value r) {
      Value at = kernel.offset(work.memory, r, tileColumns * sizeof(float));
      return kernel.load(type, kernel.offset(at, column, sizeof(float)),
                         sizeof(float));
    };
    auto larger = [&](Value r, SmallVector<Value> most) -> SmallVector<Value> {
      return {join(builder, Reduction::Max, most[0],
                   math::AbsFOp::create(builder, number(r)),
                   /*magnitudes=*/true)};
    };
    Value largest = kernel.loopWith(kernel.i64(0), tile.rows, kernel.i64(1),
                                    neutral(builder, Reduction::Max, type),
                                    larger)[0];
    for (auto [store, place] : llvm::zip(cut.stores(), places))
      if (store.ofColumn())
        kernel.store(cut.compute(kernel, body, store, known, {}, largest),
                     kernel.offset(place, column, bytesOf(store.stream)),
                     bytesOf(store.stream));
    kernel.loop(kernel.i64(0), tile.rows, kernel.i64(1), [&](Value r) {
      Value at = arith::AddIOp::create(
          builder, column,
          arith::MulIOp::create(builder, r, tile.rowLength));
      for (auto [store, place] : llvm::zip(cut.stores(), places))
        if (!store.ofColumn())
          kernel.store(cut.compute(kernel, body, store, known, number(r), largest),
                       kernel.offset(place, at, bytesOf(store.stream)),
                       bytesOf(store.stream));
    });
  });
}

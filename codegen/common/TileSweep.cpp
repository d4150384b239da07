// Geometry of tiles, and copies of what is computed from the reductions over them.
#include "codegen/common/TileSweep.h"

using namespace mlir;
using namespace altgrad;

Tile altgrad::tileAt(KernelBuilder &kernel, Row row, Value first, int64_t tileRows) {
  CodeBuilder &builder = kernel.builder;
  auto least = [&](Value whole, Value from, int64_t most) -> Value {
    return builder.least(builder.sub(whole, from), kernel.i64(most));
  };
  Tile tile;
  tile.rowLength = kernel.rowHeader(row, ALTGRAD_ROW_LENGTH);
  Value rows = kernel.rowHeader(row, ALTGRAD_ROW_ROWS);
  tile.row = builder.div(first, tile.rowLength);
  tile.column = builder.sub(first, builder.mul(tile.row, tile.rowLength));
  tile.rows = least(rows, tile.row, tileRows);
  tile.columns = least(tile.rowLength, tile.column, tileColumns);
  return tile;
}

bool altgrad::isOfTileBlock(Value stream) { return cast<TensorsType>(stream.getType()).getBlock().isOverRows(); }

Value TileSweep::firstBlock(KernelBuilder &kernel, const Tile &tile) const {
  CodeBuilder &builder = kernel.builder;
  Value down = builder.div(tile.row, kernel.i64(rows()));
  Value across = tile.column, length = tile.rowLength;
  if (isSquare()) {
    across = builder.div(across, kernel.i64(tileColumns));
    length = builder.div(builder.add(length, kernel.i64(tileColumns - 1)), kernel.i64(tileColumns));
  }
  return builder.add(builder.mul(down, length), across);
}

SmallVector<Value> TileSweep::ofBlock(KernelBuilder &kernel, Region &body, const IRMapping &known,
                                      Value reduced) const {
  IRMapping all(known);
  all.map(stage(body, 0).getReductions()[0], reduced);
  return cloneValues(kernel.builder, body, stage(body, 1).getWanted(), {{}, all, kernel.i64(0)});
}

Value TileSweep::ofElement(KernelBuilder &kernel, Region &body, int64_t store, const IRMapping &known, Value number,
                           ArrayRef<Value> shared) const {
  IRMapping all(known);
  all.map(stage(body, 1).getKept(), shared);
  Value wanted = body.front().getTerminator()->getOperand(store);
  return cloneValues(kernel.builder, body, wanted, {number, all, kernel.i64(0)})[0];
}

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

Value altgrad::listAt(KernelBuilder &kernel, Value stream, Row row, const Tile &tile) {
  CodeBuilder &builder = kernel.builder;
  BlockAttr block = cast<TensorsType>(stream.getType()).getBlock();
  Value down = builder.div(tile.row, kernel.i64(block.getRows()));
  Value across = tile.column, length = tile.rowLength;
  if (int64_t columns = block.getColumns(); columns > 1) {
    across = builder.div(across, kernel.i64(columns));
    length = builder.div(builder.add(length, kernel.i64(columns - 1)), kernel.i64(columns));
  }
  Value place = builder.add(builder.mul(down, length), across);
  return kernel.offset(kernel.stream(stream, row), place, bytesOf(stream));
}

SmallVector<Value> TileSweep::ofBlock(KernelBuilder &kernel, Region &body, const IRMapping &known, Value reduced,
                                      ArrayRef<Value> loaded) const {
  IRMapping all(known);
  all.map(stage(body, 0).getReductions()[0], reduced);
  all.map(body.getArguments().drop_front(), loaded);
  return cloneValues(kernel.builder, body, stage(body, 1).getWanted(), {{}, all, kernel.i64(0)});
}

Value TileSweep::ofElement(KernelBuilder &kernel, Region &body, int64_t store, const IRMapping &known, Value number,
                           ArrayRef<Value> shared) const {
  IRMapping all(known);
  all.map(stage(body, 1).getKept(), shared);
  Value wanted = body.front().getTerminator()->getOperand(store);
  return cloneValues(kernel.builder, body, wanted, {number, all, kernel.i64(0)})[0];
}

// Tiles on a host.
#ifndef ALTGRAD_CODEGEN_X86_HOSTTILES_H
#define ALTGRAD_CODEGEN_X86_HOSTTILES_H

#include "codegen/x86/HostBlocks.h"

namespace altgrad {

/// What waits for the reductions over a tile, where its numbers lie, and where what elements of a column share, in rows
/// of a tile's length. Of a tile that is a square elements share one number each. The columns of squares are lanes.
struct HostTile {
  TileSweep sweep;
  Value memory, shared;
  Lanes columns;
};

/// Columns of a tile, `width` at a time: their reductions, what neighbours or the square share, and what elements
/// store.
class TileColumns {
public:
  /// `storePointers`: where each store's lie; `lists`: what columns or the square share already.
  TileColumns(KernelBuilder &kernel, const HostTile &work, const Tile &tile, const IRMapping &known,
              ArrayRef<Value> storePointers, ArrayRef<Value> lists, int64_t width)
      : kernel(kernel), builder(kernel.builder), work(work), tile(tile), known(known), storePointers(storePointers),
        lists(lists), width(width) {}

  /// Columns from `from` to `to`: what each stores once, and what its elements share.
  void computeShared(Value from, Value to) const;
  /// Puts the reduction of each into its lane.
  void reduce(Value from, Value to) const;
  /// What the square stores once, and what its elements share, after the reduction of all columns.
  void computeSharedOfSquare(Value reduced) const;
  /// The same of squares beside each other.
  void computeSharedOfSquares() const;
  /// The elements of a row.
  void storeRow(Value row, Value from, Value to) const;

private:
  Region &getBody() const { return width > 1 ? work.sweep.vectorBody() : work.sweep.scalarBody(); }
  Type getType() const;
  Value reduceColumn(Value column) const;
  SmallVector<Value> loadLists(Region &body, Value column) const;
  Value loadNumber(Value memory, Value row, Value column) const;
  Value loadSharedValue(unsigned number, Value column) const;
  void storeElement(int64_t store, Value code, Value index) const;

  KernelBuilder &kernel;
  CodeBuilder &builder;
  const HostTile &work;
  const Tile &tile;
  const IRMapping &known;
  ArrayRef<Value> storePointers, lists;
  int64_t width;
};

/// A sweep over tiles: row by row as other sweeps, then what waits for the reduction over each column, or over the
/// square. The numbers of a tile are in the caches.
class HostTiles : HostEmitter {
public:
  /// At the kernel's entry: takes memory on the stack for `waiting`, the sweep of what waits for the reductions, or
  /// null.
  HostTiles(const HostEmitter &emitter, SweepOp waiting, HostElements &elements, HostBlocks *blocks);

  void lower(Value index);

private:
  bool isWaiting(Value tensors) { return work && tensors == work->sweep.tile(); }
  void spreadSquares(const Tile &tile, Row row, Value r);
  void reduceTile(const Tile &tile, const IRMapping &known, Row row, Value first);
  void reduceBlocks(const HostTile &work, const Tile &tile, const IRMapping &known, Row row, Value first);

  HostElements &elements;
  HostBlocks *blocks;
  std::optional<HostTile> work;
  /// Lists of small squares that the sweep loads: a row of their codes, one for each column.
  llvm::MapVector<Value, Value> spread;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_HOSTTILES_H

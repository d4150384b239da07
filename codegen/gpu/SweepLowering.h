// A sweep ==> loops over its chunks or tiles.
#ifndef ALTGRAD_CODEGEN_GPU_SWEEPLOWERING_H
#define ALTGRAD_CODEGEN_GPU_SWEEPLOWERING_H

#include "codegen/gpu/ChunkLowering.h"

namespace altgrad {

/// A sweep of a block of threads for a chunk, or of a warp where sums are to be kept apart.
class SweepLowering : GpuEmitter {
public:
  using GpuEmitter::GpuEmitter;

  void lower(SweepOp sweep);

private:
  void lowerChunk(SweepOp sweep, Value index);
  void openChunk(Chunk &chunk, Value index);
};

/// A sweep over tiles, a block of threads for a tile. Each thread does its elements of a row, or of one in 32, as in
/// other sweeps and leaves their numbers in shared memory; then each does half of a column.
class TileLowering : GpuEmitter {
public:
  /// `waiting`: the sweep of what waits for the columns of a tile, or for its largest; null if nothing does. Takes
  /// shared memory for it.
  TileLowering(GpuKernel &gpu, SweepOp sweep, SweepOp waiting);

  void lower(Value index);

private:
  /// As many rows as a block of threads does at once, and those below them.
  struct TilePart {
    Tile tile;
    Value first, held;
  };
  IRMapping getScalars(Row row, Tile &tile);
  void lowerRows(Tile tile, Value index, Value r);
  void lowerPart(const IRMapping &known, Row row, const TilePart &part);
  void openPart(Chunk &chunk, Row row, const TilePart &part);
  /// A thread's half of a column: the rows from `from` to `to` of those that exist, or none where `exists` is false.
  struct ColumnPart {
    Value column, half, from, to, exists;
  };
  ColumnPart getColumnPart(const Tile &tile);
  Value isLeader(const ColumnPart &part);
  Value locateBlock(Value stream, Row row, const Tile &tile, const ColumnPart &part);
  Value loadNumber(Value r, Value column);
  Value combineColumnParts(Value own);
  void storePairs(Value stream, Row row, Value first, const Tile &tile, const ColumnPart &part,
                  function_ref<Value(Value r, Value column)> compute);
  void reduceColumnPart(const Tile &tile, const IRMapping &known, Row row, Value first);

  SweepOp sweep;
  TileSweep tiles;
  /// Shared memory of the tile's numbers, and of what each thread finds in half a column; null where nothing waits.
  Value memory, columnParts;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_SWEEPLOWERING_H

// The body of a sweep inside a kernel: its scalars, and copies of it for elements; tiles.
#ifndef ALTGRAD_CODEGEN_COMMON_SWEEPBODY_H
#define ALTGRAD_CODEGEN_COMMON_SWEEPBODY_H

#include "codegen/common/KernelBuilder.h"
#include "passes/SweepQueries.h"

namespace altgrad {

/// Where element `index` of a stream lies, or the value that its block shares.
Value getElementPointer(KernelBuilder &kernel, Value stream, Value base, Value index);

/// What a copy of a body is made for: one element, or the neighbours in a vector.
struct BodyInputs {
  ValueRange loaded;
  /// The scalars, and results of block reductions; a pointer is where one waits.
  const IRMapping &known;
  /// The global index of the first element; null where what is wanted reads none.
  Value index;
  /// How far apart the elements of a vector are.
  int64_t stride = 1;
  /// What each `draw` of the body has drawn, in order.
  ValueRange draws = {};
};
/// Copies what computes `wanted` values of a body.
SmallVector<Value> cloneValues(CodeBuilder &builder, Region &body, ValueRange wanted, const BodyInputs &inputs);
/// Copies a body; returns what it emits.
SmallVector<Value> cloneSweepBody(CodeBuilder &builder, Region &body, const BodyInputs &inputs);

//===-- Walks over rows -----------------------------------------------------===//

/// Calls `body` for each row of an item of a sweep, one after the other: KernelBuilder::rowIndex says which.
void forEachRow(KernelBuilder &kernel, SweepOp sweep, Value item, function_ref<void()> body);
/// What a walk stores of a column: `value`, combined with what the rows before have left at `at`.
Value combineWithColumn(KernelBuilder &kernel, SweepOp sweep, Value value, Value at, unsigned alignment);
/// The row, and the number of the chunk, whose sums an item, in the row that is being done, has.
std::pair<Row, Value> getChunkNumber(KernelBuilder &kernel, SweepOp sweep, Value item);
/// Keeps what a sweep reduces of such a chunk.
void storePartial(KernelBuilder &kernel, SweepOp sweep, unsigned index, std::pair<Row, Value> chunk, Value total);

//===-- Tiles ---------------------------------------------------------------===//

/// Where a tile lies, in i64: its columns and rows may be fewer than a whole one's.
struct Tile {
  Value rowLength;     // columns of the tensor
  Value row, column;   // its first, of the tensor
  Value rows, columns; // its own
};
Tile getTile(KernelBuilder &kernel, Row row, Value first, int64_t tileRows);
/// Where the first value of a tile lies in the stream of a row, of columns or of squares.
Value getBlockPointer(KernelBuilder &kernel, Value stream, Row row, const Tile &tile);

/// The second sweep of a phase over tiles: what is computed from the reduction over each column or square of the
/// numbers that the first has left. Its three stages: the reduction, what a block stores and keeps, and what elements
/// store. It loads numbers, and lists of what blocks share.
class TileSweep {
public:
  explicit TileSweep(SweepOp sweep) : sweep(sweep) {}

  /// One f32 for each element of a tile, in rows of `tileColumns`, in memory of the kernel.
  Value tile() const { return sweep.getLoads()[0]; }
  Region &scalarBody() const { return sweep.getBody(); }
  Region &vectorBody() const { return sweep.getWide().front(); }
  BlockAttr block() const { return sweep.getTileBlock(); }
  /// Its rows, those that a lane of a column adds, and whether it is a block itself.
  int64_t rows() const { return sweep.getTileRows(); }
  int64_t laneRows() const { return rows() / 2; }
  bool isSquare() const { return rows() == squareBlock; }
  /// Whether it has several squares.
  bool hasSquares() const { return !isSquare() && block().getColumns() > 1; }
  Reduction kind() const { return stage(scalarBody(), 0).getReduceOps()[0].getReduction(); }
  mlir::OperandRange lists() const { return sweep.getLoads().drop_front(); }
  /// The numbers of the stores of a block, and of those of its elements.
  ArrayRef<int64_t> getBlockStores() const { return stage(scalarBody(), 1).getEmitted(); }
  ArrayRef<int64_t> getElementStores() const { return stage(scalarBody(), 2).getEmitted(); }
  mlir::OperandRange streams() const { return sweep.getStores(); }
  /// What a column, a vector of neighbours or a square stores once, and then what all
  /// of its elements share: f32. `loaded`: of its lists.
  SmallVector<Value> computeBlock(KernelBuilder &kernel, Region &body, const IRMapping &known, Value reduced,
                                  ArrayRef<Value> loaded) const;
  /// What goes to `store` of an element whose number in the tile is `number`.
  Value computeElement(KernelBuilder &kernel, Region &body, int64_t store, const IRMapping &known, Value number,
                       ArrayRef<Value> shared) const;
  /// How many values elements of a column or a square share.
  unsigned countShared() const { return stage(scalarBody(), 1).getKept().size(); }

private:
  static StageOp stage(Region &body, unsigned number) { return getStages(body)[number]; }

  mutable SweepOp sweep;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_SWEEPBODY_H

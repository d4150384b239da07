// The body of a sweep inside a kernel: its scalars, and copies of it for elements; tiles.
#ifndef ALTGRAD_CODEGEN_SWEEPBODY_H
#define ALTGRAD_CODEGEN_SWEEPBODY_H

#include "codegen/Target.h"
#include "codegen/common/KernelBuilder.h"
#include "llvm/ADT/BitVector.h"

namespace altgrad {

/// Whether a sweep asks for the indices of its elements.
bool usesIndex(SweepOp sweep);
/// Whether it draws random bits for them.
bool usesDraws(SweepOp sweep);
/// Whether elements are done block by block: values go from one to another, or they
/// share bytes.
bool exchangesInBlocks(SweepOp sweep);
/// Whether its streams are bf16 alone, of which words of 32 bits have two.
bool isOfHalves(SweepOp sweep);
/// The reductions over blocks of neighbours in a body, in order.
SmallVector<ReduceOp> blockReductions(Region &body);

/// How each block goes through a body, if `altgrad-cut-stages` found stages.
SmallVector<StageOp> stagesOf(Region &body);
/// How many codes of a book a CPU decodes at once.
constexpr int64_t codesAtOnce = 32;

/// Calls `of` for each phase of a step and its sweep, or null; fails after an error, as of an unknown target.
LogicalResult onPhases(StepOp step, StringRef target, function_ref<LogicalResult(PhaseOp, SweepOp, const Target &)> of);
/// Emits an error and fails if a target cannot lower a sweep: passes before have not run.
LogicalResult checkSweep(SweepOp sweep, const Target &target);

/// What a sweep loads, then what it stores.
inline mlir::OperandRange streamsOf(SweepOp sweep) {
  return sweep->getOperands().drop_front(sweep.getCondition() ? 1 : 0);
}
/// Whether a stream has one value for each column of a tile, or for a square: where it lies is said for each tile.
bool isOfTileBlock(Value stream);
/// Neighbours that share a value of a stream, and bytes of that value or of two
/// packed codes.
unsigned blockOf(Value stream);
unsigned bytesOf(Value stream);
/// Elements of which bytesOf() says the memory: a block's, or two where codes are packed.
unsigned sharedBy(Value stream);
/// Bits that a stream has for an element that shares no value.
unsigned bitsOf(Value stream);
/// Where element `index` of a stream lies, or the value that its block shares.
Value elementAt(KernelBuilder &kernel, Value stream, Value base, Value index);

/// What a copy of a body is made for: one element, or the neighbours in a vector.
struct BodyInputs {
  ValueRange loaded;
  /// The scalars, and results of block reductions; a pointer is where one waits.
  const IRMapping &known;
  /// The global index of the first element; null where what is wanted reads none.
  Value index;
  /// How far apart the elements of a vector are.
  int64_t apart = 1;
  /// What each `draw` of the body has drawn, in order.
  ValueRange draws = {};
};
/// The operations of a body that compute `wanted` from what `known` holds.
SetVector<Operation *> neededFor(ValueRange wanted, Region &body, const IRMapping &known);
/// The arguments of a body that they read.
llvm::BitVector argumentsFor(ValueRange wanted, Region &body, const IRMapping &known);
/// Copies what computes `wanted` values of a body.
SmallVector<Value> cloneValues(CodeBuilder &builder, Region &body, ValueRange wanted, const BodyInputs &inputs);
/// Copies a body; returns what it emits.
SmallVector<Value> cloneSweepBody(CodeBuilder &builder, Region &body, const BodyInputs &inputs);

//===-- Tiles ---------------------------------------------------------------===//

/// Where a tile lies, in i64: its columns and rows may be fewer than a whole one's.
struct Tile {
  Value rowLength;     // columns of the tensor
  Value row, column;   // its first, of the tensor
  Value rows, columns; // its own
};
Tile tileAt(KernelBuilder &kernel, Row row, Value first, int64_t tileRows);
/// Where the first value of a tile lies in the stream of a row, of columns or of squares.
Value listAt(KernelBuilder &kernel, Value stream, Row row, const Tile &tile);

/// The second sweep of a phase over tiles: what is computed from the reduction over each column, or over the square, of
/// the numbers that the first has left. Its three stages: the reduction, what a block stores and keeps, and what
/// elements store. It loads numbers, and lists of what blocks share.
class TileSweep {
public:
  explicit TileSweep(SweepOp sweep) : sweep(sweep) {}

  /// One f32 for each element of a tile, in rows of `tileColumns`, in memory of the kernel.
  Value tile() const { return sweep.getLoads()[0]; }
  Region &narrow() const { return sweep.getBody(); }
  Region &wide() const { return sweep.getWide().front(); }
  /// Its rows, and whether it is a block itself.
  int64_t rows() const { return sweep.getTileRows(); }
  bool isSquare() const { return rows() == squareBlock; }
  Reduction kind() const { return stage(narrow(), 0).getReduceOps()[0].getReduction(); }
  mlir::OperandRange lists() const { return sweep.getLoads().drop_front(); }
  /// The numbers of the stores of a block, and of those of its elements.
  ArrayRef<int64_t> ofBlocks() const { return stage(narrow(), 1).getEmitted(); }
  ArrayRef<int64_t> ofElements() const { return stage(narrow(), 2).getEmitted(); }
  mlir::OperandRange streams() const { return sweep.getStores(); }
  /// What a column, a vector of neighbours or a square stores once, and then what all
  /// of its elements share: f32. `loaded`: of its lists.
  SmallVector<Value> ofBlock(KernelBuilder &kernel, Region &body, const IRMapping &known, Value reduced,
                             ArrayRef<Value> loaded) const;
  /// What goes to `store` of an element whose number in the tile is `number`.
  Value ofElement(KernelBuilder &kernel, Region &body, int64_t store, const IRMapping &known, Value number,
                  ArrayRef<Value> shared) const;
  /// How many values elements of a column or a square share.
  unsigned countShared() const { return stage(narrow(), 1).getKept().size(); }

private:
  static StageOp stage(Region &body, unsigned number) { return stagesOf(body)[number]; }

  mutable SweepOp sweep;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SWEEPBODY_H

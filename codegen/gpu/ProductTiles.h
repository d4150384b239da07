// The operands of a product in shared memory.
#ifndef ALTGRAD_CODEGEN_GPU_PRODUCTTILES_H
#define ALTGRAD_CODEGEN_GPU_PRODUCTTILES_H

#include "dialect/builders/Instructions.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace altgrad {

/// What a copy brings at once, and a row of one of ldmatrix's matrices has.
constexpr int64_t pieceBytes = 16, pieceElements = 8;

/// One operand's tile of 16-bit numbers: `extent` rows of the left operand, or columns of the right one, and `depth`
/// terms of sums. It has lines as the matrix has them in memory: along sums, a line for each row or column, or across
/// them, a line for each term.
///
/// Pieces of a line change places with the line's number, so that neither ldmatrix, which reads a piece of each of
/// eight lines, nor a copy of neighbouring pieces has a bank conflict.
class OperandTile {
public:
  OperandTile(CodeBuilder &b, bool left, bool along, int64_t extent, int64_t depth, int64_t threads)
      : b(b), left(left), along(along), extent(extent), depth(depth), threads(threads) {}

  int64_t bytes() const { return extent * depth * 2; }

  /// Says what the block's thread copies: from a matrix whose lines are `stride` bytes apart and of whose `limit` rows
  /// or columns the tile begins with `first`.
  void aim(Value thread, Value matrix, Value stride, Value first, Value limit);
  /// Begins to copy the terms from `from` on. Of all terms there are `terms`; what does not exist is 0.
  void copy(Value stage, Value from, Value terms);

  /// Says what the thread `lane` of a warp reads: `groups` times 16 rows or columns, from `start` on.
  void read(Value lane, Value start, int64_t groups);
  /// For 16 terms, the registers of mma of each group: of a left operand four for 16 rows, of a right one two
  /// for each 8 columns.
  SmallVector<SmallVector<Value>> fragments(Value stage, int64_t step);

private:
  struct Copy {
    Value source, place; // of the tile's first terms
    Value line, bytes;   // across sums: which term, and how much of it exists
    Value bound;         // along sums: twice the terms before it; more than there are where the line does not exist
  };
  int64_t lines() const { return along ? extent : depth; }
  int64_t pieces() const { return (along ? depth : extent) / pieceElements; }
  Value place(Value line, Value piece);
  Value clamped(Value bytes);
  Value i32(int64_t value) { return b.integer(b.getI32Type(), value); }

  CodeBuilder &b;
  bool left, along;
  int64_t extent, depth, threads;
  Value stride;
  SmallVector<Copy> copies;
  SmallVector<SmallVector<Value>> places; // of ldmatrix, by step and group
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_PRODUCTTILES_H

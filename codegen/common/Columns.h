// The part of a sweep that knows the largest of each column, or of a square: what
// stores it, cut off from the rest, which leaves the numbers of a tile for it.
#ifndef ALTGRAD_CODEGEN_COLUMNS_H
#define ALTGRAD_CODEGEN_COLUMNS_H

#include "codegen/common/SweepBody.h"

namespace altgrad {

/// Where a tile lies, in i64: its columns and rows may be fewer than a whole one's.
struct Tile {
  Value rowLength;     // columns of the tensor
  Value row, column;   // its first, of the tensor
  Value rows, columns; // its own
};
Tile tileAt(KernelBuilder &kernel, Row row, Value first, int64_t tileRows);

class Columns {
public:
  /// Takes the stores that wait for the largest of a column or a square out of the
  /// sweep, which then stores to `tile` what that is of.
  explicit Columns(SweepOp sweep);
  Columns(Columns &&) = delete;
  ~Columns();

  /// One f32 for each element of a tile, in rows of `tileColumns`: a stream that
  /// lies in memory of the kernel.
  Value tile() const { return tileStream; }
  /// What was taken out: lists of codes, and of scales.
  struct Store {
    Value stream;
    unsigned emitted; // of the terminator's operands
    bool ofBlock() const { return mlir::cast<TensorsType>(stream.getType()).getBlock().isOverRows(); }
  };
  ArrayRef<Store> stores() const { return taken; }
  Region &narrow() { return whole.getBody(); }
  Region &wide() { return whole.getWide().front(); }
  /// Its rows, and whether it is a block itself.
  int64_t rows() const { return tileRows; }
  bool isSquare() const { return tileRows == squareBlock; }
  /// Where in a stream of blocks the tile's first one is.
  Value firstBlock(KernelBuilder &kernel, const Tile &tile);
  /// What a column, a vector of neighbours or a square stores once, and then what all
  /// of its elements share: f32.
  SmallVector<Value> ofBlock(KernelBuilder &kernel, Region &body, const IRMapping &known, Value largest);
  /// What goes to `store` of an element whose number in the tile is `number`.
  Value ofElement(KernelBuilder &kernel, Region &body, const Store &store, const IRMapping &known, Value number,
                  ArrayRef<Value> shared);
  /// How many values elements of a column or a square share.
  unsigned countShared() { return sharedOf(narrow()).size(); }

private:
  SmallVector<Value> sharedOf(Region &body);

  SweepOp sweep, whole; // `whole` is in no block
  int64_t tileRows;
  Value tileStream;
  SmallVector<Store> taken;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COLUMNS_H

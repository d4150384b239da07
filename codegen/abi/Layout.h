// Where the pointers to the arguments of a step lie in the tables of bundle.h.
#ifndef ALTGRAD_CODEGEN_ABI_LAYOUT_H
#define ALTGRAD_CODEGEN_ABI_LAYOUT_H

#include "dialect/Dialect.h"

namespace altgrad {

/// Streams and scalars of the signature, numbered as in bundle.h.
struct Binding {
  mlir::BlockArgument argument;
  bool isStream;
  unsigned slot;
  std::optional<unsigned> set; // none: of the step, or of every set
};
struct Layout {
  llvm::SmallVector<Binding> bindings; // one per argument, in order
  unsigned inputs = 0;                 // words of streams of access in
  unsigned rowPointers = 0;            // of other streams and scalars per tensor, and the two below
  /// The words, behind a row's header, that say where the tensor's lists per column and of squares lie in the
  /// workspace.
  std::optional<unsigned> columnSlot, squareSlot;
  unsigned groupScalars = 0, stepScalars = 0;
};
Layout getLayout(StepOp step);

/// How many words of the workspace the phases of a step keep values in, and its
/// lists there.
struct Workspace {
  unsigned stepWords = 0, rowWords = 0, chunkWords = 0, spills = 0;
};
Workspace getWorkspace(StepOp step);

/// How many lists per column a step has in the workspace: of one row of values for each tensor, and of one for each run
/// of ALTGRAD_RUN_ROWS rows.
struct ColumnLists {
  unsigned lists = 0, runs = 0;
};
ColumnLists getColumnLists(StepOp step);
/// How many lists of squares a step has in the workspace, of rows x rows and of columns x columns, and behind them
/// words of each chunk of such a square.
struct SquareLists {
  unsigned ofRows = 0, ofColumns = 0, rowWords = 0, columnWords = 0;
  explicit operator bool() const { return ofRows || ofColumns || rowWords || columnWords; }
};
SquareLists getSquareLists(StepOp step);
/// The place of a list among those of its kind.
unsigned getColumnIndex(SpillOp spill);

/// How many bytes of lists in the workspace lie before one, for each element: those of f32 come
/// first, and two of 16 bits share what one of f32 takes.
unsigned bytesBefore(SpillOp spill);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_ABI_LAYOUT_H

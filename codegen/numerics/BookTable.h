// A table of a code book in memory that kernels look it up in.
#ifndef ALTGRAD_CODEGEN_NUMERICS_BOOKTABLE_H
#define ALTGRAD_CODEGEN_NUMERICS_BOOKTABLE_H

#include "altgrad/book.h"
#include "dialect/Target.h"
#include "dialect/builders/CodeBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace altgrad {

/// The numbers of a book, or where the code after each of them begins.
struct BookPart {
  const Book *book;
  bool isNext;

  unsigned size() const { return book->size(); }
  /// Its first entry among those of all books.
  unsigned first() const;
};

class BookTable {
public:
  BookTable(CodeBuilder &b, const Target &target, BookPart part);

  /// The f32 at an i32 or at each of a vector of them, all below the part's size.
  Value at(Value indices) const;

private:
  Value offsetBy(Value from, mlir::LLVM::GEPArg by) const;
  Value load(Type type, Value from, unsigned alignment) const;
  Value entry(Value index) const;
  Value gather(Value indices, VectorType type) const;

  CodeBuilder &b;
  const Target &target;
  BookPart part;
  Value base;
};

/// Lets the threads of each kernel of a GPU copy the tables that it looks up into
/// shared memory, before all else.
void copyBooksToShared(Operation *module);
/// The bytes of a kernel's copy whose sweep is `op`.
unsigned bookBytes(Operation *op);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_BOOKTABLE_H

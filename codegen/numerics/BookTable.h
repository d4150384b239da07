// A table of a code book in memory that kernels look it up in.
#ifndef ALTGRAD_CODEGEN_BOOKTABLE_H
#define ALTGRAD_CODEGEN_BOOKTABLE_H

#include "altgrad/book.h"
#include "codegen/Target.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace altgrad {

/// The numbers of a book, or where the code after each of them begins.
struct BookPart {
  unsigned place; // in `books`
  bool isNext;

  unsigned size() const { return books[place].size(); }
  /// Its first entry among those of all books.
  unsigned first() const;
};

class BookTable {
public:
  BookTable(mlir::ImplicitLocOpBuilder &b, const Target &target, BookPart part);

  /// The f32 at an i32 or at each of a vector of them, all below the part's size.
  mlir::Value at(mlir::Value places) const;

private:
  mlir::Value moved(mlir::Value from, mlir::LLVM::GEPArg by) const;
  mlir::Value load(mlir::Type type, mlir::Value from, unsigned alignment) const;
  mlir::Value entry(mlir::Value place) const;
  mlir::Value call(llvm::StringRef intrinsic, mlir::Type type,
                   mlir::ValueRange operands) const;
  mlir::Value oneByOne(mlir::Value places, mlir::VectorType type) const;
  mlir::Value gathered(mlir::Value places, mlir::VectorType type) const;

  mlir::ImplicitLocOpBuilder &b;
  const Target &target;
  BookPart part;
  mlir::Value base;
};

/// Lets the threads of each kernel of a GPU copy the tables that it looks up into
/// shared memory, before all else.
void shareBooks(mlir::Operation *module);
/// The bytes of a kernel's copy whose sweep is `op`.
unsigned bookBytes(mlir::Operation *op);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_BOOKTABLE_H

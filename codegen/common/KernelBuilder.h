// What every kernel of a step does alike: reaching rows, streams, scalars and
// the workspace through altgrad_args (bundle.h).
#ifndef ALTGRAD_CODEGEN_KERNELBUILDER_H
#define ALTGRAD_CODEGEN_KERNELBUILDER_H

#include "altgrad/bundle.h"
#include "passes/phases/Layout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace altgrad {

/// The members of altgrad_args, in their order (bundle.h).
enum class Member {
#define ALTGRAD_POINTER(type, name, Name) Name,
#define ALTGRAD_COUNT(name, Name) Name,
  ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT)
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
};
constexpr unsigned memberCount = sizeof(altgrad_args) / sizeof(int64_t);

/// Whether a member is an i64 and no pointer.
constexpr bool isCount(Member member) {
  switch (member) {
#define ALTGRAD_POINTER(type, name, Name) case Member::Name: return false;
#define ALTGRAD_COUNT(name, Name) case Member::Name: return true;
    ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT)
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
  }
  return false;
}

/// A row of the table inside a kernel.
struct Row {
  mlir::Value index;   // i64
  mlir::Value pointer; // of its first word
};

class KernelBuilder {
public:
  /// `addressSpace` is 0 on a host, 1 on a GPU.
  KernelBuilder(mlir::ImplicitLocOpBuilder &builder, StepOp step,
                unsigned addressSpace);

  /// The value of a member, given by the kernel's prologue.
  mlir::Value members[memberCount];
  mlir::Value member(Member which) { return members[unsigned(which)]; }

  mlir::LLVM::LLVMPointerType pointerType() const { return pointer; }
  mlir::Value i64(int64_t value);
  mlir::Value i32(int32_t value);
  /// base + index * bytes
  mlir::Value offset(mlir::Value base, mlir::Value index, unsigned bytes);
  /// The same for an i32 index below a chunk's length.
  mlir::Value offset32(mlir::Value base, mlir::Value index, unsigned bytes);
  mlir::Value load(mlir::Type type, mlir::Value pointer, unsigned alignment,
                   bool invariant = false);
  void store(mlir::Value value, mlir::Value pointer, unsigned alignment);
  void loop(mlir::Value from, mlir::Value to, mlir::Value by,
            llvm::function_ref<void(mlir::Value)> body);
  /// From `from` down to `to`.
  void loopDown(mlir::Value from, mlir::Value to, mlir::Value by,
                llvm::function_ref<void(mlir::Value)> body);
  /// Loops of the next calls are not unrolled by a back end, which may take every
  /// register it is allowed for that.
  bool keepsRolled = false;
  /// The next calls load tables before a wait for other launches, so relaxed: a
  /// weak load may find an earlier step's rows in a cache, and ptxas lets one of
  /// constant memory pass the wait.
  bool readsTablesEarly = false;
  mlir::Value loadTable(mlir::Type type, mlir::Value pointer);
  /// A loop that carries values; `body` gives their next ones.
  llvm::SmallVector<mlir::Value>
  loopWith(mlir::Value from, mlir::Value to, mlir::Value by,
           mlir::ValueRange initial,
           llvm::function_ref<llvm::SmallVector<mlir::Value>(
               mlir::Value, llvm::SmallVector<mlir::Value>)>
               body);
  void when(mlir::Value condition, llvm::function_ref<void()> body);

  Row row(mlir::Value index);
  mlir::Value rowHeader(Row row, altgrad_row_word word);
  /// Whether a row is the first of its tensor.
  mlir::Value beginsTensor(Row row);
  /// How many chunks a fold of a row joins: 0 over a tensor that begins with
  /// another row.
  mlir::Value chunksOf(Row row, FoldOp fold);
  /// The first row of a set and the one after its last; without one, of all.
  std::pair<mlir::Value, mlir::Value> rowsOf(std::optional<uint64_t> set);
  /// Where the tensor of a stream begins.
  mlir::Value stream(mlir::Value tensors, Row row);
  /// Where the pointer to an argument's memory lies.
  mlir::Value argumentPointer(mlir::BlockArgument argument, Row row);
  /// A word of the workspace: of a chunk, of the step, of a row, or of the row with
  /// which its tensor begins.
  mlir::Value chunkWord(unsigned word, mlir::Value chunk);
  mlir::Value word(Space space, unsigned word, Row row);
  /// Words hold i1 as an i32.
  mlir::Value loadWord(mlir::Type type, mlir::Value pointer);
  void storeWord(mlir::Value value, mlir::Value pointer);

  mlir::ImplicitLocOpBuilder &builder;
  StepOp step;
  Layout layout;

private:
  mlir::LLVM::LLVMPointerType pointer;
  unsigned rowWords = 0; // of the workspace
};

/// Emits an error and fails if the step is not in phases.
mlir::LogicalResult checkPhases(StepOp step);

/// "altgrad_<step>_<phase>"
std::string symbolOf(PhaseOp phase);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_KERNELBUILDER_H

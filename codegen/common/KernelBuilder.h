// What every kernel of a step does alike: reaching rows, streams, scalars and
// the workspace through altgrad_args (bundle.h).
#ifndef ALTGRAD_CODEGEN_COMMON_KERNELBUILDER_H
#define ALTGRAD_CODEGEN_COMMON_KERNELBUILDER_H

#include "altgrad/bundle.h"
#include "codegen/abi/Layout.h"
#include "dialect/builders/Instructions.h"
#include "mlir/IR/IRMapping.h"

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
#define ALTGRAD_POINTER(type, name, Name)                                                                              \
  case Member::Name:                                                                                                   \
    return false;
#define ALTGRAD_COUNT(name, Name)                                                                                      \
  case Member::Name:                                                                                                   \
    return true;
    ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT)
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
  }
  return false;
}

/// A row of the table inside a kernel.
struct Row {
  Value index;   // i64
  Value pointer; // of its first word
};

/// Where a chunk lies: its elements are `count` of its row's, from `first` on, all i64.
struct ChunkSpan {
  Row row;
  Value first, numel, count;
};

/// Addresses, accesses and loops of a kernel.
class MemoryBuilder {
public:
  /// `addressSpace` is 0 on a host, 1 on a GPU.
  MemoryBuilder(CodeBuilder &builder, unsigned addressSpace)
      : builder(builder), pointer(mlir::LLVM::LLVMPointerType::get(builder.getContext(), addressSpace)) {}

  mlir::LLVM::LLVMPointerType pointerType() const { return pointer; }
  Value i64(int64_t value) { return builder.integer(builder.getI64Type(), value); }
  Value i32(int32_t value) { return builder.integer(builder.getI32Type(), value); }
  /// base + index * bytes
  Value offset(Value base, Value index, unsigned bytes);
  /// The same for an i32 index below a chunk's length.
  Value offset32(Value base, Value index, unsigned bytes);
  Value load(Type type, Value pointer, unsigned alignment, bool invariant = false);
  void store(Value value, Value pointer, unsigned alignment);
  /// Words hold i1 as an i32.
  Value loadWord(Type type, Value pointer);
  void storeWord(Value value, Value pointer);
  void loop(Value from, Value to, Value by, function_ref<void(Value)> body);
  /// From `from` down to `to`.
  void loopDown(Value from, Value to, Value by, function_ref<void(Value)> body);
  SmallVector<Value> loopWith(Value from, Value to, Value by, ValueRange initial,
                              function_ref<SmallVector<Value>(Value, SmallVector<Value>)> body);
  void when(Value condition, function_ref<void()> body) { altgrad::when(builder, condition, body); }

  /// Loops of the next calls are not unrolled by a back end, which may take every
  /// register it is allowed for that.
  bool noUnroll = false;
  CodeBuilder &builder;

private:
  mlir::LLVM::LLVMPointerType pointer;
};

/// Rows, streams, scalars and the workspace, through altgrad_args.
class KernelBuilder : public MemoryBuilder {
public:
  KernelBuilder(CodeBuilder &builder, StepOp step, unsigned addressSpace);

  /// The value of a member, given by the kernel's prologue.
  Value members[memberCount];
  Value member(Member which) { return members[unsigned(which)]; }

  /// The next calls load tables before a wait for other launches, so relaxed: a
  /// weak load may find an earlier step's rows in a cache, and ptxas lets one of
  /// constant memory pass the wait.
  bool readsTablesEarly = false;
  Value loadTable(Type type, Value pointer);

  Row row(Value index);
  Value rowHeader(Row row, altgrad_row_word word);
  /// Word 0 of a chunk is its row's index, word 1 its first element there.
  Value chunkHeader(Value chunk, unsigned word);
  std::pair<Row, Value> locateChunk(Value chunk);
  /// The next calls of locateChunk() and openChunk() are about the row that is this many rows after that of the chunk.
  Value rowIndex = {};
  /// In a set whose rows of the table are rows of matrices: how many its tensor has, and which of them a row is.
  Value countRows(Row row);
  Value rowOfMatrix(Row row);
  ChunkSpan openChunk(Value chunk, Walk walk = Walk::Chunks);
  /// How many elements of a row a walk goes over: its own, or those of its square.
  Value countElements(Row row, Walk walk);
  /// The global index of an element of a row.
  Value globalIndex(Row row, Value element);
  /// Whether the first element of its tensor is in this row.
  Value hasFirst(Row row);
  /// Whether a row is the first of its tensor.
  Value isFirstRow(Row row);
  /// How many chunks a fold of a row joins: 0 over a tensor that begins with
  /// another row.
  Value countChunks(Row row, FoldOp fold);
  /// The first chunk, or row, of those that a fold joins.
  Value firstPartial(Row row, FoldOp fold);
  /// What a fold of a row reads of a chunk, or of another row.
  Value partial(FoldOp fold, Row row, Value index);
  /// The word of a chunk, in which a sweep with this walk keeps a partial sum; a square's chunks count from its first.
  Value partialWord(Walk walk, unsigned word, Row row, Value chunk);
  /// The first row of a set and the one after its last; without one, of all.
  std::pair<Value, Value> getRows(std::optional<uint64_t> set);
  /// Where the tensor of a stream begins.
  Value stream(Value tensors, Row row);
  /// Where the pointer to an argument's memory lies.
  Value argumentPointer(BlockArgument argument, Row row);
  /// A word of the workspace: of a chunk, of the step, of a row, or of the row with
  /// which its tensor begins.
  Value chunkWord(unsigned word, Value chunk);
  Value word(Space space, unsigned word, Row row);

  StepOp step;
  Layout layout;

private:
  Value columnStream(SpillOp spill, Row row);
  Value squareStream(SpillOp spill, Row row);
  Value countSquareChunks(Row row, Walk walk);
  Value listStream(Row row, unsigned slot, function_ref<Value(Value)> index);

  unsigned rowWords = 0; // of the workspace
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_KERNELBUILDER_H

// Addresses, scalars and words of the workspace inside a kernel.
#include "codegen/common/KernelBuilder.h"

using namespace mlir;
using namespace altgrad;

static constexpr unsigned workspaceWordBytes = 8;

KernelBuilder::KernelBuilder(CodeBuilder &builder, StepOp step, unsigned addressSpace)
    : MemoryBuilder(builder, addressSpace), step(step), layout(getLayout(step)), rowWords(getWorkspace(step).rowWords) {
}

Value MemoryBuilder::offset(Value base, Value index, unsigned bytes) {
  return addBytes(builder, base, builder.mul(index, i64(bytes)));
}

Value MemoryBuilder::offset32(Value base, Value index, unsigned bytes) {
  return addBytes(builder, base, builder.extendUnsigned(builder.getI64Type(), builder.mul(index, i32(bytes))));
}

Value MemoryBuilder::load(Type type, Value from, unsigned alignment, bool invariant) {
  return LLVM::LoadOp::create(builder, type, from, alignment,
                              /*isVolatile=*/false, /*isNonTemporal=*/false, invariant);
}

Value KernelBuilder::loadTable(Type type, Value from) {
  if (!readsTablesEarly)
    return load(type, from, workspaceWordBytes, /*invariant=*/true);
  return LLVM::LoadOp::create(builder, type, from, workspaceWordBytes, /*isVolatile=*/false,
                              /*isNonTemporal=*/false, /*isInvariant=*/false,
                              /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic, "device");
}

void MemoryBuilder::store(Value value, Value to, unsigned alignment) {
  LLVM::StoreOp::create(builder, value, to, alignment);
}

static Attribute rolled(OpBuilder &builder) {
  auto unroll =
      LLVM::LoopUnrollAttr::get(builder.getContext(), /*disable=*/builder.getBoolAttr(true), {}, {}, {}, {}, {}, {});
  return LLVM::LoopAnnotationAttr::get(builder.getContext(), {}, {}, {}, unroll, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},
                                       {});
}

SmallVector<Value> MemoryBuilder::loopWith(Value from, Value to, Value by, ValueRange initial,
                                           function_ref<SmallVector<Value>(Value, SmallVector<Value>)> body) {
  scf::ForOp loop = altgrad::loopWith(builder, from, to, by, initial, body);
  if (noUnroll)
    loop->setAttr("llvm.loop_annotation", rolled(builder));
  return SmallVector<Value>(loop.getResults());
}

void MemoryBuilder::loop(Value from, Value to, Value by, function_ref<void(Value)> body) {
  loopWith(from, to, by, {}, [&](Value index, SmallVector<Value> none) {
    body(index);
    return none;
  });
}

void MemoryBuilder::loopDown(Value from, Value to, Value by, function_ref<void(Value)> body) {
  OpBuilder::InsertionGuard guard(builder);
  auto loop = scf::WhileOp::create(builder, from.getType(), from);
  Value index = builder.createBlock(&loop.getBefore(), {}, from.getType(), builder.getLoc())->getArgument(0);
  Value inside = builder.greaterEqual(index, to);
  scf::ConditionOp::create(builder, inside, index);
  index = builder.createBlock(&loop.getAfter(), {}, from.getType(), builder.getLoc())->getArgument(0);
  body(index);
  Value next = builder.sub(index, by);
  scf::YieldOp::create(builder, next);
}

//===-- Rows and streams ----------------------------------------------------===//

Row KernelBuilder::row(Value index) {
  unsigned words = ALTGRAD_ROW_HEADER + layout.rowPointers;
  return {index, offset(member(Member::Rows), index, words * workspaceWordBytes)};
}

Value KernelBuilder::rowHeader(Row row, altgrad_row_word word) {
  return loadTable(builder.getI64Type(), offset(row.pointer, i64(word), workspaceWordBytes));
}

Value KernelBuilder::chunkHeader(Value chunk, unsigned word) {
  Value entry = offset(member(Member::Chunks), chunk, sizeof(altgrad_chunk));
  return loadTable(builder.getI64Type(), word ? offset(entry, i64(word), workspaceWordBytes) : entry);
}

std::pair<Row, Value> KernelBuilder::locateChunk(Value chunk) {
  Value index = chunkHeader(chunk, 0), first = chunkHeader(chunk, 1);
  if (rowIndex)
    index = builder.add(index, rowIndex);
  return {row(index), first};
}

Value KernelBuilder::countElements(Row row, Walk walk) {
  if (walk < Walk::RowSquares)
    return rowHeader(row, ALTGRAD_ROW_NUMEL);
  Value side = rowHeader(row, walk == Walk::RowSquares ? ALTGRAD_ROW_MATRIX_ROWS : ALTGRAD_ROW_MATRIX_COLUMNS);
  return builder.mul(side, side);
}

ChunkSpan KernelBuilder::openChunk(Value chunk, Walk walk) {
  auto [row, first] = locateChunk(chunk);
  Value numel = countElements(row, walk);
  return {row, first, numel, builder.minSigned(builder.sub(numel, first), i64(ALTGRAD_CHUNK))};
}

Value KernelBuilder::globalIndex(Row row, Value element) {
  return builder.add(rowHeader(row, ALTGRAD_ROW_OFFSET), element);
}

Value KernelBuilder::hasFirst(Row row) {
  Value begins = builder.equal(rowHeader(row, ALTGRAD_ROW_OFFSET), i64(0));
  return arith::AndIOp::create(builder, begins, builder.notEqual(rowHeader(row, ALTGRAD_ROW_NUMEL), i64(0)));
}

Value KernelBuilder::isFirstRow(Row row) { return builder.equal(rowHeader(row, ALTGRAD_ROW_TENSOR), row.index); }

Value KernelBuilder::countSquareChunks(Row row, Walk walk) {
  Value beyond = builder.add(countElements(row, walk), i64(ALTGRAD_CHUNK - 1));
  return builder.div(beyond, i64(ALTGRAD_CHUNK));
}

Value KernelBuilder::countChunks(Row row, FoldOp fold) {
  if (fold.getWalk() != Walk::Chunks) { // those of an empty tensor's square have no sums
    Value some = builder.notEqual(rowHeader(row, ALTGRAD_ROW_NUMEL), i64(0));
    some = fold.getTensor() ? builder.bitAnd(some, isFirstRow(row)) : some;
    return builder.select(some, countSquareChunks(row, fold.getWalk()), i64(0));
  }
  Value chunks = rowHeader(row, ALTGRAD_ROW_CHUNKS);
  if (!fold.getTensor())
    return chunks;
  Value whole = builder.mul(rowHeader(row, ALTGRAD_ROW_ROWS), rowHeader(row, ALTGRAD_ROW_LENGTH));
  Value own = arith::MaxUIOp::create(builder, rowHeader(row, ALTGRAD_ROW_NUMEL),
                                     i64(1)); // of an empty tensor
  Value units = builder.div(whole, own);
  chunks = fold.getRows() ? units : builder.mul(chunks, units);
  return builder.select(isFirstRow(row), chunks, i64(0));
}

Value KernelBuilder::firstPartial(Row row, FoldOp fold) {
  return fold.getRows() ? row.index : fold.getWalk() != Walk::Chunks ? i64(0) : rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
}

Value KernelBuilder::partial(FoldOp fold, Row row, Value index) {
  return fold.getRows() ? word(Space::Row, fold.getWord(), Row{index, {}})
                        : partialWord(fold.getWalk(), fold.getWord(), row, index);
}

std::pair<Value, Value> KernelBuilder::getRows(std::optional<uint64_t> set) {
  if (!set || step.getSetCount() == 1)
    return {i64(0), member(Member::RowCount)};
  auto bound = [&](uint64_t index) {
    return loadTable(builder.getI64Type(), offset(member(Member::Sets), i64(index), workspaceWordBytes));
  };
  return {bound(*set), bound(*set + 1)};
}

Value KernelBuilder::countRows(Row row) {
  return builder.mul(rowHeader(row, ALTGRAD_ROW_MATRIX_ROWS), rowHeader(row, ALTGRAD_ROW_BATCH));
}

Value KernelBuilder::rowOfMatrix(Row row) { return builder.sub(row.index, rowHeader(row, ALTGRAD_ROW_TENSOR)); }

// Behind the lists of elements, tensor by tensor; `index` counts from the first of its tensor on.
Value KernelBuilder::listStream(Row row, unsigned slot, function_ref<Value(Value)> index) {
  Value first =
      loadTable(builder.getI64Type(), offset(row.pointer, i64(ALTGRAD_ROW_HEADER + slot), workspaceWordBytes));
  Value own = index(first);
  Value behind = builder.mul(i64(getWorkspace(step).spills), member(Member::ChunkCount));
  return offset(offset(member(Member::Spills), behind, ALTGRAD_CHUNK * sizeof(float)), own, sizeof(float));
}

// First the squares of rows x rows.
Value KernelBuilder::squareStream(SpillOp spill, Row row) {
  bool ofRows = spill.getTensors().getType().getBlock().isRowSquare();
  Value before = builder.mul(i64(ofRows ? getColumnIndex(spill) : getSquareLists(step).ofRows),
                             countElements(row, Walk::RowSquares));
  if (!ofRows)
    before = builder.add(before, builder.mul(i64(getColumnIndex(spill)), countElements(row, Walk::ColumnSquares)));
  return listStream(row, *layout.squareSlot, [&](Value first) { return builder.add(first, before); });
}

// Behind the squares those of rows x rows, then those of columns x columns.
Value KernelBuilder::partialWord(Walk walk, unsigned word, Row row, Value chunk) {
  if (walk < Walk::RowSquares)
    return chunkWord(word, chunk);
  SquareLists lists = getSquareLists(step);
  auto times = [&](unsigned number, Value each) { return builder.mul(i64(number), each); };
  Value squares = builder.add(times(lists.ofRows, countElements(row, Walk::RowSquares)),
                              times(lists.ofColumns, countElements(row, Walk::ColumnSquares)));
  Value before = builder.add(squares, times(word, countSquareChunks(row, walk)));
  if (walk == Walk::ColumnSquares)
    before = builder.add(before, times(lists.rowWords, countSquareChunks(row, Walk::RowSquares)));
  return listStream(row, *layout.squareSlot,
                    [&](Value first) { return builder.add(builder.add(first, before), chunk); });
}

// First the lists with one row of values, then those with more.
Value KernelBuilder::columnStream(SpillOp spill, Row row) {
  ColumnLists columns = getColumnLists(step);
  Value number = i64(getColumnIndex(spill));
  if (spill.getRuns()) {
    Value ofRun = builder.div(rowOfMatrix(row), i64(ALTGRAD_RUN_ROWS));
    Value all = builder.div(builder.add(countRows(row), i64(ALTGRAD_RUN_ROWS - 1)), i64(ALTGRAD_RUN_ROWS));
    number = builder.add(builder.add(builder.mul(number, all), ofRun), i64(columns.lists));
  }
  return listStream(row, *layout.columnSlot, [&](Value first) {
    return builder.add(first, builder.mul(number, rowHeader(row, ALTGRAD_ROW_NUMEL)));
  });
}

Value KernelBuilder::stream(Value tensors, Row row) {
  if (auto spill = tensors.getDefiningOp<SpillOp>()) {
    if (spill.getTensors().getType().isPerColumn())
      return columnStream(spill, row);
    if (spill.getTensors().getType().isSquare())
      return squareStream(spill, row);
    unsigned bytes = spill.getTensors().getType().getFormat().getBytes();
    // The units of a tensor lie without gaps, which tiles would meet.
    bool units = step.hasUnits();
    Row whole = units ? this->row(rowHeader(row, ALTGRAD_ROW_TENSOR)) : row;
    Value first = rowHeader(whole, ALTGRAD_ROW_FIRST_CHUNK);
    Value before = builder.mul(i64(bytesBefore(spill) / bytes), member(Member::ChunkCount));
    Value chunk = builder.add(before, first);
    Value memory = offset(member(Member::Spills), chunk, ALTGRAD_CHUNK * bytes);
    if (!units)
      return memory;
    Value unit = builder.sub(row.index, whole.index);
    Value elements = builder.mul(unit, rowHeader(row, ALTGRAD_ROW_NUMEL));
    return offset(memory, elements, bytes);
  }
  return loadTable(pointerType(), argumentPointer(cast<BlockArgument>(tensors), row));
}

Value KernelBuilder::argumentPointer(BlockArgument argument, Row row) {
  const Binding &binding = layout.bindings[argument.getArgNumber()];
  auto table = [&](Member which, Value index, unsigned width) {
    Value entry = builder.add(builder.mul(index, i64(width)), i64(binding.slot));
    return offset(member(which), entry, workspaceWordBytes);
  };
  if (binding.isStream && step.getAccess(argument) == Access::In)
    return table(Member::Inputs, row.index, layout.inputs);
  if (!binding.isStream && step.getScope(argument) == Scope::Step)
    return offset(member(Member::Scalars), i64(binding.slot), workspaceWordBytes);
  if (!binding.isStream && step.getScope(argument) == Scope::Group)
    return table(Member::Groups, rowHeader(row, ALTGRAD_ROW_GROUP), layout.groupScalars);
  return offset(row.pointer, i64(ALTGRAD_ROW_HEADER + binding.slot), workspaceWordBytes);
}

Value KernelBuilder::chunkWord(unsigned word, Value chunk) {
  Value before = builder.mul(i64(word), member(Member::ChunkCount));
  return offset(member(Member::ChunkWords), builder.add(before, chunk), sizeof(uint32_t));
}

Value KernelBuilder::word(Space space, unsigned word, Row row) {
  if (space == Space::Step)
    return offset(member(Member::StepWords), i64(word), workspaceWordBytes);
  Value index = space == Space::Tensor ? rowHeader(row, ALTGRAD_ROW_TENSOR) : row.index;
  Value before = builder.mul(index, i64(rowWords));
  return offset(member(Member::RowWords), builder.add(before, i64(word)), workspaceWordBytes);
}

//===-- Words ---------------------------------------------------------------===//

Value MemoryBuilder::loadWord(Type type, Value from) {
  if (!type.isInteger(1))
    return load(type, from, type.getIntOrFloatBitWidth() / 8);
  Value word = load(builder.getI32Type(), from, 4);
  return builder.notEqual(word, i32(0));
}

void MemoryBuilder::storeWord(Value value, Value to) {
  if (value.getType().isInteger(1))
    value = builder.extendUnsigned(builder.getI32Type(), value);
  store(value, to, value.getType().getIntOrFloatBitWidth() / 8);
}

// Copies of a sweep's body, with the values it asks of its element, block and row.
#include "codegen/common/SweepBody.h"

#include "codegen/common/PackedCodes.h"
#include "codegen/common/Reductions.h"

using namespace mlir;
using namespace altgrad;

Value altgrad::getElementPointer(KernelBuilder &kernel, Value stream, Value base, Value index) {
  if (unsigned block = getElementsPerEntry(stream); block > 1)
    index = kernel.builder.shiftRight(index, kernel.i64(llvm::Log2_32(block)));
  return kernel.offset(base, index, getBytes(stream));
}

// The global indices of an element, or of those in a vector.
static Value getIndices(CodeBuilder &builder, Value first, int64_t stride, Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return first;
  SmallVector<int64_t> steps;
  for (int64_t i = 0; i < vector.getNumElements(); ++i)
    steps.push_back(i * stride);
  return builder.add(builder.broadcast(vector, first), builder.denseInts(vector, steps));
}

SmallVector<Value> altgrad::cloneValues(CodeBuilder &builder, Region &body, ValueRange wanted,
                                        const BodyInputs &inputs) {
  IRMapping map(inputs.known);
  for (auto op : body.getOps<IndexOp>())
    if (inputs.index) // scalars are wanted without one
      map.map(op.getIndex(), getIndices(builder, inputs.index, inputs.stride, op.getType()));
  for (auto [op, bits] : llvm::zip(body.getOps<DrawOp>(), inputs.draws))
    map.map(op.getBits(), bits);
  for (ReduceOp op : getBlockReductions(body))
    if (Value one = map.lookupOrNull(op.getResult()); one && one.getType() != op.getType())
      map.map(op.getResult(), builder.broadcast(op.getType(), one));
  map.map(body.getArguments(), inputs.loaded);
  // Volatile: it would be a register through the whole sweep otherwise.
  auto read = [&](Type type, Value at) -> Value {
    if (!isa<LLVM::LLVMPointerType>(at.getType()))
      return at;
    return LLVM::LoadOp::create(builder, type, at, /*alignment=*/0,
                                /*isVolatile=*/true);
  };
  llvm::SetVector<Operation *> needed = findOperations(wanted, body, map);
  for (Operation &op : body.front().without_terminator()) {
    if (!needed.contains(&op))
      continue;
    Operation *copy = builder.clone(op, map);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(copy);
    for (auto [here, there] : llvm::zip(copy->getOpOperands(), op.getOperandTypes()))
      here.set(read(there, here.get()));
  }
  SmallVector<Value> copies;
  for (Value value : wanted)
    copies.push_back(read(value.getType(), map.lookup(value)));
  return copies;
}

SmallVector<Value> altgrad::cloneSweepBody(CodeBuilder &builder, Region &body, const BodyInputs &inputs) {
  return cloneValues(builder, body, body.front().getTerminator()->getOperands(), inputs);
}

//===-- Walks over rows -----------------------------------------------------===//

void altgrad::forEachRow(KernelBuilder &kernel, SweepOp sweep, Value item, function_ref<void()> body) {
  if (!sweep.getCombine())
    return body();
  CodeBuilder &builder = kernel.builder;
  Row first = kernel.locateChunk(item).first;
  bool isRun = sweep.getWalk() == Walk::Runs;
  Value rows = kernel.countRows(first);
  if (isRun)
    rows = builder.minSigned(builder.sub(rows, kernel.rowOfMatrix(first)), kernel.i64(ALTGRAD_RUN_ROWS));
  kernel.loop(kernel.i64(0), rows, kernel.i64(isRun ? 1 : ALTGRAD_RUN_ROWS), [&](Value row) {
    kernel.rowIndex = row;
    body();
  });
  kernel.rowIndex = {};
}

Value altgrad::combineWithColumn(KernelBuilder &kernel, SweepOp sweep, Value value, Value at, unsigned alignment) {
  CodeBuilder &builder = kernel.builder;
  Reduction kind = *sweep.getCombine();
  Value begins = builder.equal(kernel.rowIndex, kernel.i64(0));
  Value before = kernel.load(value.getType(), at, alignment);
  before = builder.select(begins, neutral(builder, kind, value.getType()), before);
  return accumulate(builder, kind, before, value);
}

std::pair<Row, Value> altgrad::getChunkNumber(KernelBuilder &kernel, SweepOp sweep, Value item) {
  if (sweep.getWalk() == Walk::Chunks)
    return {Row{}, item};
  auto [row, first] = kernel.locateChunk(item);
  Value before = kernel.builder.div(first, kernel.i64(ALTGRAD_CHUNK));
  if (sweep.getFoldedWalk() != Walk::Chunks)
    return {row, before};
  return {row, kernel.builder.add(kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK), before)};
}

void altgrad::storePartial(KernelBuilder &kernel, SweepOp sweep, unsigned index, std::pair<Row, Value> chunk,
                           Value total) {
  Value word = kernel.partialWord(sweep.getWalk(), sweep.getChunkWord(index), chunk.first, chunk.second);
  kernel.store(total, word, sizeof(uint32_t));
}

//===-- Tiles ---------------------------------------------------------------===//

Tile altgrad::getTile(KernelBuilder &kernel, Row row, Value first, int64_t tileRows) {
  CodeBuilder &builder = kernel.builder;
  auto least = [&](Value whole, Value from, int64_t most) -> Value {
    return builder.minSigned(builder.sub(whole, from), kernel.i64(most));
  };
  Tile tile;
  tile.rowLength = kernel.rowHeader(row, ALTGRAD_ROW_LENGTH);
  Value rows = kernel.rowHeader(row, ALTGRAD_ROW_ROWS);
  tile.row = builder.div(first, tile.rowLength);
  tile.column = builder.sub(first, builder.mul(tile.row, tile.rowLength));
  tile.rows = least(rows, tile.row, tileRows);
  tile.columns = least(tile.rowLength, tile.column, tileColumns);
  return tile;
}

Value altgrad::getBlockPointer(KernelBuilder &kernel, Value stream, Row row, const Tile &tile) {
  CodeBuilder &builder = kernel.builder;
  BlockAttr block = cast<TensorsType>(stream.getType()).getBlock();
  Value down = builder.div(tile.row, kernel.i64(block.getRows()));
  Value across = tile.column, length = tile.rowLength;
  if (int64_t columns = block.getColumns(); columns > 1) {
    across = builder.div(across, kernel.i64(columns));
    length = builder.div(builder.add(length, kernel.i64(columns - 1)), kernel.i64(columns));
  }
  Value index = builder.add(builder.mul(down, length), across);
  return kernel.offset(kernel.stream(stream, row), index, getBytes(stream));
}

SmallVector<Value> TileSweep::computeBlock(KernelBuilder &kernel, Region &body, const IRMapping &known, Value reduced,
                                           ArrayRef<Value> loaded) const {
  IRMapping all(known);
  all.map(stage(body, 0).getReductions()[0], reduced);
  all.map(body.getArguments().drop_front(), loaded);
  return cloneValues(kernel.builder, body, stage(body, 1).getRequired(), {{}, all, kernel.i64(0)});
}

Value TileSweep::computeElement(KernelBuilder &kernel, Region &body, int64_t store, const IRMapping &known,
                                Value number, ArrayRef<Value> shared) const {
  IRMapping all(known);
  all.map(stage(body, 1).getKept(), shared);
  Value wanted = body.front().getTerminator()->getOperand(store);
  return cloneValues(kernel.builder, body, wanted, {number, all, kernel.i64(0)})[0];
}

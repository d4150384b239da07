// Cutting a sweep at the largest of its columns or squares.
#include "codegen/common/Columns.h"

using namespace mlir;
using namespace altgrad;

Tile altgrad::tileAt(KernelBuilder &kernel, Row row, Value first, int64_t tileRows) {
  CodeBuilder &builder = kernel.builder;
  auto least = [&](Value whole, Value from, int64_t most) -> Value {
    return builder.least(builder.sub(whole, from), kernel.i64(most));
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

// The values of a body that are computed from the largest of its columns.
static DenseSet<Value> dependents(Region &body) {
  DenseSet<Value> found;
  for (Operation &op : body.front())
    if (isTileMax(&op) || llvm::any_of(op.getOperands(), [&](Value value) { return found.contains(value); }))
      found.insert_range(op.getResults());
  return found;
}

static Operation *maximumOf(Region &body) {
  return &*llvm::find_if(body.front(), [](Operation &op) { return isTileMax(&op); });
}

// The number that a body takes the largest of, and what that is.
static Value numberOf(Region &body) { return maximumOf(body)->getOperand(0); }
static Value largestOf(Region &body) { return maximumOf(body)->getResult(0); }

Columns::Columns(SweepOp sweep) : sweep(sweep), whole(sweep.clone()), tileRows(sweep.getTileRows()) {
  assert(sweep.getNumResults() == 0 && !sweep.getQuick());
  MLIRContext *context = sweep.getContext();
  OpBuilder nowhere(context); // the stream is in no block
  tileStream =
      SpillOp::create(nowhere, sweep.getLoc(), TensorsType::get(context, FormatAttr::getNamed(context, "f32")));
  DenseSet<Value> late = dependents(sweep.getBody());
  SmallVector<Value> streams;
  SmallVector<unsigned> kept;
  for (auto [index, value] : llvm::enumerate(sweep.getEmit().getValues())) {
    Value stream = sweep.getStores()[index];
    if (late.contains(value)) {
      taken.push_back({stream, unsigned(index)});
    } else {
      kept.push_back(index);
      streams.push_back(stream);
    }
  }
  streams.push_back(tileStream);
  for (Region &body : sweep->getRegions()) {
    Operation *end = body.front().getTerminator();
    SmallVector<Value> values;
    for (unsigned index : kept)
      values.push_back(end->getOperand(index));
    values.push_back(numberOf(body));
    end->setOperands(values);
    DenseSet<Value> unused = dependents(body);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body.front())))
      if (op.getNumResults() && unused.contains(op.getResult(0)))
        op.erase();
  }
  sweep.getStoresMutable().assign(streams);
}

Columns::~Columns() {
  sweep.getStoresMutable().assign(whole.getStores());
  for (auto [body, before] : llvm::zip(sweep->getRegions(), whole->getRegions()))
    body.takeBody(before);
  tileStream.getDefiningOp()->erase();
  whole.erase();
}

// Where what is of the column meets the element; the maximum itself, of which all of
// it can be computed, where not every such value is a number.
SmallVector<Value> Columns::sharedOf(Region &body) {
  Operation *maximum = maximumOf(body);
  DenseSet<Value> ofElement{maximum->getOperand(0)};
  DenseSet<Value> late = dependents(body);
  llvm::SetVector<Value> met;
  for (Operation &op : body.front().without_terminator()) {
    if (&op == maximum || llvm::none_of(op.getOperands(), [&](Value value) { return ofElement.contains(value); }))
      continue;
    ofElement.insert_range(op.getResults());
    for (Value value : op.getOperands())
      if (late.contains(value) && !ofElement.contains(value))
        met.insert(value);
  }
  if (llvm::all_of(met, [](Value value) { return getElementTypeOrSelf(value.getType()).isF32(); }))
    return met.takeVector();
  return {maximum->getResult(0)};
}

Value Columns::firstBlock(KernelBuilder &kernel, const Tile &tile) {
  CodeBuilder &builder = kernel.builder;
  Value down = builder.div(tile.row, kernel.i64(tileRows));
  Value across = tile.column, length = tile.rowLength;
  if (isSquare()) {
    across = builder.div(across, kernel.i64(tileColumns));
    length = builder.div(builder.add(length, kernel.i64(tileColumns - 1)), kernel.i64(tileColumns));
  }
  return builder.add(builder.mul(down, length), across);
}

SmallVector<Value> Columns::ofBlock(KernelBuilder &kernel, Region &body, const IRMapping &known, Value largest) {
  IRMapping all(known);
  all.map(largestOf(body), largest);
  SmallVector<Value> wanted;
  for (const Store &store : taken)
    if (store.ofBlock())
      wanted.push_back(body.front().getTerminator()->getOperand(store.emitted));
  llvm::append_range(wanted, sharedOf(body));
  return cloneValues(kernel.builder, body, wanted, {{}, all, kernel.i64(0)});
}

Value Columns::ofElement(KernelBuilder &kernel, Region &body, const Store &store, const IRMapping &known, Value number,
                         ArrayRef<Value> shared) {
  IRMapping all(known);
  all.map(numberOf(body), number);
  all.map(sharedOf(body), shared);
  Value wanted = body.front().getTerminator()->getOperand(store.emitted);
  return cloneValues(kernel.builder, body, wanted, {{}, all, kernel.i64(0)})[0];
}

// A step in element form ==> one sweep per reduction, one per set of stores.
#include "passes/Passes.h"

#include "dialect/RowSets.h"
#include "dialect/Variance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "passes/Forms.h"
#include "passes/SweepBuilder.h"
#include "passes/SweepPlan.h"
#include "passes/SweepQueries.h"

namespace altgrad {
#define GEN_PASS_DEF_SPLITSWEEPSPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

//===-- Lists for matrices, and the products between sweeps ---------------------===//

namespace {
// Gives each matrix a list in the workspace and writes products as `multiply`. A product takes
// the place of a matrix of its set that nobody reads any more. The two forms of `select` leave their results in one
// place, and are done for tensors of different shapes.
class MatrixBuffers {
public:
  // Products are written where the builder stands, lists at the start of the step.
  MatrixBuffers(StepOp step, const RowSets &sets, OpBuilder &builder) : step(step), sets(sets), builder(builder) {}

  // The list of a matrix; before, the products of which it is one.
  Value getBuffer(Value matrix);

private:
  Value createBuffer(Value matrix);
  Value chooseBuffer(Value matrix);
  void multiply(Value result);
  void writeSelect(SelectByAspectOp select);
  void writeSharedProducts(Value form, SelectByAspectOp select);
  void release(Operation *reader);

  StepOp step;
  const RowSets &sets;
  OpBuilder &builder;
  DenseMap<Value, Value> buffers;
  DenseMap<Value, Value> assigned; // a buffer that a product has to use
  DenseSet<Operation *> written;
  std::optional<double> least, below; // the shapes that products are for now
  SmallVector<std::pair<std::optional<unsigned>, Value>> freeBuffers;
};
} // namespace

Value altgrad::getStoredList(Value matrix) {
  auto collect = matrix.getDefiningOp<CollectOp>();
  auto encode = collect && !collect.getFactor() ? collect.getElement().getDefiningOp<EncodeOp>() : EncodeOp();
  auto load = encode && encode.getFormat().isF32() ? encode.getNumber().getDefiningOp<LoadOp>() : LoadOp();
  bool isStored = load && isa<BlockArgument>(load.getTensors()) && load.getTensors().getType() == matrix.getType();
  auto isGeneral = [](Operation *user) { return isa<MatmulOp, FactorizeOp>(user); };
  return isStored && llvm::all_of(matrix.getUsers(), isGeneral) ? Value(load.getTensors()) : Value();
}

// Of its list: one of the elements of its tensor, or of a square that has rows of its own.
static TensorsType getListType(Value matrix) {
  FormatAttr format = cast<SquaresType>(getSquareType(matrix.getType())).getFormat();
  auto list = dyn_cast<TensorsType>(matrix.getType());
  return list && list.isSquare() ? list : TensorsType::get(matrix.getContext(), format);
}

Value MatrixBuffers::createBuffer(Value matrix) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&step.getBody().front());
  return SpillOp::create(builder, matrix.getLoc(), getListType(matrix));
}

Value MatrixBuffers::chooseBuffer(Value matrix) {
  if (Value known = assigned.lookup(matrix))
    return known;
  auto *fit = llvm::find_if(freeBuffers, [&](const auto &buffer) {
    return buffer.first == sets.of(matrix) && buffer.second.getType() == getListType(matrix);
  });
  if (fit == freeBuffers.end())
    return createBuffer(matrix);
  Value buffer = fit->second;
  freeBuffers.erase(fit);
  return buffer;
}

// What a sweep reads stays: it may be read again. So does what the caller has.
void MatrixBuffers::release(Operation *reader) {
  written.insert(reader);
  auto isWritten = [&](Operation *user) { return written.contains(user); };
  for (Value matrix : llvm::SmallSetVector<Value, 4>(reader->operand_begin(), reader->operand_end()))
    if (!getStoredList(matrix) && llvm::all_of(matrix.getUsers(), isWritten))
      freeBuffers.push_back({sets.of(matrix), buffers.lookup(matrix)});
}

// What a square comes from in the end.
static GramOp buildGram(Operation *op) {
  while (auto product = dyn_cast<ProductOp>(op))
    op = product.getLeft().getDefiningOp();
  return cast<GramOp>(op);
}

// What multiplies or factorizes matrices that say their rows and columns themselves.
static MultiplyOp writeGeneral(OpBuilder &builder, Operation *op, ArrayRef<Value> operands, Value into) {
  auto matmul = dyn_cast<MatmulOp>(op);
  auto factorize = dyn_cast<FactorizeOp>(op);
  APFloat one(1.0), none(0.0);
  return MultiplyOp::create(builder, op->getLoc(), matmul ? ProductForm::Matmul : factorize.getForm(), operands.front(),
                            operands.back(), factorize ? factorize.getRoot() : one, Value(), one, none, into,
                            /*units=*/false, /*alone=*/false, one, FloatAttr(), matmul && matmul.getLeftTransposed(),
                            matmul && matmul.getRightTransposed());
}

void MatrixBuffers::multiply(Value result) {
  Operation *op = result.getDefiningOp();
  SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value matrix) { return getBuffer(matrix); });
  Value into = buffers[result] = chooseBuffer(result);
  if (isa<MatmulOp, FactorizeOp>(op)) {
    writeGeneral(builder, op, operands, into);
    return release(op);
  }
  GramOp from = buildGram(op);
  auto write = [&](ProductForm form, Value right, APFloat factor, Value added, APFloat weight, APFloat shift) {
    MultiplyOp::create(builder, op->getLoc(), form, operands[0], right, factor, added, weight, shift, into,
                       from.getUnits(), from.getAlone(), APFloat(least.value_or(1)),
                       below ? builder.getF64FloatAttr(*below) : FloatAttr(), false, false);
  };
  if (auto product = dyn_cast<ProductOp>(op)) {
    bool square = isa<SquaresType>(result.getType());
    write(square ? ProductForm::Square : ProductForm::Side, operands[1], product.getFactor(),
          product.getAdded() ? operands[2] : Value(), product.getWeight(), product.getShift());
  } else {
    APFloat one(1.0), none(0.0);
    write(ProductForm::Gram, operands[0], one, Value(), one, none);
  }
  release(op);
}

// Products of one form that something else reads are for all tensors.
void MatrixBuffers::writeSharedProducts(Value form, SelectByAspectOp select) {
  SetVector<Operation *> products;
  std::function<void(Value)> gather = [&](Value matrix) {
    Operation *op = matrix.getDefiningOp();
    if ((!isMatrixProduct(op) && !isa<SelectByAspectOp>(op)) || products.contains(op))
      return;
    for (Value operand : op->getOperands())
      gather(operand);
    products.insert(op);
  };
  gather(form);
  DenseSet<Operation *> own{select};
  for (Operation *op : llvm::reverse(products))
    if (llvm::all_of(op->getUsers(), [&](Operation *user) { return own.contains(user); }))
      own.insert(op);
  for (Operation *op : products)
    if (!own.contains(op) && op->getResult(0) != form)
      getBuffer(op->getResult(0));
}

void MatrixBuffers::writeSelect(SelectByAspectOp select) {
  writeSharedProducts(select.getOther(), select);
  writeSharedProducts(select.getElongated(), select);
  auto before = std::pair(least, below);
  double ratio = select.getRatio().convertToDouble();
  auto writeForm = [&](Value form) {
    multiply(form);
    Value buffer = buffers.lookup(form);
    buffers.erase(form); // who else reads it takes one of all tensors
    return buffer;
  };
  below = below ? std::min(*below, ratio) : ratio;
  Value buffer = writeForm(select.getOther());
  below = before.second;
  least = std::max(least.value_or(ratio), ratio);
  assigned[select.getElongated()] = buffer;
  writeForm(select.getElongated());
  assigned.erase(select.getElongated());
  std::tie(least, below) = before;
  written.insert(select);
  buffers[select.getResult()] = buffer;
}

// A sweep has a place of its own to store to: it may be moved before the products of others.
Value MatrixBuffers::getBuffer(Value matrix) {
  if (!buffers.contains(matrix)) {
    if (Value stored = getStoredList(matrix))
      buffers[matrix] = stored;
    else if (matrix.getDefiningOp<CollectOp>())
      buffers[matrix] = createBuffer(matrix);
    else if (auto select = matrix.getDefiningOp<SelectByAspectOp>())
      writeSelect(select);
    else
      multiply(matrix);
  }
  return buffers.lookup(matrix);
}

//===-- Sweeps --------------------------------------------------------------===//

namespace {
// Writes the sweeps of a plan before the commit, which keeps the scalars.
class SweepWriter {
public:
  SweepWriter(StepOp step, const SweepPlan &plan)
      : step(step), plan(plan), sets(step), variances(step), builder(step.getCommit()), matrices(step, sets, builder) {}
  void write();

private:
  struct Body { // a sweep under construction
    IRMapping map;
    Block *block;
    SweepParts parts;
    int stage;
  };
  void writeStage(int stage, unsigned set);
  void writeOutputs(int stage, const Twine &name, ArrayRef<Output> always, ArrayRef<Output> conditional);
  void writeColumnReduction(const Output &output, StringRef suffix);
  void writeSeparateSweeps(int stage, StringRef name, ArrayRef<Output> outputs);
  SweepOp writeSweep(int stage, StringRef name, Value condition, ArrayRef<Output> outputs);
  Value createColumns(Location loc, bool runs);
  Value materializeColumns(Value value, int stage);
  void writeStores(int stage, StringRef name, ArrayRef<Output> always, ArrayRef<Output> conditional);
  Value commonCondition(int stage, unsigned set, ArrayRef<Output> always, ArrayRef<Output> conditional);
  Value blendWithOld(Body &body, const Output &output, Value code);
  Value load(Body &body, Value list, bool renewed = false);
  Value clone(Body &body, Value value);
  BlockAttr longestRun(int stage);
  Value cloneUniform(Value value);
  Value getSpill(Value value);
  Value locate(Value list);
  void writeCommit();

  StepOp step;
  const SweepPlan &plan;
  RowSets sets;
  Variances variances;
  OpBuilder builder;
  IRMapping scalars; // old uniform value ==> new one in the step's body
  DenseMap<Value, Value> spills;
  DenseMap<Operation *, Value> columns; // the lists that reductions over columns leave
  DenseMap<Value, Value> keptColumns;   // those with what is computed of columns
  MatrixBuffers matrices;
};
} // namespace

// A scalar of the new body: operations are copied, reductions are the results of
// sweeps already written.
Value SweepWriter::cloneUniform(Value value) {
  if (Value known = scalars.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op)
    return value;
  for (Value operand : op->getOperands())
    scalars.map(operand, cloneUniform(operand));
  builder.clone(*op, scalars);
  return scalars.lookup(value);
}

Value SweepWriter::getSpill(Value value) {
  Value &spill = spills[value];
  if (!spill) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&step.getBody().front());
    auto type = TensorsType::get(step.getContext(), getWorkspaceFormat(value));
    if (BlockAttr block = plan.blocks.lookup(value))
      type = TensorsType::get(step.getContext(), type.getFormat(), block, /*packed=*/false);
    spill = SpillOp::create(builder, value.getLoc(), type);
  }
  return spill;
}

// Where a list lies: what somebody computes is a matrix in the workspace.
Value SweepWriter::locate(Value list) {
  bool computed = isa_and_nonnull<CollectOp, ProductOp, MatmulOp, FactorizeOp, SelectByAspectOp>(list.getDefiningOp());
  return computed ? matrices.getBuffer(list) : list;
}

// `renewed`: what an earlier sweep has stored.
Value SweepWriter::load(Body &body, Value list, bool renewed) {
  Value stream = locate(list);
  for (auto [index, loaded] : llvm::enumerate(body.parts.loads))
    if (loaded == stream && body.parts.renewed[index] == renewed)
      return body.block->getArgument(index);
  body.parts.loads.push_back(stream);
  body.parts.renewed.push_back(renewed);
  FormatAttr format = cast<TensorsType>(stream.getType()).getFormat();
  return body.block->addArgument(format.getCodeType(), stream.getLoc());
}

static bool sharesRuns(BlockAttr block) { return block.isRun() && !block.isElement(); }

// The longest run whose elements share what a sweep stores; or null. A number of theirs that was in the workspace for
// each of them is one again only as their largest.
BlockAttr SweepWriter::longestRun(int stage) {
  BlockAttr longest;
  for (const Output &output : plan.outputs) {
    auto type = output.stream ? dyn_cast<TensorsType>(output.stream.getType()) : TensorsType();
    bool isRun = output.stage == stage && type && sharesRuns(type.getBlock());
    if (isRun && (!longest || type.getBlock().covers(longest)))
      longest = type.getBlock();
  }
  return longest;
}

// The copy of a value in a sweep: computed there, back to loads and to values of
// the step.
Value SweepWriter::clone(Body &body, Value value) {
  if (Value known = body.map.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (auto it = plan.reloaded.find({body.stage, value}); it != plan.reloaded.end()) {
    Value reloaded = load(body, it->second ? it->second : getSpill(value), /*renewed=*/bool(it->second));
    BlockAttr shared = variances.of(value), run = it->second ? BlockAttr() : longestRun(body.stage);
    if (run && (sharesRuns(shared) || shared.covers(run))) {
      OpBuilder inner(step.getContext());
      inner.setInsertionPointToEnd(body.block);
      reloaded = ReduceOp::create(inner, value.getLoc(), Reduction::Max, reloaded, sharesRuns(shared) ? shared : run);
    }
    body.map.map(value, reloaded);
    return reloaded;
  }
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  if (reduce && reduce.isOverColumn()) {
    Value number = load(body, columns.lookup(op));
    body.map.map(value, number);
    return number;
  }
  bool isOfColumn = op && !isa<LoadOp>(op) && value.getType().isF32() && variances.of(value).isColumn();
  if (isOfColumn && (body.parts.walk != Walk::Columns || keptColumns.contains(value))) {
    Value number = load(body, materializeColumns(value, body.stage));
    body.map.map(value, number);
    return number;
  }
  // A sum over tensors may be of another set's.
  if (!op || isa<AcrossOp, AllReduceOp>(op) || (reduce && !reduce.isOverBlock()))
    return cloneUniform(value);
  if (auto loadOp = dyn_cast<LoadOp>(op)) {
    Value code = load(body, loadOp.getTensors());
    body.map.map(value, code);
    return code;
  }
  for (Value operand : op->getOperands())
    body.map.map(operand, clone(body, operand));
  OpBuilder inner(step.getContext());
  inner.setInsertionPointToEnd(body.block);
  inner.clone(*op, body.map);
  return body.map.lookup(value);
}

// The code that an output stores in a sweep that runs always: the old one where the
// output's condition does not hold.
Value SweepWriter::blendWithOld(Body &body, const Output &output, Value code) {
  Value old = load(body, output.stream);
  OpBuilder inner(step.getContext());
  inner.setInsertionPointToEnd(body.block);
  return arith::SelectOp::create(inner, code.getLoc(), cloneUniform(output.condition), code, old);
}

Value SweepWriter::createColumns(Location loc, bool runs) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&step.getBody().front());
  auto f32 = FormatAttr::getNamed(step.getContext(), "f32");
  auto type = TensorsType::get(step.getContext(), f32, BlockAttr::getColumn(step.getContext()), /*packed=*/false);
  return SpillOp::create(builder, loc, type, runs);
}

// The list of a value that columns have, which is computed once for each before the sweep that is being written.
Value SweepWriter::materializeColumns(Value value, int stage) {
  if (Value known = keptColumns.lookup(value))
    return known;
  Value list = createColumns(value.getLoc(), /*runs=*/false);
  writeSweep(stage, "columns_kept" + std::to_string(stage), {}, Output{value, {}, list, {}, stage});
  return keptColumns[value] = list;
}

SweepOp SweepWriter::writeSweep(int stage, StringRef name, Value condition, ArrayRef<Output> outputs) {
  Body body;
  auto owned = std::make_unique<Block>();
  body.block = owned.get();
  body.stage = stage;
  SweepParts &parts = body.parts;
  for (const Output &output : outputs)
    if (output.stream || variances.of(output.value).isSquare())
      parts.walk = std::max(parts.walk, output.stream ? getWalk(output.stream) : getWalk(variances.of(output.value)));
  SmallVector<Value> emitted;
  SmallVector<Location> locs;
  MLIRContext *context = step.getContext();
  OpBuilder inner(context);
  inner.setInsertionPointToEnd(body.block);
  for (const Output &output : outputs) {
    emitted.push_back(clone(body, output.value));
    if (output.condition && !condition)
      emitted.back() = blendWithOld(body, output, emitted.back());
    locs.push_back(output.value.getLoc());
    if (ReduceOp reduce = output.reduce) {
      Reduction kind = reduce.getReduction();
      if (kind == Reduction::AbsMax) { // what devices exchange is a maximum
        emitted.back() = math::AbsFOp::create(inner, reduce.getLoc(), emitted.back());
        kind = Reduction::Max;
      }
      parts.reductions.push_back(ReductionAttr::get(context, kind));
      parts.scopes.push_back(reduce.getOver());
      parts.results.push_back(reduce.getType());
    } else {
      parts.stores.push_back(locate(output.stream));
    }
  }
  Location loc = builder.getFusedLoc(locs);
  EmitOp::create(inner, loc, emitted);
  parts.name = builder.getStringAttr(name);
  parts.condition = condition ? cloneUniform(condition) : Value();
  SweepOp sweep = createSweep(builder, loc, parts, std::move(owned));
  unsigned next = 0;
  for (const Output &output : outputs)
    if (ReduceOp reduce = output.reduce)
      scalars.map(reduce.getResult(), sweep.getReduced()[next++]);
  return sweep;
}

// One sweep adds up 32 rows at a time, and another one what it has left of each of these runs.
void SweepWriter::writeColumnReduction(const Output &output, StringRef suffix) {
  ReduceOp reduce = output.reduce;
  Location loc = reduce.getLoc();
  Value runs = createColumns(loc, /*runs=*/true), list = columns[reduce] = createColumns(loc, /*runs=*/false);
  auto write = [&](Walk walk, Reduction combine, Value from, Value to, StringRef name) {
    Body body;
    auto owned = std::make_unique<Block>();
    body.block = owned.get();
    body.stage = output.stage;
    body.parts.walk = walk;
    Value number = from ? load(body, from) : clone(body, output.value);
    OpBuilder inner(step.getContext());
    inner.setInsertionPointToEnd(body.block);
    if (combine == Reduction::AbsMax) {
      number = math::AbsFOp::create(inner, loc, number);
      combine = Reduction::Max;
    }
    EmitOp::create(inner, loc, number);
    body.parts.name = builder.getStringAttr(name + suffix);
    body.parts.combine = combine;
    body.parts.stores.push_back(to);
    createSweep(builder, loc, body.parts, std::move(owned));
  };
  bool isSum = getFoldKind(reduce.getReduction()) == Reduction::Add || reduce.getReduction() == Reduction::SumSq;
  write(Walk::Runs, reduce.getReduction(), Value(), runs, "runs");
  write(Walk::Heads, isSum ? Reduction::Add : Reduction::Max, runs, list, "columns");
}

// Two sweeps, unless the second would load what the first has overwritten: then
// one, which stores the old code where the condition does not hold.
void SweepWriter::writeStores(int stage, StringRef name, ArrayRef<Output> always, ArrayRef<Output> conditional) {
  SweepOp first, second;
  if (!always.empty())
    first = writeSweep(stage, name, {}, always);
  if (conditional.empty())
    return;
  second = writeSweep(stage, name, conditional.front().condition, conditional);
  if (!first ||
      llvm::none_of(second.getLoads(), [&](Value stream) { return llvm::is_contained(first.getStores(), stream); }))
    return;
  first.erase();
  second.erase();
  SmallVector<Output> all(always);
  llvm::append_range(all, conditional);
  writeSweep(stage, name, {}, all);
}

// The condition of all that a stage and later ones store; or null.
Value SweepWriter::commonCondition(int stage, unsigned set, ArrayRef<Output> always, ArrayRef<Output> conditional) {
  if (!always.empty() || conditional.empty())
    return {};
  Value condition = conditional.front().condition;
  bool isCommon = llvm::all_of(plan.outputs, [&](const Output &output) {
    return output.stage <= stage || sets.of(output.value).value_or(0) != set || output.condition == condition;
  });
  // What a later sweep leaves in the workspace under no condition reads what this one leaves there.
  bool isLast = llvm::all_of(plan.spilled, [&](auto spilled) {
    auto [value, at] = spilled;
    auto isThere = [&, at = at](const Output &output) {
      return output.stage == at && sets.of(output.value).value_or(0) == set;
    };
    return at <= stage || sets.of(value).value_or(0) != set ||
           (plan.materialized.contains(value) && llvm::any_of(plan.outputs, isThere));
  });
  return isCommon && isLast ? condition : Value();
}

// A sweep each; what the caller sees is overwritten last.
void SweepWriter::writeSeparateSweeps(int stage, StringRef name, ArrayRef<Output> outputs) {
  for (bool isSeen : {false, true})
    for (const Output &output : outputs)
      if (isa<BlockArgument>(output.stream) == isSeen)
        writeSweep(stage, name, output.condition, output);
}

void SweepWriter::writeStage(int stage, unsigned set) {
  std::string suffix = plan.stages > 1 ? std::to_string(stage) : "";
  SmallVector<Output> always, conditional;
  SmallVector<Output> ofColumns; // last, so that the sums of the same elements are their neighbours
  for (const Output &output : plan.outputs) {
    if (output.stage != stage || sets.of(output.reduce ? output.value : output.stream).value_or(0) != set)
      continue;
    if (isOverColumn(ReduceOp(output.reduce)))
      ofColumns.push_back(output);
    else if (output.reduce)
      writeSweep(stage, ("reduce" + suffix), {}, output);
    else
      (output.condition ? conditional : always).push_back(output);
  }
  for (const Output &output : ofColumns)
    writeColumnReduction(output, suffix);
  for (auto [value, computed] : plan.spilled)
    if (computed == stage && sets.of(value).value_or(0) == set) {
      Value condition = plan.materialized.contains(value) ? commonCondition(stage, set, always, conditional) : Value();
      (condition ? conditional : always).push_back({value, {}, getSpill(value), condition, stage});
    }
  if (plan.isOfTiles(stage))
    return writeSeparateSweeps(stage, "update" + suffix, always),
           writeSeparateSweeps(stage, "update" + suffix, conditional);
  writeOutputs(stage, "update" + suffix, always, conditional);
}

// Lists per column and squares have sweeps of their own. They are stored last, for the elements read what they held.
void SweepWriter::writeOutputs(int stage, const Twine &name, ArrayRef<Output> always, ArrayRef<Output> conditional) {
  for (Walk walk : {Walk::Chunks, Walk::Columns, Walk::RowSquares, Walk::ColumnSquares}) {
    auto isOne = [&](const Output &output) { return getWalk(output.stream) == walk; };
    std::string own = walk == Walk::Chunks ? "" : (stringifyWalk(walk) + "_").str();
    writeStores(stage, (own + name).str(), llvm::filter_to_vector(always, isOne),
                llvm::filter_to_vector(conditional, isOne));
  }
}

// What is left to commit: scalars.
void SweepWriter::writeCommit() {
  CommitOp commit = step.getCommit();
  SmallVector<Value> alwaysValues, alwaysTargets, values, targets;
  for (auto [value, target, condition] : commit.writes())
    if (!isa<TensorsType>(target.getType())) {
      (condition ? values : alwaysValues).push_back(cloneUniform(value));
      (condition ? targets : alwaysTargets).push_back(target);
    }
  Value condition = values.empty() ? Value() : cloneUniform(commit.getCondition());
  CommitOp::create(builder, commit.getLoc(), condition, alwaysValues, alwaysTargets, values, targets);
}

void SweepWriter::write() {
  auto old = llvm::map_to_vector(step.getBody().front(), [](Operation &op) { return &op; });
  for (int stage = 0; stage < plan.stages; ++stage) {
    for (Operation *op : stage == plan.products ? old : SmallVector<Operation *>())
      if (auto load = dyn_cast<LoadOp>(op))
        locate(load.getTensors()); // all sets' products come before the stores of any
    for (unsigned set = 0; set < sets.count(); ++set)
      writeStage(stage, set);
  }
  writeCommit();
  for (Operation *op : llvm::reverse(old))
    op->erase();
}

// A plan is tried on a copy: what the verifier refuses is not taken, but for the last one, which goes wherever tiles
// are.
static PlanChoice split(StepOp step) {
  for (auto [index, way] : llvm::enumerate(planningWays)) {
    OwningOpRef<StepOp> copy = cast<StepOp>(step->clone());
    if (way.alternates)
      relayTileStores(*copy);
    PlanChoice choice = planSweeps(*copy, way);
    SweepWriter(*copy, choice.plan).write();
    bool isLast = index + 1 == std::size(planningWays);
    ScopedDiagnosticHandler quiet(step.getContext(), [](Diagnostic &) { return success(); });
    if (!isLast && (!choice.plan.possible || failed(verify(*copy))))
      continue;
    step.getBody().takeBody(copy->getBody());
    return choice;
  }
  llvm_unreachable("there is a last way");
}

namespace {
struct SplitSweeps : altgrad::impl::SplitSweepsPassBase<SplitSweeps> {
  void runOnOperation() override {
    StepOp step = getOperation();
    if (failed(checkForm(step, getArgument(), Form::Element, Form::Element)))
      return signalPassFailure();
    PlanChoice choice = split(step);
    if (choice.plan.stages > 1)
      remark::passed(step.getLoc(), remark::RemarkOpts::name("split").category("altgrad"))
          << remark::metric("recompute-bytes", formatBytes(choice.recomputeBytes))
          << remark::metric("spill-bytes", formatBytes(choice.spillBytes))
          << remark::reason("{0}", choice.plan.spilled.empty() ? "recompute" : "spill");
  }
};
} // namespace

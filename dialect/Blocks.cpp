// The geometry of what is shared: its text, its lattice, and what targets can cut.
#include "dialect/Variance.h"
#include "dialect/WalkBack.h"

#include <numeric>

using namespace mlir;
using namespace altgrad;

//===-- Text ----------------------------------------------------------------===//

static bool isDynamic(int64_t extent) { return ShapedType::isDynamic(extent); }

static ParseResult parseDimensions(AsmParser &parser, int64_t &rows, int64_t &columns) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> extents;
  if (parser.parseDimensionList(extents, /*allowDynamic=*/true, /*withTrailingX=*/false))
    return failure();
  if (extents.size() != 2)
    return parser.emitError(loc, "expected rows and columns of a block, such as 1x32");
  rows = extents[0], columns = extents[1];
  return success();
}

ParseResult altgrad::parseSquare(AsmParser &parser, StringRef side, bool &ofRows) {
  ofRows = side == "rows";
  return failure(parser.parseKeyword("x") || parser.parseKeyword(side));
}

ParseResult altgrad::parseExtents(AsmParser &parser, BlockAttr &block) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t rows, columns;
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word, {"column", "rows", "columns"}))) {
    bool ofRows = false;
    if (word != "column" && parseSquare(parser, word, ofRows))
      return failure();
    block = word == "column" ? BlockAttr::getColumn(parser.getContext())
                             : BlockAttr::getSquare(parser.getContext(), ofRows);
    return success();
  }
  if (parseDimensions(parser, rows, columns))
    return failure();
  block = parser.getChecked<BlockAttr>(loc, parser.getContext(), Scope::Block, rows, columns);
  return success(bool(block));
}

// An element of a square is no rectangle of the tensor.
static void printDimensions(AsmPrinter &printer, int64_t rows, int64_t columns) {
  if (rows < 0 && !isDynamic(rows))
    return void(printer << (rows == -1 ? "rows x rows" : "columns x columns"));
  auto print = [&](int64_t extent) { isDynamic(extent) ? printer << "?" : printer << extent; };
  print(rows);
  printer << "x";
  print(columns);
}

void altgrad::printExtents(AsmPrinter &printer, BlockAttr block) {
  if (block.isColumn())
    printer << "column";
  else
    printDimensions(printer, block.getRows(), block.getColumns());
}

ParseResult altgrad::parseBlockName(AsmParser &parser, Scope &scope, int64_t &rows, int64_t &columns) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  scope = Scope::Block;
  if (failed(parser.parseOptionalKeyword(&word)))
    return parseDimensions(parser, rows, columns);
  if (word == "rows" || word == "columns") {
    bool ofRows;
    if (parseSquare(parser, word, ofRows))
      return failure();
    BlockAttr square = BlockAttr::getSquare(parser.getContext(), ofRows);
    rows = square.getRows(), columns = square.getColumns();
    return success();
  }
  std::optional<Scope> named = symbolizeScope(word);
  if (!named || named == Scope::Block || named > Scope::Column)
    return parser.emitError(loc) << "'" << word
                                 << "' is no block; there are 1x32 and the like, column, unit, tensor, group, step";
  bool isColumn = named == Scope::Column;
  scope = isColumn ? Scope::Block : *named;
  rows = isColumn ? ShapedType::kDynamic : 0, columns = isColumn;
  return success();
}

void altgrad::printBlockName(AsmPrinter &printer, Scope scope, int64_t rows, int64_t columns) {
  if (scope == Scope::Block && isDynamic(rows) && columns == 1)
    printer << "column";
  else if (scope == Scope::Block)
    printDimensions(printer, rows, columns);
  else
    printer << stringifyScope(scope);
}

ParseResult altgrad::parseOver(AsmParser &parser, BlockAttr &over) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Scope> scope = word == "row" ? Scope::Unit : symbolizeScope(word);
  if (!scope || *scope > Scope::Column)
    return parser.emitError(loc) << "expected one of [block, unit, row, column, tensor, step] for what a "
                                    "reduction is over, got: "
                                 << word;
  if (scope == Scope::Block)
    return failure(parser.parseLess() || parseExtents(parser, over) || parser.parseGreater());
  if (scope == Scope::Column)
    return over = BlockAttr::getColumn(parser.getContext()), success();
  over = BlockAttr::get(parser.getContext(), *scope);
  return success();
}

void altgrad::printOver(AsmPrinter &printer, Operation *, BlockAttr over) {
  if (over.isColumn())
    return void(printer << "column");
  printer << stringifyScope(over.getScope());
  if (over.getScope() != Scope::Block)
    return;
  printer << "<";
  printExtents(printer, over);
  printer << ">";
}

LogicalResult BlockAttr::verify(function_ref<InFlightDiagnostic()> emitError, Scope scope, int64_t rows,
                                int64_t columns) {
  auto exists = [](int64_t extent) { return isDynamic(extent) || extent > 0; };
  const bool isSquare = (rows == -1 || rows == -2) && columns == 1;
  // geometry_c1
  if (scope == Scope::Block && !isSquare && !(exists(rows) && exists(columns)))
    return emitError() << "a block of " << rows << " rows and " << columns << " columns has no element";
  return success();
}

//===-- Lattice -------------------------------------------------------------===//

// Of so many elements each unit is a multiple that a value per unit meets blocks in.
static constexpr int64_t runOfUnit = 256;

static int64_t common(int64_t a, int64_t b) { return isDynamic(a) ? b : isDynamic(b) ? a : std::gcd(a, b); }

// A run goes on in the next row, so what is of rows and columns has only the element in
// common with it, and so with units, which are longer runs.
BlockAttr BlockAttr::meet(BlockAttr other) const {
  BlockAttr fine = *this, coarse = other;
  if (fine.getScope() < coarse.getScope())
    std::swap(fine, coarse);
  if (coarse.getScope() < Scope::Unit || fine == coarse || coarse.isWhole())
    return fine;
  if (isSquare() || other.isSquare())
    return fine.isWhole() ? coarse : get(getContext(), 1, 1);
  if (coarse.getScope() == Scope::Unit)
    return fine.isRun() ? fine : get(getContext(), 1, fine.isWhole() ? runOfUnit : 1);
  if (fine.isWhole())
    return coarse;
  if (fine.isRun() != coarse.isRun())
    return get(getContext(), 1, 1);
  return get(getContext(), common(getRows(), other.getRows()), common(getColumns(), other.getColumns()));
}

//===-- What targets can cut ------------------------------------------------===//

LogicalResult altgrad::verifySupportedBlock(BlockAttr block, function_ref<InFlightDiagnostic()> emitError) {
  bool isCut = block.isElement() || block.hasOwnWalk() || (block.getRows() == 1 && isBlockSize(block.getColumns())) ||
               (block.getRows() == columnBlock && block.getColumns() == 1) ||
               (block.getRows() == block.getColumns() && isSquareBlock(block.getRows()));
  if (isCut)
    return success();
  return emitError() << "no target can cut " << block << "; blocks are 1x" << minBlock << " to 1x" << maxBlock
                     << " in powers of two, " << columnBlock << "x1, 16x16, 32x32, and 128x128";
}

bool altgrad::isCutByTiles(TensorsType type) { return type.getBlock().getColumns() > tileColumns || type.getPacked(); }

bool altgrad::isOverTile(Operation *op) {
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  return reduce && reduce.getOver().isOverRows();
}

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  bool isCount = adaptor.getReduction() == Reduction::Count;
  types.push_back(isCount ? Float32Type::get(context) : adaptor.getValue().getType());
  return success();
}

// Whether a value of a sweep's body may differ between elements: something that it is computed from is of the element.
static bool dependsOnElement(Value value, Region &body) {
  bool depends = false;
  walkBack(value, [&](Value needed) {
    Operation *op = needed.getDefiningOp();
    bool isInside = body.isAncestor(needed.getParentRegion());
    depends |= isInside && (!op || isa<IndexOp, DrawOp, ReduceOp>(op));
    return isInside && !depends;
  });
  return depends;
}

// The largest magnitude of equal numbers is that of each. Folding may leave nothing of the element in what a scale is
// computed from, as of a choice between two equal numbers.
LogicalResult ReduceOp::canonicalize(ReduceOp op, PatternRewriter &rewriter) {
  auto sweep = op->getParentOfType<SweepOp>();
  if (!sweep || op.getReduction() != Reduction::AbsMax || !op.isOverBlock() ||
      dependsOnElement(op.getValue(), *op->getParentRegion()))
    return failure();
  rewriter.replaceOpWithNewOp<math::AbsFOp>(op, op.getValue());
  return success();
}

LogicalResult ReduceOp::verify() {
  // reduce_c1
  if (getScope() == Scope::Group)
    return emitOpError("reduces over block<1x32>, unit, tensor or step, not over a group");
  bool isVector = isa<VectorType>(getType());
  if (!isOverBlock()) {
    // reduce_c4
    if (isVector)
      return emitOpError() << "over " << (isOverColumn() ? "column" : stringifyScope(getScope()))
                           << " is of one element, not of a vector";
    // reduce_c5
    if (isOverColumn() && isBoolean(getReduction()) && !isa<RuleOp>((*this)->getParentOp()))
      return emitOpError() << "combines flags by '" << stringifyReduction(getReduction())
                           << "'; over columns there are 'add', 'sumsq', 'max' and 'absmax', of numbers";
    return success();
  }
  // reduce_c2
  if (getOver().isElement())
    return emitOpError("reduces single elements");
  if (failed(verifySupportedBlock(getOver(), [&] { return emitOpError(); })))
    return failure();
  // reduce_c3
  if (isBoolean(getReduction()) && !isa<RuleOp>((*this)->getParentOp()))
    return emitOpError() << "combines flags by '" << stringifyReduction(getReduction())
                         << "'; over blocks there are 'add', 'sumsq', 'max' and 'absmax', of numbers";
  return success();
}

//===-- What a step reduces and stores -----------------------------------------===//

static BlockAttr getBlock(Value stream) { return cast<TensorsType>(stream.getType()).getBlock(); }

// Whether all that a sweep has over rows is of one kind of blocks.
static bool hasOneTileBlock(SweepOp sweep) {
  auto fits = [&](BlockAttr block) { return !block.isOverRows() || block == sweep.getTileBlock(); };
  auto fitsStream = [&](Value stream) { return fits(getBlock(stream)); };
  return llvm::all_of(sweep.getLoads(), fitsStream) && llvm::all_of(sweep.getStores(), fitsStream) &&
         llvm::all_of(sweep.getBody().getOps<ReduceOp>(), [&](ReduceOp reduce) { return fits(reduce.getOver()); });
}

// The reductions over rows that a value is computed from.
static SmallVector<ReduceOp> getMaxima(Value value) {
  SmallVector<ReduceOp> maxima;
  walkBack(value, [&](Value needed) {
    bool isMaximum = isOverTile(needed.getDefiningOp());
    if (isMaximum)
      maxima.push_back(needed.getDefiningOp<ReduceOp>());
    return !isMaximum;
  });
  return maxima;
}

// A stream two of whose codes share a byte, of which a thread has one. Behind a reduction a thread has both; or null.
static Value findCutBytes(SweepOp sweep) {
  auto isPacked = [](Value stream) { return cast<TensorsType>(stream.getType()).getPacked(); };
  for (Value stream : sweep.getLoads())
    if (isPacked(stream))
      return stream;
  auto codes = llvm::drop_begin(sweep.getEmit().getValues(), sweep.getNumResults());
  for (auto [value, stream] : llvm::zip(codes, sweep.getStores()))
    if (isPacked(stream) && getMaxima(value).empty())
      return stream;
  return {};
}

// Fails after an error if a sweep cannot go over tiles.
static LogicalResult verifyTiles(SweepOp sweep, const Variances &variances,
                                 function_ref<InFlightDiagnostic()> emitError) {
  for (Value stream : sweep.getOperands())
    if (auto type = dyn_cast<TensorsType>(stream.getType()); type && type.hasOwnWalk())
      return emitError() << "has a list per column; blocks over rows and columns as a whole are not in one set";
  if (Value stream = findCutBytes(sweep)) {
    std::string name; // a diagnostic would put it in quotes
    llvm::raw_string_ostream(name) << stream.getType();
    return emitError() << "has " << name << ", whose bytes tiles would cut";
  }
  if (llvm::count_if(sweep.getBody().front(), [](Operation &op) { return isOverTile(&op); }) > 1)
    return emitError() << "has another one over rows";
  if (sweep.getNumResults())
    return emitError() << "has " << sweep.getNumResults() << " of all elements";
  if (sweep.getBlock() > tileColumns)
    return emitError() << "has blocks of " << sweep.getBlock() << " elements, which tiles of " << tileColumns
                       << " columns would cut";
  if (variances.readUnit(sweep))
    return emitError() << "has what differs between units, which tiles would join";
  return success();
}

// Whether a value reads its element otherwise than by reductions over rows and by `allowed`.
static bool readsMoreOfElement(Value value, ArrayRef<Value> allowed, const Variances &variances) {
  bool reads = false;
  walkBack(value, [&](Value next) {
    Operation *op = next.getDefiningOp();
    bool isOfList = !op && variances.of(next).isOverRows();
    if (reads || !variances.isElement(next) || llvm::is_contained(allowed, next) || isOverTile(op) || isOfList)
      return false;
    reads = !op || op->getNumOperands() == 0 || isa<DrawOp, UpdateOp>(op);
    return !reads;
  });
  return reads;
}

static LogicalResult verifyStore(Operation *op, Value value, Value stream, const Variances &variances) {
  auto tensors = dyn_cast<TensorsType>(stream.getType());
  BlockAttr block = variances.of(value);
  // step_c28
  if (tensors && (tensors.isSquare() || block.isSquare()) && block.getScope() >= Scope::Unit &&
      block != tensors.getBlock())
    return op->emitOpError() << "stores an element of another matrix to " << tensors;
  // step_c19
  if (tensors && !block.covers(tensors.getBlock()))
    return op->emitOpError() << "stores a value that differs between elements of a block to " << tensors
                             << "; an altgrad.reduce over " << tensors.getBlock() << " gives one for each";
  return success();
}

// What a sweep stores behind a reduction over rows is of that alone.
static LogicalResult verifyTileStores(SweepOp sweep, Region &body, const Variances &variances) {
  if (sweep.getCombine()) // which makes one value of those of a column
    return success();
  auto codes = llvm::drop_begin(body.front().getTerminator()->getOperands(), sweep.getNumResults());
  for (auto [value, stream] : llvm::zip(codes, sweep.getStores())) {
    if (failed(verifyStore(sweep, value, stream, variances)))
      return failure();
    SmallVector<ReduceOp> from = getMaxima(value);
    BlockAttr block = getBlock(stream);
    // sweep_c18
    if (block.isOverRows() && (from.empty() || from[0].getOver() != block))
      return sweep.emitOpError() << "stores to " << stream.getType() << " what comes from no reduction over " << block;
    SmallVector<Value> reduced;
    for (ReduceOp reduce : from)
      reduced.push_back(reduce.getValue());
    // sweep_c16
    if (!reduced.empty() && readsMoreOfElement(value, reduced, variances))
      return sweep.emitOpError() << "stores what is computed from a reduction over " << from[0].getOver()
                                 << " and from more of its element than that is of";
  }
  return success();
}

static LogicalResult verifySweep(SweepOp sweep, const Variances &variances) {
  if (!sweep.usesTiles())
    return success();
  // sweep_c13
  if (!hasOneTileBlock(sweep))
    return sweep.emitOpError() << "has blocks over rows of several kinds, one of which is " << sweep.getTileBlock()
                               << "; write it for all";
  ReduceOp most;
  for (auto reduce : sweep.getBody().getOps<ReduceOp>())
    most = isOverTile(reduce) ? reduce : most;
  auto emitError = [&] {
    return most ? most.emitOpError() << "is over " << most.getOver() << " in a sweep that "
                : sweep.emitOpError() << "has a list of what columns or squares share, and ";
  };
  // sweep_c12
  if (failed(verifyTiles(sweep, variances, emitError)))
    return failure();
  for (auto reduce : sweep.getBody().getOps<ReduceOp>())
    // sweep_c15
    if (SmallVector<ReduceOp> from = getMaxima(reduce.getValue()); !from.empty())
      return reduce.emitOpError() << "is over " << reduce.getOver()
                                  << " of what its sweep computes from a reduction over " << from[0].getOver();
  return success();
}

std::optional<Scope> altgrad::getReducedScope(ReduceOp reduce, const Variances &variances) {
  BlockAttr over = reduce.getOver(), of = variances.of(reduce.getValue());
  const bool isOfColumn = of.covers(BlockAttr::getColumn(reduce.getContext()));
  auto found = [](bool isNew, Scope scope) { return isNew ? std::optional(scope) : std::nullopt; };
  if (of.isSquare())
    return found(over.getScope() <= Scope::Tensor, Scope::Block);
  if (of.getScope() == Scope::Block && (!isOfColumn || (reduce.isOverBlock() && over.isRun())))
    return found(!reduce.isOverBlock() || !of.covers(over), Scope::Block);
  if (of.getScope() == Scope::Block)
    return found(over.getScope() != Scope::Block, Scope::Column);
  if (of.getScope() == Scope::Unit)
    return found(over.isColumn() || over.getScope() < Scope::Unit, Scope::Unit);
  return found(of.getScope() == Scope::Tensor && over.getScope() == Scope::Step, Scope::Tensor);
}

LogicalResult altgrad::verifyReduced(ReduceOp reduce, const Variances &variances) {
  Value value = reduce.getValue();
  // matmul_c4
  if (BlockAttr block = variances.of(value); block.isSquare() && reduce.getScope() > Scope::Tensor)
    return reduce.emitOpError() << "is of an element of a square of "
                                << (block.isRowSquare() ? "rows x rows" : "columns x columns")
                                << ", which is reduced over the tensor or the step";
  if (variances.getScope(value) == Scope::Unit && reduce.getOver().isOverRows() &&
      reduce.getReduction() == Reduction::AbsMax && reduce->getParentOfType<StepOp>())
    return success(); // a copy's scale over rows that differ
  if (variances.getScope(value) == Scope::Unit)
    return reduce.emitOpError("reduces a value that is the same for all elements of a unit; use the value itself, "
                              "or reduce what differs within the unit");
  if (reduce.isOverBlock() && variances.of(value).covers(reduce.getOver()))
    return reduce.emitOpError("reduces a value that is the same for all elements of its block; leave the reduction "
                              "out, or the block of the state or copy that stores it");
  if (variances.isElement(value) && !(reduce.isOverBlock() && reduce.getOver().isRun()) &&
      variances.of(value).covers(BlockAttr::getColumn(reduce.getContext())))
    return reduce.emitOpError("reduces a value that is the same for all elements of a column; use the value itself, "
                              "or reduce what differs within the column");
  if (!variances.isElement(value))
    return reduce.emitOpError("reduces a value that is the same for all elements; leave the reduction out, or the "
                              "scale of the copy that stores it");
  return success();
}

LogicalResult altgrad::verifyBlocks(StepOp step, const Variances &variances) {
  WalkResult walked = step.walk([&](Operation *op) {
    // step_c5
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && failed(verifyReduced(reduce, variances)))
      return WalkResult::interrupt();
    auto sweep = dyn_cast<SweepOp>(op);
    if (!sweep)
      return WalkResult::advance();
    for (Region &body : sweep->getRegions())
      if (failed(verifyTileStores(sweep, body, variances)))
        return WalkResult::interrupt();
    return WalkResult(verifySweep(sweep, variances));
  });
  if (walked.wasInterrupted())
    return failure();
  CommitOp commit = step.getCommit();
  for (auto [value, target, condition] : commit.writes())
    if (failed(verifyStore(commit, value, target, variances)))
      return failure();
  return success();
}

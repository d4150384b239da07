// Text and verification of sweeps.
#include "dialect/Variance.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace altgrad;

//===-- Sweep ---------------------------------------------------------------===//

// load(%g from %grads : !altgrad.tensors<bf16>, %w from new %master : ...)
static ParseResult parseLoads(OpAsmParser &parser, OperationState &result,
                              SmallVectorImpl<OpAsmParser::Argument> &arguments) {
  SmallVector<bool> renewed;
  auto load = [&]() -> ParseResult {
    OpAsmParser::UnresolvedOperand tensors;
    TensorsType type;
    if (parser.parseArgument(arguments.emplace_back()) || parser.parseKeyword("from"))
      return failure();
    renewed.push_back(succeeded(parser.parseOptionalKeyword("new")));
    if (parser.parseOperand(tensors) || parser.parseColonType(type) ||
        parser.resolveOperand(tensors, type, result.operands))
      return failure();
    arguments.back().type = type.getFormat().getCodeType();
    return success();
  };
  if (parser.parseKeyword("load") || parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, load))
    return failure();
  if (llvm::is_contained(renewed, true))
    result.addAttribute("renewed", parser.getBuilder().getDenseBoolArrayAttr(renewed));
  return success();
}

// reduce(sumsq over step, and over step)
static ParseResult parseReductions(OpAsmParser &parser, OperationState &result) {
  SmallVector<Attribute> reductions, scopes;
  Builder &builder = parser.getBuilder();
  auto reduction = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef kind;
    BlockAttr over;
    if (parser.parseKeyword(&kind))
      return failure();
    auto parsedKind = symbolizeReduction(kind);
    if (!parsedKind)
      return parser.emitError(loc) << "expected add|sumsq|max|absmax|and|count over unit|tensor|step";
    if (parser.parseKeyword("over") || parseOver(parser, over))
      return failure();
    reductions.push_back(ReductionAttr::get(parser.getContext(), *parsedKind));
    scopes.push_back(over);
    result.addTypes(*parsedKind == Reduction::And ? Type(builder.getI1Type()) : builder.getF32Type());
    return success();
  };
  if (parser.parseKeyword("reduce") || parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, reduction))
    return failure();
  result.addAttribute("reductions", builder.getArrayAttr(reductions));
  result.addAttribute("scopes", builder.getArrayAttr(scopes));
  return success();
}

// store(%master : !altgrad.tensors<f32>, ...)
static ParseResult parseStores(OpAsmParser &parser, OperationState &result, int32_t &count) {
  auto store = [&]() -> ParseResult {
    OpAsmParser::UnresolvedOperand tensors;
    TensorsType type;
    ++count;
    return failure(parser.parseOperand(tensors) || parser.parseColonType(type) ||
                   parser.resolveOperand(tensors, type, result.operands));
  };
  return failure(parser.parseKeyword("store") || parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, store));
}

// wide 8 (%g, %m) { ... }
static ParseResult parseWide(OpAsmParser &parser, OperationState &result, ArrayRef<OpAsmParser::Argument> scalar) {
  Builder &builder = parser.getBuilder();
  if (failed(parser.parseOptionalKeyword("wide")))
    return success();
  int64_t width;
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseInteger(width) || parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren))
    return failure();
  if (arguments.size() != scalar.size())
    return parser.emitError(parser.getNameLoc())
           << "has " << arguments.size() << " wide arguments, expected " << scalar.size();
  for (auto [wide, narrow] : llvm::zip(arguments, scalar))
    wide.type = VectorType::get({width}, narrow.type);
  result.addAttribute("width", builder.getI64IntegerAttr(width));
  if (parser.parseRegion(*result.addRegion(), arguments))
    return failure();
  if (failed(parser.parseOptionalKeyword("fast")))
    return success();
  SmallVector<OpAsmParser::Argument> fast;
  if (parser.parseArgumentList(fast, OpAsmParser::Delimiter::Paren))
    return failure();
  if (fast.size() != scalar.size() + 2)
    return parser.emitError(parser.getNameLoc())
           << "has " << fast.size() << " fast-path arguments, expected " << scalar.size() + 2;
  for (auto [index, argument] : llvm::enumerate(fast)) {
    Type type = index < scalar.size()    ? scalar[index].type
                : index == scalar.size() ? Type(builder.getI32Type())
                                         : Type(builder.getF32Type());
    argument.type = VectorType::get({width}, type);
  }
  return parser.parseRegion(*result.addRegion(), fast);
}

// walk runs combine sumsq
static ParseResult parseWalk(OpAsmParser &parser, OperationState &result) {
  if (failed(parser.parseOptionalKeyword("walk")))
    return success();
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Walk> walk = symbolizeWalk(word);
  if (!walk)
    return parser.emitError(loc) << "'" << word << "' is no walk; there are chunks, runs, heads and columns";
  result.addAttribute("walk", WalkAttr::get(parser.getContext(), *walk));
  if (failed(parser.parseOptionalKeyword("combine")))
    return success();
  loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Reduction> kind = symbolizeReduction(word);
  if (!kind)
    return parser.emitError(loc) << "'" << word << "' combines nothing; there are add, sumsq, max and absmax";
  result.addAttribute("combine", ReductionAttr::get(parser.getContext(), *kind));
  return success();
}

ParseResult SweepOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, "name", result.attributes))
    return failure();
  OpAsmParser::UnresolvedOperand condition;
  if (parseWalk(parser, result))
    return failure();
  bool conditional = succeeded(parser.parseOptionalKeyword("if"));
  if (conditional && (parser.parseOperand(condition) ||
                      parser.resolveOperand(condition, parser.getBuilder().getI1Type(), result.operands)))
    return failure();
  SmallVector<OpAsmParser::Argument> arguments;
  int32_t stores = 0;
  if (parseLoads(parser, result, arguments) || parseReductions(parser, result) || parseStores(parser, result, stores) ||
      parser.parseRegion(*result.addRegion(), arguments) || parseWide(parser, result, arguments))
    return failure();
  result.getOrAddProperties<Properties>().operandSegmentSizes = {conditional ? 1 : 0,
                                                                 static_cast<int32_t>(arguments.size()), stores};
  ensureTerminator(*result.regions.front(), parser.getBuilder(), result.location);
  return success();
}

void SweepOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getName());
  if (getWalk() != Walk::Chunks)
    printer << " walk " << stringifyWalk(getWalk());
  if (getCombine())
    printer << " combine " << stringifyReduction(*getCombine());
  if (getCondition())
    printer << " if " << getCondition();
  printer << " load(";
  llvm::interleaveComma(llvm::enumerate(getLoads()), printer, [&](auto load) {
    printer << getBody().getArgument(load.index()) << (isRenewed(load.index()) ? " from new " : " from ")
            << load.value() << " : " << load.value().getType();
  });
  printer << ") reduce(";
  llvm::interleaveComma(llvm::seq(getNumResults()), printer, [&](unsigned index) {
    printer << stringifyReduction(getReduction(index)) << " over ";
    printOver(printer, *this, getOver(index));
  });
  printer << ") store(";
  llvm::interleaveComma(getStores(), printer, [&](Value stream) { printer << stream << " : " << stream.getType(); });
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  if (getWide().empty())
    return;
  printer << " wide " << getWidth() << " (";
  llvm::interleaveComma(getWide().front().getArguments(), printer);
  printer << ") ";
  printer.printRegion(getWide().front(), /*printEntryBlockArgs=*/false);
  Region *fast = getFastPath();
  if (!fast)
    return;
  printer << " fast (";
  llvm::interleaveComma(fast->getArguments(), printer);
  printer << ") ";
  printer.printRegion(*fast, /*printEntryBlockArgs=*/false);
}

void SweepOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn set) {
  auto step = (*this)->getParentOfType<StepOp>();
  for (auto [argument, stream] : llvm::zip(region.getArguments(), getLoads()))
    if (auto source = dyn_cast<BlockArgument>(stream); source && step)
      set(argument, step.getName(source));
}

EmitOp SweepOp::getEmit() { return cast<EmitOp>(getBody().front().getTerminator()); }

Region *SweepOp::getFastPath() { return getWide().size() > 1 ? &getWide()[1] : nullptr; }

Reduction SweepOp::getReduction(unsigned index) { return cast<ReductionAttr>(getReductions()[index]).getValue(); }

BlockAttr SweepOp::getOver(unsigned index) { return cast<BlockAttr>(getScopes()[index]); }

SmallVector<Value> SweepOp::getScalars() {
  llvm::SetVector<Value> scalars;
  for (Region &region : (*this)->getRegions())
    region.walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (!region.isAncestor(operand.getParentRegion()))
          scalars.insert(operand);
    });
  if (getCondition())
    scalars.insert(getCondition());
  return scalars.takeVector();
}

unsigned SweepOp::getChunkWord(unsigned index) {
  for (Operation *user : getReduced()[index].getUsers())
    if (auto store = dyn_cast<WorkspaceStoreOp>(user))
      return store.getWord();
  llvm_unreachable("a sweep outside a phase keeps nothing");
}

std::string altgrad::formatBytes(double bytes) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.10g", bytes);
  return text;
}

static size_t getBlockReductions(Region &body) { return llvm::range_size(body.getOps<ReduceOp>()); }

// The second body: the first one's types, as vectors of `width`.
static LogicalResult verifyWide(SweepOp sweep, Region &wide) {
  int64_t width = sweep.getWidth();
  // sweep_c8
  if (width < 2 || width > ALTGRAD_CHUNK)
    return sweep.emitOpError() << "has a wide body for " << width << " elements; write 2 to " << int64_t(ALTGRAD_CHUNK);
  auto matches = [&](ValueRange narrow, ValueRange vectors) {
    return narrow.size() == vectors.size() && llvm::all_of(llvm::zip(narrow, vectors), [&](auto pair) {
             return std::get<1>(pair).getType() == VectorType::get({width}, std::get<0>(pair).getType());
           });
  };
  auto emit = dyn_cast<EmitOp>(wide.front().getTerminator());
  // sweep_c9
  if (!emit || !matches(sweep.getEmit().getValues(), emit.getValues()) ||
      !matches(sweep.getBody().getArguments(), wide.getArguments()))
    return sweep.emitOpError() << "has a wide body of other types than vectors "
                                  "of "
                               << width << " of its body's";
  // sweep_c10
  if (getBlockReductions(wide) != getBlockReductions(sweep.getBody()))
    return sweep.emitOpError("has a wide body with other block reductions");
  return success();
}

// The third body: the second one's types, then a guard of an i32 and an f32.
static LogicalResult verifyFastPath(SweepOp sweep, Region &wide, Region &fast) {
  Builder builder(sweep.getContext());
  SmallVector<Type> guard;
  for (Type type : {Type(builder.getI32Type()), Type(builder.getF32Type())})
    guard.push_back(VectorType::get({int64_t(sweep.getWidth())}, type));
  auto matches = [&](TypeRange wide, TypeRange fast) {
    SmallVector<Type> expected(wide);
    expected.append(guard);
    return TypeRange(expected) == fast;
  };
  auto emit = dyn_cast<EmitOp>(fast.front().getTerminator());
  // sweep_c11
  if (!emit || !matches(wide.front().getTerminator()->getOperandTypes(), emit.getOperandTypes()) ||
      !matches(wide.getArgumentTypes(), fast.getArgumentTypes()))
    return sweep.emitOpError("has a fast-path body of other types than its wide "
                             "body's and a guard's");
  // sweep_c14
  if (getBlockReductions(fast) != getBlockReductions(wide))
    return sweep.emitOpError("has a fast-path body with other block reductions");
  return success();
}

SmallVector<ReduceOp> StageOp::getReduceOps() {
  return llvm::map_to_vector(getReductions(), [](Value value) { return value.getDefiningOp<ReduceOp>(); });
}

SmallVector<Value> StageOp::getRequired() {
  SmallVector<Value> wanted;
  for (ReduceOp reduce : getReduceOps())
    wanted.push_back(reduce.getValue());
  for (int64_t index : getEmitted())
    wanted.push_back((*this)->getBlock()->getTerminator()->getOperand(index));
  llvm::append_range(wanted, getKept());
  return wanted;
}

LogicalResult SpillOp::verify() {
  // spill_c1
  if (getRuns() && !getTensors().getType().isPerColumn())
    return emitOpError() << "is by run and of " << getTensors().getType() << ", which has a value for each element";
  return success();
}

Walk altgrad::getWalk(BlockAttr block, Walk ofColumns) {
  return block.isColumn()   ? ofColumns
         : block.isSquare() ? (block.isRowSquare() ? Walk::RowSquares : Walk::ColumnSquares)
                            : Walk::Chunks;
}

static LogicalResult verifyWalk(SweepOp sweep) {
  Walk own = sweep.getWalk(), ofColumns = own == Walk::Runs || own == Walk::Heads ? own : Walk::Columns;
  for (Value stream : sweep.getLoads())
    if (Walk walk = getWalk(cast<TensorsType>(stream.getType()).getBlock(), ofColumns);
        walk != own && std::max(walk, own) >= Walk::RowSquares)
      return sweep.emitOpError() << "loads " << stream.getType() << " in a walk over " << stringifyWalk(own);
  for (Value stream : sweep.getStores())
    // sweep_c22
    if (getWalk(cast<TensorsType>(stream.getType()).getBlock(), ofColumns) != own)
      return sweep.emitOpError() << "stores to " << stream.getType() << " in a walk over "
                                 << stringifyWalk(sweep.getWalk()) << "; lists per column have walks of their own";
  bool combines = sweep.getWalk() == Walk::Runs || sweep.getWalk() == Walk::Heads;
  // sweep_c23
  if (combines != sweep.getCombine().has_value() || (combines && isBoolean(*sweep.getCombine())))
    return sweep.emitOpError() << "goes over " << stringifyWalk(sweep.getWalk())
                               << (combines ? " and does not say how it combines numbers" : " and combines nothing");
  return success();
}

LogicalResult SweepOp::verify() {
  // Before MLIR's own check of the terminator.
  auto emit = dyn_cast<EmitOp>(getBody().front().getTerminator());
  // sweep_c1
  if (!emit)
    return emitOpError("does not end in altgrad.emit");
  // sweep_c2
  if (getReductions().size() != getNumResults() || getScopes().size() != getNumResults())
    return emitOpError() << "has " << getNumResults() << " results for " << getReductions().size() << " reductions";
  // sweep_c3
  if (emit.getNumOperands() != getNumResults() + getStores().size())
    return emit.emitOpError() << "gives " << emit.getNumOperands() << " values, expected " << getNumResults()
                              << " reductions and " << getStores().size() << " stores";
  // sweep_c4
  if (getBody().getNumArguments() != getLoads().size())
    return emitOpError() << "has " << getBody().getNumArguments() << " body arguments for " << getLoads().size()
                         << " loads";
  for (auto [index, stream] : llvm::enumerate(getStores())) {
    Type code = cast<TensorsType>(stream.getType()).getFormat().getCodeType();
    Type stored = emit.getOperand(getNumResults() + index).getType();
    // sweep_c5
    if (stored != code)
      return emit.emitOpError() << "stores " << stored << " to a stream of " << code;
  }
  for (auto [index, result] : llvm::enumerate(getReduced())) {
    bool isAnd = getReduction(index) == Reduction::And;
    // sweep_c6
    if (result.getType().isInteger(1) != isAnd ||
        emit.getOperand(index).getType().isInteger(1) != isBoolean(getReduction(index)))
      return emit.emitOpError() << "reduces " << emit.getOperand(index).getType() << " by '"
                                << stringifyReduction(getReduction(index)) << "' to " << result.getType();
    // sweep_c17
    if (getScope(index) == Scope::Group || getScope(index) == Scope::Block)
      return emitOpError() << "reduces over a " << stringifyScope(getScope(index)) << ", for which there are no sums";
  }
  if (failed(verifyWalk(*this)))
    return failure();
  // sweep_c7
  if (getWide().size() > 2)
    return emitOpError("has more than one wide and one fast-path body");
  if (getWide().empty())
    return success();
  Region &wide = getWide().front(), *fast = getFastPath();
  if (failed(verifyWide(*this, wide)))
    return failure();
  return fast ? verifyFastPath(*this, wide, *fast) : success();
}

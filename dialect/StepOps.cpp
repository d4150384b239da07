// Text and verification of steps.
#include "dialect/RowSets.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include <set>

using namespace mlir;
using namespace altgrad;

//===-- Step ----------------------------------------------------------------===//

ParseResult StepOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes))
    return failure();
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> accesses, names, scopes;
  SmallVector<int64_t> sets;
  Builder &builder = parser.getBuilder();
  auto argument = [&]() -> ParseResult {
    StringRef access;
    if (parser.parseKeyword(&access) ||
        parser.parseArgument(arguments.emplace_back(), /*allowType=*/true))
      return failure();
    Scope scope = Scope::Step;
    if (succeeded(parser.parseOptionalKeyword("per_group")))
      scope = Scope::Group;
    else if (succeeded(parser.parseOptionalKeyword("per_tensor")))
      scope = Scope::Tensor;
    accesses.push_back(builder.getStringAttr(access));
    names.push_back(
        builder.getStringAttr(arguments.back().ssaName.name.drop_front()));
    scopes.push_back(ScopeAttr::get(parser.getContext(), scope));
    sets.push_back(0);
    return succeeded(parser.parseOptionalKeyword("set"))
               ? parser.parseInteger(sets.back())
               : success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, argument))
    return failure();
  result.addAttribute("accesses", builder.getArrayAttr(accesses));
  result.addAttribute("names", builder.getArrayAttr(names));
  result.addAttribute("scopes", builder.getArrayAttr(scopes));
  result.addAttribute("sets", builder.getDenseI64ArrayAttr(sets));
  return parser.parseRegion(*result.addRegion(), arguments);
}

void StepOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  llvm::interleaveComma(getBody().getArguments(), printer, [&](auto argument) {
    printer << getAccess(argument) << ' ' << argument << ": "
            << argument.getType();
    if (getScope(argument) == Scope::Group)
      printer << " per_group";
    if (getScope(argument) == Scope::Tensor)
      printer << " per_tensor";
    if (unsigned set = getSet(argument))
      printer << " set " << set;
  });
  printer << ") ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

void StepOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn set) {
  for (auto [argument, name] :
       llvm::zip(region.getArguments(), getNames().getAsRange<StringAttr>()))
    set(argument, name.getValue());
}

StringRef StepOp::getName(BlockArgument argument) {
  return cast<StringAttr>(getNames()[argument.getArgNumber()]).getValue();
}

StringRef StepOp::getAccess(BlockArgument argument) {
  return cast<StringAttr>(getAccesses()[argument.getArgNumber()]).getValue();
}

Scope StepOp::getScope(BlockArgument argument) {
  return cast<ScopeAttr>(getScopes()[argument.getArgNumber()]).getValue();
}

unsigned StepOp::getSet(BlockArgument argument) {
  return getSets()[argument.getArgNumber()];
}

unsigned StepOp::getSetCount() {
  return getSets().empty() ? 1 : 1 + *llvm::max_element(getSets());
}

CommitOp StepOp::getCommit() {
  return cast<CommitOp>(getBody().front().getTerminator());
}

static LogicalResult verifySets(StepOp step) {
  constexpr size_t maxSets = 64;
  std::set<int64_t> used;
  for (BlockArgument argument : step.getBody().getArguments()) {
    int64_t set = step.getSets()[argument.getArgNumber()];
    if (isa<TensorsType>(argument.getType())) {
      used.insert(set);
      continue;
    }
    // step_c10
    if (set != 0)
      return step.emitOpError() << "gives '%" << step.getName(argument)
                                << "' a set; only lists of tensors have one";
  }
  for (int64_t set : used)
    // step_c9
    if (set < 0 || set >= int64_t(std::min(used.size(), maxSets)))
      return step.emitOpError()
             << "has a set " << set << " and " << used.size()
             << " in all; sets are numbered from 0 without a gap, at most "
             << maxSets;
  return success();
}

LogicalResult StepOp::verify() {
  unsigned count = getBody().getNumArguments();
  // step_c1
  if (getAccesses().size() != count || getNames().size() != count ||
      getScopes().size() != count || getSets().size() != count)
    return emitOpError("has a signature of uneven lengths");
  if (failed(verifyNames(*this, getSymName(), getNames())))
    return failure();
  for (BlockArgument argument : getBody().getArguments()) {
    StringRef access = getAccess(argument);
    // step_c2
    if (access != "in" && access != "out" && access != "inout")
      return emitOpError() << "gives '%" << getName(argument)
                           << "' the unknown access '" << access
                           << "'; accesses are in, out, inout";
    Type type = argument.getType();
    // step_c3
    if (!isa<TensorsType>(type) && !type.isF64() && !type.isF32() &&
        !type.isInteger(64))
      return emitOpError() << "has '%" << getName(argument) << "' of type "
                           << type
                           << ", expected !altgrad.tensors, f64, f32 or i64";
    // step_c4
    if (isa<TensorsType>(type) && getScope(argument) != Scope::Step)
      return emitOpError() << "gives the tensors '%" << getName(argument)
                           << "' a scope; only scalars have one";
  }
  return verifySets(*this);
}

LogicalResult StepOp::verifyRegions() {
  if (failed(verifyLength(*this, getBody().front())))
    return failure();
  DenseSet<Value> elements;
  for (Operation &op : getBody().front()) {
    bool element = isa<LoadOp, ElementOp>(op) ||
                   llvm::any_of(op.getOperands(), [&](Value operand) {
                     return elements.contains(operand);
                   });
    // step_c5
    if (isa<ReduceOp>(op) && !element)
      return op.emitOpError("reduces a value that is the same for all elements");
    if (element && !isa<ReduceOp, SweepOp>(op))
      elements.insert(op.result_begin(), op.result_end());
    if (op.getDialect() == (*this)->getDialect() && !isa<RuleOp, StepOp>(op))
      continue;
    std::string reason = whyNotArithmetic(op);
    if (reason.empty() && element)
      reason = whyNotElement(op);
    if (!reason.empty())
      return op.emitOpError() << reason;
  }
  // step_c11
  if (Operation *meeting = RowSets(*this).conflict())
    return meeting->emitOpError("brings lists of different sets together");
  CommitOp commit = getCommit();
  for (BlockArgument argument : getBody().getArguments()) {
    bool written = llvm::is_contained(commit.getTargets(), argument) ||
                   llvm::is_contained(commit.getAlwaysTargets(), argument);
    for (auto sweep : getBody().getOps<SweepOp>())
      written |= llvm::is_contained(sweep.getStores(), argument);
    // step_c6
    if (written && getAccess(argument) == "in")
      return commit.emitOpError() << "writes '%" << getName(argument)
                                  << "', which is in";
    // step_c7
    if (!written && getAccess(argument) != "in")
      return commit.emitOpError() << "never writes '%" << getName(argument)
                                  << "', which is " << getAccess(argument);
    if (!written || getAccess(argument) != "out")
      continue;
    for (Operation *user : argument.getUsers())
      // step_c8
      if (isa<DequantizeOp, UnscaleOp, LoadOp>(user))
        return user->emitOpError() << "reads '%" << getName(argument)
                                   << "', which is out";
  }
  return success();
}

//===-- Clip ----------------------------------------------------------------===//

ParseResult ClipOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::UnresolvedOperand> values;
  OpAsmParser::UnresolvedOperand bound;
  auto &builder = parser.getBuilder();
  Type reals = RealsType::get(parser.getContext());
  if (parser.parseOperandList(values) || parser.parseKeyword("to") ||
      parser.parseOperand(bound) ||
      parser.parseOptionalAttrDict(result.attributes) ||
      parser.resolveOperands(values, reals, result.operands) ||
      parser.resolveOperand(bound, builder.getF32Type(), result.operands))
    return failure();
  result.addTypes(SmallVector<Type>(values.size(), reals));
  result.addTypes(builder.getF32Type());
  return success();
}

void ClipOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getValues() << " to " << getMaxNorm();
  printer.printOptionalAttrDict((*this)->getAttrs());
}

LogicalResult ClipOp::verify() {
  // clip_c1
  if (getValues().empty())
    return emitOpError("clips no list");
  // clip_c2
  if (getValues().size() != getClipped().size())
    return emitOpError() << "has " << getClipped().size() << " results for "
                         << getValues().size() << " lists";
  return success();
}

//===-- Quantize, commit ----------------------------------------------------===//

LogicalResult QuantizeOp::verify() {
  FormatAttr format = getTensors().getType().getFormat();
  // quantize_c1
  if (getOverflow() == OverflowMode::NonFinite && !format.getInf() &&
      format.getNan() == Nan::None)
    return emitOpError("overflows to a non-finite code the format does not have");
  return success();
}

// `value to target : type`; the value is reals where the target holds f32.
static ParseResult parseWrites(OpAsmParser &parser, OperationState &result,
                               SmallVectorImpl<Value> &values,
                               SmallVectorImpl<Value> &targets) {
  return parser.parseCommaSeparatedList([&]() -> ParseResult {
    OpAsmParser::UnresolvedOperand value, target;
    Type type;
    if (parser.parseOperand(value) || parser.parseKeyword("to") ||
        parser.parseOperand(target) || parser.parseColonType(type))
      return failure();
    auto tensors = dyn_cast<TensorsType>(type);
    Type valueType = tensors && tensors.getFormat().isF32()
                         ? Type(RealsType::get(parser.getContext()))
                         : type;
    return failure(parser.resolveOperand(value, valueType, values) ||
                   parser.resolveOperand(target, type, targets));
  });
}

ParseResult CommitOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<Value> condition, alwaysValues, alwaysTargets, values, targets;
  if (succeeded(parser.parseOptionalKeyword("always")) &&
      parseWrites(parser, result, alwaysValues, alwaysTargets))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("if"))) {
    OpAsmParser::UnresolvedOperand operand;
    if (parser.parseOperand(operand) ||
        parser.resolveOperand(operand, parser.getBuilder().getI1Type(),
                              condition) ||
        parseWrites(parser, result, values, targets))
      return failure();
  }
  if (parser.parseOptionalAttrDict(result.attributes))
    return failure();
  SmallVector<int32_t> segments;
  for (auto *part :
       {&condition, &alwaysValues, &alwaysTargets, &values, &targets}) {
    result.addOperands(*part);
    segments.push_back(part->size());
  }
  llvm::copy(segments, result.getOrAddProperties<Properties>()
                           .operandSegmentSizes.begin());
  return success();
}

void CommitOp::print(OpAsmPrinter &printer) {
  auto writes = [&](OperandRange values, OperandRange targets) {
    for (unsigned i = 0; i < values.size(); ++i) {
      if (i)
        printer << ",";
      printer.printNewline();
      printer << values[i] << " to " << targets[i] << " : "
              << targets[i].getType();
    }
  };
  printer.increaseIndent();
  printer.increaseIndent();
  if (!getAlwaysValues().empty()) {
    printer << " always";
    writes(getAlwaysValues(), getAlwaysTargets());
  }
  if (getCondition()) {
    if (!getAlwaysValues().empty())
      printer.printNewline();
    else
      printer << ' ';
    printer << "if " << getCondition();
    writes(getValues(), getTargets());
  }
  printer.decreaseIndent();
  printer.decreaseIndent();
}

LogicalResult CommitOp::verify() {
  // commit_c1
  if (getValues().size() != getTargets().size() ||
      getAlwaysValues().size() != getAlwaysTargets().size())
    return emitOpError("has values and targets of uneven number");
  // commit_c2
  if (!getCondition() && !getValues().empty())
    return emitOpError("has an if list without a condition");
  llvm::DenseSet<Value> seen;
  for (auto [value, target] : llvm::concat<std::tuple<Value, Value>>(
           llvm::to_vector(llvm::zip(ValueRange(getAlwaysValues()),
                                     ValueRange(getAlwaysTargets()))),
           llvm::to_vector(llvm::zip(ValueRange(getValues()),
                                     ValueRange(getTargets()))))) {
    // commit_c3
    if (!isa<BlockArgument>(target))
      return emitOpError("writes to something that is no argument of the step");
    // commit_c4
    if (!seen.insert(target).second)
      return emitOpError() << "writes argument " 
                           << cast<BlockArgument>(target).getArgNumber()
                           << " twice";
    // commit_c5
    if (isa<TensorsType>(value.getType()) && isa<BlockArgument>(value))
      return emitOpError("writes an argument; dequantize and quantize it");
    Type expected = target.getType();
    if (auto tensors = dyn_cast<TensorsType>(expected);
        tensors && tensors.getFormat().isF32())
      expected = RealsType::get(getContext());
    // commit_c6
    if (value.getType() != expected)
      return emitOpError() << "writes " << value.getType() << " to "
                           << target.getType();
  }
  return success();
}

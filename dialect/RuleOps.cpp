// Text and verification of rules: which roles, which operations.
#include "dialect/Arithmetic.h"
#include "dialect/Variance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

//===-- Text ----------------------------------------------------------------===//

// `= 1.0e-3` after an f64, `= true` after an i1.
static ParseResult parseDefault(OpAsmParser &parser, Type type, Attribute &value) {
  Builder &builder = parser.getBuilder();
  value = builder.getUnitAttr();
  if (failed(parser.parseOptionalEqual()))
    return success();
  SMLoc loc = parser.getCurrentLocation();
  if (type.isInteger(1)) {
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    if (word != "true" && word != "false")
      return parser.emitError(loc) << "expected true or false";
    value = builder.getBoolAttr(word == "true");
    return success();
  }
  double number;
  if (parser.parseFloat(number))
    return failure();
  value = builder.getF64FloatAttr(number);
  return success();
}

ParseResult altgrad::parseRuleArguments(OpAsmParser &parser, ArrayAttr &roles, ArrayAttr &names, ArrayAttr &defaults,
                                        Region &body) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> values;
  SmallVector<StringRef> roleWords, nameWords;
  auto argument = [&]() -> ParseResult {
    if (parser.parseKeyword(&roleWords.emplace_back()) ||
        parser.parseArgument(arguments.emplace_back(), /*allowType=*/true) ||
        parseDefault(parser, arguments.back().type, values.emplace_back()))
      return failure();
    nameWords.push_back(arguments.back().ssaName.name.drop_front());
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, argument))
    return failure();
  roles = parser.getBuilder().getStrArrayAttr(roleWords);
  names = parser.getBuilder().getStrArrayAttr(nameWords);
  defaults = parser.getBuilder().getArrayAttr(values);
  return parser.parseRegion(body, arguments);
}

void altgrad::printRuleArguments(OpAsmPrinter &printer, RuleOp, ArrayAttr roles, ArrayAttr, ArrayAttr defaults,
                                 Region &body) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(body.getArguments(), roles.getAsRange<StringAttr>(), defaults), printer,
                        [&](auto one) {
                          auto [argument, role, value] = one;
                          printer << role.getValue() << ' ' << argument << ": " << argument.getType();
                          if (!isa<UnitAttr>(value)) {
                            printer << " = ";
                            printer.printAttributeWithoutType(value);
                          }
                        });
  printer << ") ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

void RuleOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn set) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), getNames().getAsRange<StringAttr>()))
    set(argument, name.getValue());
}

//===-- Questions -----------------------------------------------------------===//

SmallVector<BlockArgument> RuleOp::getByRole(StringRef role) {
  SmallVector<BlockArgument> found;
  for (BlockArgument argument : getBody().getArguments())
    if (StringRef own = cast<StringAttr>(getRoles()[argument.getArgNumber()]).getValue();
        own == role || (role == "state" && own == "unit_state"))
      found.push_back(argument);
  return found;
}

StringRef RuleOp::getName(BlockArgument argument) {
  return cast<StringAttr>(getNames()[argument.getArgNumber()]).getValue();
}

bool RuleOp::isOfUnit(BlockArgument argument) {
  return cast<StringAttr>(getRoles()[argument.getArgNumber()]) == "unit_state";
}

Attribute RuleOp::getDefault(BlockArgument argument) {
  Attribute value = getDefaults()[argument.getArgNumber()];
  return isa<UnitAttr>(value) ? Attribute() : value;
}

YieldOp RuleOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

// What andi, ori or xori gives when one or both of its operands are known.
static std::optional<bool> decideLogic(Operation &op, std::optional<bool> a, std::optional<bool> b) {
  if (isa<arith::AndIOp>(op) && ((a && !*a) || (b && !*b)))
    return false;
  if (isa<arith::OrIOp>(op) && ((a && *a) || (b && *b)))
    return true;
  if (!a || !b)
    return std::nullopt;
  return isa<arith::AndIOp>(op) ? *a && *b : isa<arith::OrIOp>(op) ? *a || *b : *a != *b;
}

DenseMap<Value, bool> RuleOp::decide(ArrayRef<StringRef> options) {
  DenseMap<Value, bool> known;
  for (BlockArgument argument : getByRole("option"))
    known[argument] = llvm::is_contained(options, getName(argument)) || cast<BoolAttr>(getDefault(argument)).getValue();
  auto look = [&](Value value) -> std::optional<bool> {
    auto it = known.find(value);
    return it == known.end() ? std::nullopt : std::optional(it->second);
  };
  for (Operation &op : getBody().front()) {
    std::optional<bool> value;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto boolean = dyn_cast<BoolAttr>(constant.getValue()))
        value = boolean.getValue();
    } else if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op) && op.getResult(0).getType().isInteger(1)) {
      value = decideLogic(op, look(op.getOperand(0)), look(op.getOperand(1)));
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      if (auto choice = look(select.getCondition()))
        value = look(*choice ? select.getTrueValue() : select.getFalseValue());
    }
    if (value)
      known[op.getResult(0)] = *value;
  }
  return known;
}

// What is behind choices whose conditions are decided.
static Value chosen(Value value, const DenseMap<Value, bool> &decided) {
  while (auto select = value.getDefiningOp<arith::SelectOp>()) {
    auto choice = decided.find(select.getCondition());
    if (choice == decided.end())
      break;
    value = choice->second ? select.getTrueValue() : select.getFalseValue();
  }
  return value;
}

SmallVector<BlockArgument> RuleOp::getStoredStates(ArrayRef<StringRef> options) {
  DenseMap<Value, bool> known = decide(options);
  SmallVector<BlockArgument> stored;
  for (auto [state, value] : llvm::zip(getByRole("state"), getYield().getStates()))
    if (chosen(value, known) != state)
      stored.push_back(state);
  return stored;
}

//===-- Verification --------------------------------------------------------===//

static StringRef typeOfRole(StringRef role) {
  return llvm::StringSwitch<StringRef>(role)
      .Cases({"param", "grad", "state", "unit_state", "value"}, "f32")
      .Case("hyper", "f64")
      .Case("step", "i64")
      .Case("option", "i1")
      .Default("");
}

LogicalResult RuleOp::verify() {
  // rule_c1
  if (getRoles().size() != getNames().size() || getRoles().size() != getDefaults().size() ||
      getRoles().size() != getBody().getNumArguments())
    return emitOpError("has a signature of uneven lengths");
  if (failed(verifyNames(*this, getSymName(), getNames())))
    return failure();
  for (BlockArgument argument : getBody().getArguments()) {
    StringRef role = cast<StringAttr>(getRoles()[argument.getArgNumber()]).getValue();
    StringRef expected = typeOfRole(role);
    // rule_c2
    if (expected.empty())
      return emitOpError() << "gives '%" << getName(argument) << "' the unknown role '" << role
                           << "'; roles are param, grad, state, unit_state, value, hyper, "
                              "step, option";
    std::string type;
    llvm::raw_string_ostream(type) << argument.getType();
    // rule_c3
    if (type != expected)
      return emitOpError() << "has " << role << " '%" << getName(argument) << "' of type " << type << ", expected "
                           << expected;
    bool hasDefault = static_cast<bool>(getDefault(argument));
    // rule_c4
    if (hasDefault && role != "hyper" && role != "option")
      return emitOpError() << "gives " << role << " '%" << getName(argument) << "' a default";
    // rule_c5
    if (!hasDefault && role == "option")
      return emitOpError() << "has option '%" << getName(argument)
                           << "' without a default; write = false behind its type";
    // rule_c6
    if (hasDefault && (role == "option" ? !isa<BoolAttr>(getDefault(argument)) : !isa<FloatAttr>(getDefault(argument))))
      return emitOpError() << "gives " << role << " '%" << getName(argument) << "' a default of another type";
    // rule_c7
    if (auto number = dyn_cast_or_null<FloatAttr>(getDefault(argument)); number && !number.getValue().isFinite())
      return emitOpError() << "gives " << role << " '%" << getName(argument) << "' a default that is not finite";
  }
  for (StringRef role : {"param", "grad"})
    // rule_c8
    if (getByRole(role).size() != 1)
      return emitOpError() << "has " << getByRole(role).size() << " arguments of "
                           << "role " << role << ", expected 1: write "
                           << (role == "param" ? "param %w: f32" : "grad %g: f32");
  // rule_c9
  if (getByRole("step").size() > 1)
    return emitOpError("has more than one step count");
  // rule_c13
  if (getByRole("value").size() > 1)
    return emitOpError("has more than one value of the parameter");
  return success();
}

bool altgrad::isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LogicalResult altgrad::verifyNames(Operation *op, StringRef symbol, ArrayAttr names) {
  // name_c1
  if (!isIdentifier(symbol))
    return op->emitOpError() << "has the name '" << symbol << "', which is no identifier";
  // name_c3
  if (names.size() > maxOperations)
    return op->emitOpError() << "has " << names.size() << " arguments, at most " << maxOperations;
  for (StringAttr name : names.getAsRange<StringAttr>())
    // name_c2
    if (!isIdentifier(name))
      return op->emitOpError() << "has an argument '%" << name.getValue() << "', which is no identifier";
  return success();
}

LogicalResult altgrad::verifyLength(Operation *op, Block &body, size_t most) {
  size_t count = body.getOperations().size();
  // body_c1
  if (count > most)
    return op->emitOpError() << "has " << count << " operations, at most " << most;
  // Each becomes some twenty operations, and LLVM compares them with each other.
  size_t functions = llvm::count_if(
      body, [](Operation &op) { return isa<math::FPowIOp, math::LogOp, math::ExpOp, math::CopySignOp>(op); });
  // body_c12
  if (functions > maxFunctions)
    return op->emitOpError() << "has " << functions << " of fpowi, log, exp and copysign, at most " << maxFunctions;
  return success();
}

LogicalResult RuleOp::verifyRegions() {
  if (failed(verifyLength(*this, getBody().front())))
    return failure();
  Variances variances(*this);
  size_t reductions = 0, ofRuns = 0;
  for (Operation &op : getBody().front()) {
    if (isa<YieldOp>(op))
      continue;
    bool own = op.getName().getDialectNamespace() == "altgrad";
    if ((!own || !isAllowedOperation(op.getName().getStringRef())) && failed(verifyArithmetic(op)))
      return failure();
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      // rule_c10
      if (failed(verifyReduced(reduce, variances)))
        return failure();
      // rule_c11
      if (reduce.getScope() == Scope::Step)
        return op.emitOpError() << "reduces over the step; a rule sees one tensor";
      bool isOfRun = reduce.isOverBlock() && !isOverTile(reduce);
      // rule_c15
      if (++(isOfRun ? ofRuns : reductions) > (isOfRun ? maxRunReductions : maxReductions))
        return op.emitOpError() << "is one of more than " << (isOfRun ? maxRunReductions : maxReductions)
                                << (isOfRun ? " over blocks of neighbours"
                                            : " over columns, squares, units and tensors");
      continue;
    }
    bool element = !isa<MatrixOp, GramOp, ProductOp, SelectByAspectOp>(op) &&
                   llvm::any_of(op.getResults(), [&](Value result) { return variances.isElement(result); });
    if (failed(verifyMatrix(op, variances)) || (element && failed(verifyElement(op))))
      return failure();
  }
  YieldOp yield = getYield();
  // rule_c12
  if (yield.getStates().size() != getByRole("state").size())
    return yield.emitOpError() << "has " << yield.getStates().size() << " states, the rule has "
                               << getByRole("state").size() << "; write the new value of each, in their order";
  for (auto [state, value] : llvm::zip(getByRole("state"), yield.getStates()))
    // rule_c14
    if (isOfUnit(state) && variances.isElement(value))
      return yield.emitOpError()
             << "gives the unit_state '%" << getName(state)
             << "' a value that differs between elements; altgrad.reduce over unit gives one of each unit";
  return success();
}

// The signatures of rules and of steps: their text, questions about them, and their verification.
#include "dialect/RoleTypes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include <map>
#include <set>

using namespace mlir;
using namespace altgrad;

//===-- Words of roles -------------------------------------------------------===//

static constexpr StringLiteral words[] = {
#define ALTGRAD_ROLE(word, WORD) #word,
    ALTGRAD_EVERY_ROLE(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};

StringRef altgrad::stringifyRole(Role role) { return words[unsigned(role)]; }

std::optional<Role> altgrad::symbolizeRole(StringRef word) {
  const StringLiteral *found = llvm::find(words, word);
  return found == std::end(words) ? std::nullopt : std::optional(Role(found - words));
}

bool altgrad::isListRole(Role role) {
#define ALTGRAD_ROLE(word, WORD) role == Role::word ||
  return ALTGRAD_LIST_ROLES(ALTGRAD_ROLE) false;
#undef ALTGRAD_ROLE
}

std::string altgrad::listRoles(ArrayRef<Role> roles) { return llvm::join(llvm::map_range(roles, stringifyRole), ", "); }

FailureOr<Role> FieldParser<Role>::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Role> role = symbolizeRole(word);
  if (!role)
    return parser.emitError(loc) << "unknown role '" << word << "'";
  return *role;
}

//===-- Text ---------------------------------------------------------------===//

static ParseResult readRole(OpAsmParser &parser, SMLoc loc, StringRef word, ArrayRef<Role> known, Role &role) {
  std::optional<Role> found = symbolizeRole(word);
  if (!found || !llvm::is_contained(known, *found))
    return emitError(parser.getEncodedSourceLoc(loc))
           << "unknown role '" << word << "'; roles are " << listRoles(known);
  role = *found;
  return success();
}

// `= 1.0e-3`, or `= true` after an i1.
static ParseResult parseDefault(OpAsmParser &parser, Type type, TypedAttr &value) {
  if (failed(parser.parseOptionalEqual()))
    return success();
  Location loc = parser.getEncodedSourceLoc(parser.getCurrentLocation());
  if (type.isInteger(1)) {
    StringRef word;
    if (parser.parseOptionalKeyword(&word, {"true", "false"}))
      return emitError(loc, "true or false is expected here");
    value = parser.getBuilder().getIntegerAttr(type, word == "true");
    return success();
  }
  double number;
  if (parser.parseFloat(number))
    return failure();
  value = parser.getBuilder().getF64FloatAttr(number);
  return success();
}

static void printDefault(OpAsmPrinter &printer, TypedAttr value) {
  if (!value)
    return;
  printer << " = ";
  printer.printAttributeWithoutType(value);
}

// What a state or a hyper-parameter of a rule has where nothing is said: a value of each element, or of each group.
static Scope getUsualScope(Role role) {
  return role == Role::state ? Scope::Block : role == Role::hyper ? Scope::Group : Scope::Step;
}

// per tensor
static ParseResult parseScope(OpAsmParser &parser, Role role, Scope &scope) {
  scope = getUsualScope(role);
  if (failed(parser.parseOptionalKeyword("per")))
    return success();
  Location loc = parser.getEncodedSourceLoc(parser.getCurrentLocation());
  StringRef word;
  std::optional<Scope> found;
  if (succeeded(parser.parseOptionalKeyword(&word))) {
    bool ofRows, isSquare = word == "rows" || word == "columns";
    if (isSquare && parseSquare(parser, word, ofRows))
      return failure();
    found = isSquare         ? (ofRows ? Scope::RowSquare : Scope::ColumnSquare)
            : word == "row" ? Scope::Unit
                            : symbolizeScope(word);
  }
  bool isState = role == Role::state && found && *found != Scope::Group && *found != Scope::Block;
  // rule_c11
  if (!isState && !(role == Role::hyper && found == Scope::Step))
    return emitError(loc)
           << "a state is per row, per column, per unit, per tensor, per step, per rows x rows or per columns x "
              "columns, and a hyper is per step, "
              "for a value that all groups share; one of each element has no 'per'";
  scope = *found;
  return success();
}

// hyper %lr: f64 = 1.0e-3
// state %d: f64 per tensor = 1.0
static ParseResult parseRuleArgument(OpAsmParser &parser, OpAsmParser::Argument &argument, Attribute &parsed) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  Role role;
  Scope scope;
  TypedAttr value;
  if (parser.parseOptionalKeyword(&word)) {
    InFlightDiagnostic error = emitError(parser.getEncodedSourceLoc(loc));
    if (succeeded(parser.parseOptionalRParen()))
      return error << "an argument is expected behind the comma; leave the comma out, or write one";
    return error << "a role stands in front of a name: " << listRoles(ArrayRef(ruleRoles).drop_back()) << " or "
                 << stringifyRole(ruleRoles[std::size(ruleRoles) - 1]);
  }
  bool isOfUnit = word == "unit_state"; // its older spelling
  if (readRole(parser, loc, isOfUnit ? "state" : word, ruleRoles, role) ||
      parser.parseArgument(argument, /*allowType=*/true) || parseScope(parser, role, scope))
    return failure();
  scope = isOfUnit ? Scope::Unit : scope;
  // What uses it would say the opposite.
  if (argument.type && failed(verifyRoleType(parser.getEncodedSourceLoc(argument.ssaName.location), role, scope,
                                             argument.ssaName.name.drop_front(), argument.type)))
    return failure();
  if (parseDefault(parser, argument.type, value))
    return failure();
  parsed = ArgumentAttr::get(parser.getContext(), role, argument.ssaName.name.drop_front(), scope, value);
  return success();
}

// inout state %m_1 as m: !altgrad.tensors<f32> set 1
// in hyper %lr: f64 per_group = 1.0e-3
static ParseResult parseStepArgument(OpAsmParser &parser, OpAsmParser::Argument &argument, Attribute &parsed) {
  StringRef word, key;
  Role role = Role::none;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Access> access = symbolizeAccess(word);
  // step_c2
  if (!access)
    return parser.emitError(loc) << "unknown access '" << word << "'; accesses are in, out, inout";
  loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&word)) && readRole(parser, loc, word, stepRoles, role))
    return failure();
  if (parser.parseArgument(argument, /*allowType=*/false))
    return failure();
  StringRef name = key = argument.ssaName.name.drop_front();
  if ((succeeded(parser.parseOptionalKeyword("as")) && parser.parseKeyword(&key)) ||
      parser.parseColonType(argument.type))
    return failure();
  Scope scope = succeeded(parser.parseOptionalKeyword("per_group"))    ? Scope::Group
                : succeeded(parser.parseOptionalKeyword("per_tensor")) ? Scope::Tensor
                : succeeded(parser.parseOptionalKeyword("per_unit"))   ? Scope::Unit
                                                                       : Scope::Step;
  int64_t set = isa<TensorsType>(argument.type) ? 0 : -1;
  if (succeeded(parser.parseOptionalKeyword("set")) && parser.parseInteger(set))
    return failure();
  TypedAttr value;
  if (parseDefault(parser, argument.type, value))
    return failure();
  parsed = ArgumentAttr::get(parser.getContext(), *access, role, name, key, scope, set, value);
  return success();
}

using ParseArgument = function_ref<ParseResult(OpAsmParser &, OpAsmParser::Argument &, Attribute &)>;
static ParseResult parseArguments(OpAsmParser &parser, ArrayAttr &signature, Region &body, ParseArgument parse) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> parsed;
  auto argument = [&] { return parse(parser, arguments.emplace_back(), parsed.emplace_back()); };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, argument))
    return failure();
  signature = parser.getBuilder().getArrayAttr(parsed);
  return parser.parseRegion(body, arguments);
}

ParseResult altgrad::parseRuleSignature(OpAsmParser &parser, ArrayAttr &signature, Region &body) {
  return parseArguments(parser, signature, body, parseRuleArgument);
}

ParseResult altgrad::parseStepSignature(OpAsmParser &parser, ArrayAttr &signature, Region &body) {
  return parseArguments(parser, signature, body, parseStepArgument);
}

static StringRef describeScope(Scope scope) {
  return scope == Scope::RowSquare      ? "rows x rows"
         : scope == Scope::ColumnSquare ? "columns x columns"
                                        : stringifyScope(scope);
}

void altgrad::printRuleSignature(OpAsmPrinter &printer, RuleOp rule, ArrayAttr, Region &body) {
  printer << '(';
  llvm::interleaveComma(body.getArguments(), printer, [&](BlockArgument argument) {
    printer << rule.getRole(argument) << ' ' << argument << ": " << argument.getType();
    if (rule.getScope(argument) != getUsualScope(rule.getRole(argument)))
      printer << " per " << describeScope(rule.getScope(argument));
    printDefault(printer, rule.getDefault(argument));
  });
  printer << ") ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

static void printStepArgument(OpAsmPrinter &printer, StepOp step, BlockArgument argument) {
  printer.printNewline();
  bool list = isa<TensorsType>(argument.getType());
  printer << stringifyAccess(step.getAccess(argument)) << ' ';
  if (step.getRole(argument) != Role::none)
    printer << step.getRole(argument) << ' ';
  printer << argument;
  if (step.getKey(argument) != step.getName(argument))
    printer << " as " << step.getKey(argument);
  printer << ": " << argument.getType();
  if (step.getScope(argument) != Scope::Step)
    printer << " per_" << stringifyScope(step.getScope(argument));
  if (std::optional<unsigned> set = step.getSet(argument); set && (*set || !list))
    printer << " set " << *set;
  printDefault(printer, step.getDefault(argument));
}

void altgrad::printStepSignature(OpAsmPrinter &printer, StepOp step, ArrayAttr, Region &body) {
  printer << '(';
  printer.increaseIndent();
  printer.increaseIndent();
  llvm::interleave(
      body.getArguments(), printer, [&](BlockArgument argument) { printStepArgument(printer, step, argument); }, ",");
  printer.decreaseIndent();
  printer.decreaseIndent();
  printer << ") ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

//===-- Questions -----------------------------------------------------------===//

std::optional<unsigned> StepOp::getSet(BlockArgument argument) {
  int64_t set = of(argument).getSet();
  return set < 0 ? std::nullopt : std::optional<unsigned>(set);
}

unsigned StepOp::getSetCount() {
  int64_t most = 0;
  for (auto parsed : getSignature().getAsRange<ArgumentAttr>())
    most = std::max(most, parsed.getSet());
  return most + 1;
}

//===-- Verification -------------------------------------------------------===//

bool altgrad::isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LogicalResult altgrad::verifyNames(Operation *op, StringRef symbol, ArrayAttr signature) {
  if (signature.size() != op->getRegion(0).getNumArguments())
    return op->emitOpError("has a signature of uneven lengths");
  // name_c1
  if (!isIdentifier(symbol))
    return op->emitOpError() << "has the name '" << symbol << "', which is no identifier";
  // name_c3
  if (signature.size() > maxOperations)
    return op->emitOpError() << "has " << signature.size() << " arguments, at most " << maxOperations;
  for (auto argument : signature.getAsRange<ArgumentAttr>())
    // name_c2
    if (!isIdentifier(argument.getName()))
      return op->emitOpError() << "has an argument '%" << argument.getName() << "', which is no identifier";
  return success();
}

static LogicalResult verifySets(StepOp step) {
  std::set<int64_t> used;
  std::map<int64_t, size_t> lists;
  for (BlockArgument argument : step.getBody().getArguments()) {
    if (!isa<TensorsType>(argument.getType()))
      continue;
    int64_t set = step.of(argument).getSet();
    used.insert(set);
    // step_c21
    if (++lists[set] > maxLists)
      return step.emitOpError() << "has more than " << maxLists << " lists of tensors in set " << set;
  }
  for (int64_t set : used)
    // step_c9
    if (set < 0 || set >= std::min<int64_t>(used.size(), ALTGRAD_SETS))
      return step.emitOpError() << "has a set " << set << " and " << used.size()
                                << " in all; sets are numbered from 0 without a gap, at most " << int(ALTGRAD_SETS);
  for (BlockArgument argument : step.getBody().getArguments()) {
    int64_t set = step.of(argument).getSet();
    if (isa<TensorsType>(argument.getType()) || set == -1)
      continue;
    // step_c10
    if (step.getScope(argument) == Scope::Step)
      return step.emitOpError() << "gives '%" << step.getName(argument)
                                << "' a set; a scalar has one if it is per_group, per_tensor or per_unit";
    // step_c14
    if (!used.count(set))
      return step.emitOpError() << "gives '%" << step.getName(argument) << "' the set " << set << ", which has no list";
  }
  return success();
}

static LogicalResult verifyRole(StepOp step, BlockArgument argument) {
  StringRef name = step.getName(argument);
  Role role = step.getRole(argument);
  bool list = isa<TensorsType>(argument.getType());
  // step_c12
  if (role != Role::none && !llvm::is_contained(stepRoles, role))
    return step.emitOpError() << "gives '%" << name << "' the role '" << stringifyRole(role) << "' of a rule";
  bool isScalarState = role == Role::state && !list && step.getScope(argument) != Scope::Group;
  // step_c13
  if (role != Role::none && list != isListRole(role) && !isScalarState)
    return step.emitOpError() << "gives '%" << name << "' the role '" << stringifyRole(role) << "', which is of "
                              << (list ? "scalars" : "lists of tensors");
  TypedAttr value = step.getDefault(argument);
  auto number = dyn_cast_or_null<FloatAttr>(value);
  bool hasDefault = role == Role::hyper || isScalarState;
  // step_c15
  if (value && (!hasDefault || !number || !number.getType().isF64() || !number.getValue().isFinite()))
    return step.emitOpError() << "gives '%" << name << "' the default " << value
                              << "; only a hyper and a scalar state have one, a finite f64";
  // step_c17
  if (!isIdentifier(step.getKey(argument)))
    return step.emitOpError() << "gives '%" << name << "' the key '" << step.getKey(argument)
                              << "'; a key is an identifier";
  return success();
}

// Front ends ask for an argument by set, role and key.
static LogicalResult verifyKeys(StepOp step) {
  std::map<std::tuple<int64_t, Role, StringRef>, BlockArgument> seen;
  for (BlockArgument argument : step.getBody().getArguments()) {
    Role role = step.getRole(argument);
    StringRef key = step.getKey(argument);
    int64_t set = step.of(argument).getSet();
    auto [other, added] = seen.try_emplace({set, role, key}, argument);
    // step_c16
    if (!added)
      return step.emitOpError() << "has '%" << step.getName(other->second) << "' and '%" << step.getName(argument)
                                << "' with role '" << stringifyRole(role) << "' and key '" << key << "' in one set";
  }
  for (BlockArgument argument : step.getBody().getArguments()) {
    if (step.getRole(argument) != Role::block_scale)
      continue;
    StringRef key = step.getKey(argument);
    bool scales = llvm::any_of(step.getBody().getArguments(), [&](BlockArgument other) {
      return other != argument && isa<TensorsType>(other.getType()) && step.getSet(other) == step.getSet(argument) &&
             step.getKey(other) == key;
    });
    // step_c25
    if (!scales || !cast<TensorsType>(argument.getType()).isShared())
      return step.emitOpError() << "has the block_scale '%" << step.getName(argument) << "' of " << argument.getType()
                                << " with key '" << key
                                << "', expected one value per block and another list of its set "
                                   "with this key";
  }
  return success();
}

LogicalResult StepOp::verify() {
  // step_c1
  if (failed(verifyNames(*this, getSymName(), getSignature())))
    return failure();
  for (BlockArgument argument : getBody().getArguments()) {
    Type type = argument.getType();
    // step_c3
    if (!isa<TensorsType>(type) && !type.isF64() && !type.isF32() && !type.isInteger(64))
      return emitOpError() << "has '%" << getName(argument) << "' of type " << type
                           << ", expected !altgrad.tensors, f64, f32 or i64";
    // step_c23
    if (getRole(argument) == Role::history &&
        (!type.isF32() || getScope(argument) == Scope::Group || getAccess(argument) == Access::Out))
      return emitOpError() << "gives '%" << getName(argument)
                           << "' the role 'history', which is of an f32 for the step "
                              "or for each tensor that is in or inout";
    // step_c20
    if (getScope(argument) == Scope::Unit && (getRole(argument) != Role::state || !type.isF32()))
      return emitOpError() << "has '%" << getName(argument) << "' per_unit, which is a state of f32";
    // step_c4
    if (isa<TensorsType>(type) && getScope(argument) != Scope::Step)
      return emitOpError() << "gives the tensors '%" << getName(argument) << "' a scope; only scalars have one";
    if (failed(verifyRole(*this, argument)))
      return failure();
  }
  if (failed(verifySets(*this)))
    return failure();
  return verifyKeys(*this);
}

// The arguments of a rule in short text: roles, names, defaults.
#include "dialect/RoleTypes.h"
#include "dialect/WalkBack.h"
#include "dialect/frontend/RuleParser.h"

using namespace mlir;
using namespace altgrad;

// States that are a number have words of their own: those of runtime/python/altgrad/language, in small letters.
std::optional<RuleParser::Kind> RuleParser::findKind(StringRef word) {
  for (auto [name, scope] : {std::pair("unit", Scope::Unit),
                             {"row", Scope::Unit},
                             {"column", Scope::Column},
                             {"row_square", Scope::RowSquare},
                             {"column_square", Scope::ColumnSquare},
                             {"scalar", Scope::Tensor},
                             {"global", Scope::Step}})
    if (word == name)
      return Kind{Role::state, scope};
  std::optional<Role> role = symbolizeRole(word);
  if (!role || !llvm::is_contained(ruleRoles, *role))
    return std::nullopt;
  return Kind{*role, *role == Role::state ? Scope::Block : *role == Role::hyper ? Scope::Group : Scope::Step};
}

static bool isOnce(Role role) {
  return role == Role::param || role == Role::grad || role == Role::step || role == Role::value;
}

// The kind of an argument that begins here, whose word need not be said again behind a comma.
RuleParser::Kind RuleParser::parseKind(Kind before) {
  bool isNamed = llvm::isAlpha(lexer.peek()) || lexer.peek() == '_';
  if (lexer.peekIs("%"))
    return fail(noPercent), before;
  if (isEntry() && names.count(token.text))
    return fail("'" + token.text + "' is an argument of the rule, and an entry has all of these: leave it out"), before;
  if (std::optional<Kind> kind = findKind(token.text); kind && isNamed) {
    advance();
    return *kind;
  }
  if (token.kind != RuleToken::Name)
    fail(token.is(")") ? "an argument is expected behind the comma; leave the comma out, or write one"
                       : "a name is expected here, and not " + describe(token));
  else if (isNamed)
    fail("'" + token.text +
         "' is no role; there are param, grad, state, row, column, unit, row_square, column_square, scalar, global, "
         "input, value, hyper, step and option");
  else if (lexer.peekIs("="))
    return {Role::hyper, Scope::Group};
  else if (before.role == Role::none || isOnce(before.role))
    fail("'" + token.text + "' has no role: write state " + token.text + ", option " + token.text + " or, for a " +
         "hyper-parameter, " + token.text + " = 1.0 or hyper " + token.text);
  return before;
}

TypedAttr RuleParser::parseDefault(Kind kind) {
  RuleToken at = token;
  if (kind.role == Role::option) {
    bool isTrue = token.is("true");
    if (!isTrue && !token.is("false"))
      return fail("the default of an option is true or false"), TypedAttr();
    advance();
    return terms->builder.getBoolAttr(isTrue);
  }
  bool isScalarState = kind.role == Role::state && kind.scope < Scope::Block;
  if (kind.role != Role::hyper && !isScalarState)
    return fail("only hyper-parameters, options and states that are a number have a default: leave this out"),
           TypedAttr();
  Term value = parseChoice();
  if (value.value || !std::isfinite(value.number))
    return fail(at.text, "a default is a finite number"), TypedAttr();
  return terms->builder.getF64FloatAttr(value.number);
}

// Whether it has a default.
bool RuleParser::parseArgument(Kind kind) {
  auto [role, scope] = kind;
  RuleToken name = token;
  if (isEntry() && role != Role::hyper)
    return fail("an entry has all arguments of its rule: those of its own are numbers, as in entry climb(rho = 0.05)");
  if (name.kind != RuleToken::Name || isKeyword(name.text))
    return fail(describe(name) + " is no name of an argument");
  if (names.count(name.text))
    return fail("'" + name.text + "' is an argument twice: rename one");
  for (auto other : ArrayAttr::get(module.getContext(), signature).getAsRange<ArgumentAttr>())
    if (isOnce(role) && other.getRole() == role)
      return fail("'" + other.getName() + "' and '" + name.text + "' are both " + stringifyRole(role) +
                  ": a rule has one" + (role == Role::grad ? "; a further tensor is an input" : ""));
  advance();
  bool hasDefault = take("=");
  TypedAttr value = hasDefault             ? parseDefault(kind)
                    : role == Role::option ? TypedAttr(terms->builder.getBoolAttr(false))
                                           : TypedAttr();
  if (bad)
    return false;
  addArgument(role, scope, name, value);
  return hasDefault;
}

void RuleParser::addArgument(Role role, Scope scope, const RuleToken &name, TypedAttr fallback) {
  MLIRContext *context = module.getContext();
  Level level = role == Role::hyper                            ? Level::Hyper
                : role == Role::step                           ? Level::Step
                : role == Role::option                         ? Level::Constant
                : role != Role::state || scope >= Scope::Block ? Level::Element
                : scope == Scope::Unit                         ? Level::Unit
                : scope == Scope::Tensor                       ? Level::Tensor
                                                               : Level::Global;
  signature.push_back(ArgumentAttr::get(context, role, name.text, scope, fallback));
  Value argument = rule.getBody().addArgument(getRoleType(role, scope, context), getLocation(name.text));
  names[name.text] = {{argument, 0, role == Role::step, level}, false, name};
  if (!isEntry())
    places.push_back(name);
}

void RuleParser::parseSignature() {
  RuleToken opening = token;
  if (!open())
    return void(fail(opening.text, "the arguments of a rule stand in parentheses: write (param w, grad g, lr = 1e-3)"));
  Kind kind;
  do {
    kind = parseKind(kind);
    bool hasDefault = false;
    do
      hasDefault = parseArgument(kind);
    while (!bad && !hasDefault && token.kind == RuleToken::Name && !isOnce(kind.role));
  } while (!bad && take(","));
  if (bad || !close(opening))
    return;
  for (Role wanted : {Role::param, Role::grad})
    if (llvm::none_of(signature, [&](Attribute one) { return cast<ArgumentAttr>(one).getRole() == wanted; }))
      return void(fail(opening.text, "no argument is the " + stringifyRole(wanted) + ": write " +
                                         (wanted == Role::param ? "param w" : "grad g")));
  rule.setSignatureAttr(ArrayAttr::get(module.getContext(), signature));
  if (take("step_bound")) {
    rule->setAttr("altgrad.step_bound", terms->builder.getStringAttr(token.text));
    advance();
  }
}

// A hyper-parameter that a number of the step is computed from is one for all groups.
void RuleParser::shareHypers() {
  SmallVector<Value> globals;
  for (auto [state, value] : llvm::zip(rule.getByRole(Role::state), rule.getYield().getStates()))
    if (rule.getScope(state) == Scope::Step)
      globals.push_back(value);
  walkBack(globals, [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && rule.getRole(argument) == Role::hyper) {
      ArgumentAttr of = rule.of(argument);
      signature[argument.getArgNumber()] =
          ArgumentAttr::get(of.getContext(), Role::hyper, of.getName(), Scope::Step, of.getFallback());
    }
    auto reduce = value.getDefiningOp<ReduceOp>();
    return !reduce || reduce.getScope() != Scope::Step;
  });
  rule.setSignatureAttr(ArrayAttr::get(module.getContext(), signature));
}

// The arguments of a rule in short text: roles, names, defaults.
#include "dialect/RoleTypes.h"
#include "dialect/frontend/RuleParser.h"

using namespace mlir;
using namespace altgrad;

static std::optional<Role> findRole(StringRef word) {
  std::optional<Role> role = word == "unit" ? Role::unit_state : symbolizeRole(word);
  return role && word != "unit_state" && llvm::is_contained(ruleRoles, *role) ? role : std::nullopt;
}

static bool isOnce(Role role) {
  return role == Role::param || role == Role::grad || role == Role::step || role == Role::value;
}

// The role of an argument that begins here, whose word need not be said again behind a comma.
Role RuleParser::parseRole(Role before) {
  bool isNamed = llvm::isAlpha(lexer.peek()) || lexer.peek() == '_';
  if (lexer.peekIs("%"))
    return fail(noPercent), before;
  if (std::optional<Role> role = findRole(token.text); role && isNamed) {
    advance();
    return *role;
  }
  if (token.kind != RuleToken::Name)
    fail(token.is(")") ? "an argument is expected behind the comma; leave the comma out, or write one"
                       : "a name is expected here, and not " + describe(token));
  else if (isNamed)
    fail("'" + token.text + "' is no role; there are param, grad, state, unit, value, hyper, step and option");
  else if (lexer.peekIs("="))
    return Role::hyper;
  else if (before == Role::none || isOnce(before))
    fail("'" + token.text + "' has no role: write state " + token.text + ", option " + token.text + " or, for a " +
         "hyper-parameter, " + token.text + " = 1.0 or hyper " + token.text);
  return before;
}

TypedAttr RuleParser::parseDefault(Role role) {
  RuleToken at = token;
  if (role == Role::option) {
    bool isTrue = token.is("true");
    if (!isTrue && !token.is("false"))
      return fail("the default of an option is true or false"), TypedAttr();
    advance();
    return terms->builder.getBoolAttr(isTrue);
  }
  if (role != Role::hyper)
    return fail("only hyper-parameters and options have a default: leave this out"), TypedAttr();
  Term value = parseChoice();
  if (value.value || !std::isfinite(value.number))
    return fail(at.text, "a default is a finite number"), TypedAttr();
  return terms->builder.getF64FloatAttr(value.number);
}

// Whether it has a default.
bool RuleParser::parseArgument(Role role) {
  RuleToken name = token;
  if (name.kind != RuleToken::Name || isKeyword(name.text))
    return fail(describe(name) + " is no name of an argument");
  if (names.count(name.text))
    return fail("'" + name.text + "' is an argument twice: rename one");
  for (auto other : ArrayAttr::get(module.getContext(), signature).getAsRange<ArgumentAttr>())
    if (isOnce(role) && other.getRole() == role)
      return fail("'" + other.getName() + "' and '" + name.text + "' are both " + stringifyRole(role) +
                  ": a rule has one" + (role == Role::grad ? "; a second input comes with a later version" : ""));
  advance();
  bool hasDefault = take("=");
  TypedAttr value = hasDefault             ? parseDefault(role)
                    : role == Role::option ? TypedAttr(terms->builder.getBoolAttr(false))
                                           : TypedAttr();
  if (bad)
    return false;
  MLIRContext *context = module.getContext();
  Level level = role == Role::hyper        ? Level::Hyper
                : role == Role::step       ? Level::Step
                : role == Role::option     ? Level::Constant
                : role == Role::unit_state ? Level::Unit
                                           : Level::Element;
  signature.push_back(ArgumentAttr::get(context, role, name.text, value));
  Value argument = rule.getBody().addArgument(getRoleType(role, context), getLocation(name.text));
  names[name.text] = {{argument, 0, role == Role::step, level}, false, name};
  return hasDefault;
}

void RuleParser::parseSignature() {
  RuleToken opening = token;
  if (!open())
    return void(fail(opening.text, "the arguments of a rule stand in parentheses: write (param w, grad g, lr = 1e-3)"));
  Role role = Role::none;
  do {
    role = parseRole(role);
    bool hasDefault = false;
    do
      hasDefault = parseArgument(role);
    while (!bad && !hasDefault && token.kind == RuleToken::Name && !isOnce(role));
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

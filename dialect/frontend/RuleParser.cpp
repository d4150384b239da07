// Short text ==> rules.
#include "dialect/frontend/RuleParser.h"

#include "dialect/RoleTypes.h"
#include "dialect/SpellCheck.h"
#include "dialect/WalkBack.h"
#include "dialect/frontend/RuleText.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace altgrad;

static constexpr StringRef keywords[] = {"rule", "if", "else", "and", "or", "not", "over", "true", "false"};
static constexpr unsigned maxDepth = 64;
static constexpr size_t maxNumber = 100;

//===-- Tokens and places -------------------------------------------------------===//

RuleParser::RuleParser(llvm::SourceMgr &sources, ModuleOp module)
    : sources(sources), module(module), lexer(sources.getMemoryBuffer(sources.getMainFileID())->getBuffer()) {
  for (StringRef dialect : {"altgrad", "arith", "math"})
    module.getContext()->getOrLoadDialect(dialect);
}

void RuleParser::advance(bool linesEnd) { token = lexer.next(linesEnd && parentheses == 0); }

bool RuleParser::take(StringRef sign) {
  if (!token.is(sign))
    return false;
  advance(/*linesEnd=*/false);
  return true;
}

bool RuleParser::expect(StringRef sign, const Twine &words) { return take(sign) || fail(words); }

bool RuleParser::open() {
  bool found = token.is("(");
  parentheses += found;
  advance();
  return found;
}

// The place of the opening one is told, as lines do not end within parentheses.
bool RuleParser::close(const RuleToken &opening) {
  if (!token.is(")")) {
    bool isNext = token.kind == RuleToken::Name || token.kind == RuleToken::Number;
    return isNext && !lexer.peekIs("=") ? fail("a sign or a comma is missing in front of " + describe(token))
           : token.is(":")              ? fail("types are not written in the short form: leave : and the type out")
                                        : fail(opening.text, "this parenthesis is not closed: write )");
  }
  --parentheses;
  advance();
  return true;
}

Location RuleParser::getLocation(StringRef text) {
  unsigned file = sources.getMainFileID();
  auto [line, column] = sources.getLineAndColumn(llvm::SMLoc::getFromPointer(text.data()), file);
  return FileLineColLoc::get(module.getContext(), sources.getMemoryBuffer(file)->getBufferIdentifier(), line, column);
}

void RuleParser::place(const RuleToken &at) {
  placed = at.text;
  if (terms)
    terms->setLocation(getLocation(at.text));
}

bool RuleParser::fail(StringRef text, const Twine &words) {
  if (!bad)
    emitError(getLocation(text)) << words;
  bad = true;
  lexer.stop();
  token = {};
  token.text = text;
  return false;
}

std::string RuleParser::describe(const RuleToken &token) const {
  return token.kind == RuleToken::End       ? "the end of the text"
         : token.kind == RuleToken::NewLine ? "the end of the line"
                                            : ("'" + token.text + "'").str();
}

//===-- The signature ---------------------------------------------------------------===//

// States that are a number have words of their own: those of runtime/python/altgrad/language, in small letters.
std::optional<RuleParser::Kind> RuleParser::findKind(StringRef word) {
  for (auto [name, scope] : {std::pair("unit", Scope::Unit), {"scalar", Scope::Tensor}, {"global", Scope::Step}})
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
    return fail("names have no % in the short form: leave it out"), before;
  if (std::optional<Kind> kind = findKind(token.text); kind && isNamed) {
    advance();
    return *kind;
  }
  if (token.kind != RuleToken::Name)
    fail(token.is("%")   ? "names have no % in the short form: leave it out"
         : token.is(")") ? "an argument is expected behind the comma; leave the comma out, or write one"
                         : "a name is expected here, and not " + describe(token));
  else if (isNamed)
    fail("'" + token.text +
         "' is no role; there are param, grad, state, unit, scalar, global, input, value, hyper, step and option");
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
  bool isScalarState = kind.role == Role::state && kind.scope != Scope::Block;
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
  if (name.kind != RuleToken::Name || llvm::is_contained(keywords, name.text))
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
  MLIRContext *context = module.getContext();
  Level level = role == Role::hyper                            ? Level::Hyper
                : role == Role::step                           ? Level::Step
                : role == Role::option                         ? Level::Constant
                : role != Role::state || scope == Scope::Block ? Level::Element
                : scope == Scope::Unit                         ? Level::Unit
                : scope == Scope::Tensor                       ? Level::Tensor
                                                               : Level::Global;
  signature.push_back(ArgumentAttr::get(context, role, name.text, scope, value));
  Value argument = rule.getBody().addArgument(getRoleType(role, scope, context), getLocation(name.text));
  names[name.text] = {{argument, 0, role == Role::step, level}, false, name};
  return hasDefault;
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

//===-- Lines -------------------------------------------------------------------------===//

static std::string explainLine(StringRef word) {
  if (word == "return" || word == "yield")
    return "nothing is returned: the last values of the parameter and of the states are the result; leave the line out";
  if (word == "if" || word == "else" || word == "elif")
    return "`if` stands behind a value, as in g = -g if maximize else g";
  if (word == "for" || word == "while")
    return "there are no loops: write the lines out";
  if (word == "altgrad")
    return "a text is in one form, and this one begins with `rule`: leave altgrad. and @ out";
  if (word == "def" || word == "let" || word == "var")
    return ("a line is written name = expression: leave " + word + " out").str();
  if (word == "%")
    return "names have no % in the short form: leave it out";
  if (word == "#")
    return "a comment begins with //, not with #";
  if (word == "{" || word == "}")
    return "a rule has no braces: it ends with the text, or where another one begins";
  return "a line is written name = expression";
}

void RuleParser::parseLine() {
  RuleToken name = token;
  if (name.kind != RuleToken::Name || llvm::is_contained(keywords, name.text) || lexer.peekIs("==") ||
      !lexer.peekIs("=")) {
    StringRef sign = name.kind == RuleToken::Name ? lexer.next(true).text : "";
    if (sign.size() == 2 && sign[1] == '=' && StringRef("+-*/").contains(sign[0]))
      return void(fail("values do not change in place: write " + name.text + " = " + name.text + " " +
                       sign.take_front() + " ..."));
    return void(fail(sign == ":" ? "types are not written in the short form: leave : and the type out"
                                 : explainLine(name.text)));
  }
  advance();
  advance(/*linesEnd=*/false);
  Term value = parseChoice();
  if (bad)
    return;
  if (token.kind != RuleToken::NewLine && token.kind != RuleToken::End)
    return void(fail(token.is("=")    ? "= stands behind one name at the beginning of a line, and == compares"
                     : token.is(")")  ? "this parenthesis was not opened: leave it out"
                     : token.is(",")  ? "a line gives one value: leave the comma out"
                     : token.is(":")  ? "types are not written in the short form: leave : and the type out"
                     : token.is(".")  ? "a value has no parts: functions are written sqrt(x) and sum(x)"
                     : token.is("**") ? "a power is written x ^ 2"
                     : token.is("#")  ? "a comment begins with //, not with #"
                     : token.is("@")  ? "matrices are multiplied by gram(x) and product(a, x)"
                     : token.is("&") || token.is("&&") ? "write and"
                     : token.is("|") || token.is("||") ? "write or"
                     : token.kind == RuleToken::Sign
                         ? "'" + token.text + "' means nothing here"
                         : "a sign is missing in front of '" + token.text + "': a product is written a * b"));
  if (Operation *op = value.value ? value.value.getDefiningOp() : nullptr; op && !isa<NameLoc>(op->getLoc()))
    op->setLoc(NameLoc::get(terms->builder.getStringAttr(name.text), op->getLoc()));
  names[name.text] = {value, true, name};
}

// What the yield gives of a parameter or a state.
Value RuleParser::getResult(BlockArgument argument) {
  StringRef name = rule.getName(argument);
  Known &known = names[name];
  bool isParam = rule.getRole(argument) == Role::param;
  if (!known.isNew)
    return fail(known.name.text, (isParam ? "parameter " : "state ") + name + " gets no new value: write a line " +
                                     name + " = ..." + (isParam ? "" : ", or leave it out")),
           Value();
  place(known.name);
  if (known.term.isCondition())
    return terms->fail("the new " + name + " is a comparison: write a if condition else b"), Value();
  if (isParam && !known.term.isElement())
    return terms->fail("the new " + name + " is one number for the whole tensor: write " + name + " = " + name +
                       " - ..."),
           Value();
  Scope scope = isParam ? Scope::Block : rule.getScope(argument);
  if (scope == Scope::Unit && known.term.isElement())
    return terms->fail("the new " + name +
                       " differs within a unit: write mean(x over unit), sum(x over unit) or another "
                       "reduction over unit"),
           Value();
  if (scope == Scope::Tensor && known.term.level > Level::Tensor)
    return terms->fail("the new " + name + " differs within a tensor: write mean(x), sum(x) or another reduction"),
           Value();
  if (scope == Scope::Step && known.term.level > Level::Hyper)
    return terms->fail("the new " + name +
                       " differs between tensors: write sum(x over step) or another reduction over "
                       "step; steps are counted by another global"),
           Value();
  return (scope == Scope::Tensor || scope == Scope::Step ? terms->kept(known.term) : terms->single(known.term)).value;
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

void RuleParser::finish() {
  SmallVector<Value> results;
  for (BlockArgument argument : rule.getByRole(Role::param))
    results.push_back(getResult(argument));
  for (BlockArgument argument : rule.getByRole(Role::state))
    if (!bad)
      results.push_back(getResult(argument));
  if (!bad)
    YieldOp::create(terms->builder, rule.getLoc(), results[0], ArrayRef(results).drop_front()), shareHypers();
}

void RuleParser::parseRule() {
  RuleToken begin = token;
  if (!take("rule"))
    return void(fail(explainLine(token.text)));
  RuleToken name = token;
  if (name.kind != RuleToken::Name || llvm::is_contained(keywords, name.text))
    return void(fail(token.is("@")
                         ? "a name has no @ in the short form: leave it out, or write altgrad.rule for the long one"
                         : "a rule has a name: write rule mine(param w, grad g, lr = 1e-3)"));
  advance();
  OperationState state(getLocation(begin.text), RuleOp::getOperationName());
  Block &body = state.addRegion()->emplaceBlock();
  rule = cast<RuleOp>(Operation::create(state));
  module.push_back(rule);
  rule.setSymName(name.text);
  names.clear(), signature.clear();
  terms.emplace(OpBuilder::atBlockEnd(&body), [this](const Twine &words) { fail(placed, words); });
  parseSignature();
  while (!bad && token.kind == RuleToken::NewLine) {
    advance();
    if (token.kind != RuleToken::End && !(token.is("rule") && !lexer.peekIs("=")))
      parseLine();
    else
      break;
  }
  if (!bad && token.kind != RuleToken::End && !token.is("rule"))
    fail(token.is("{") ? explainLine("{")
                       : "a line ends behind the arguments: write " + describe(token) + " on the next one");
  if (!bad)
    finish();
}

LogicalResult RuleParser::parse() {
  advance();
  if (token.kind == RuleToken::NewLine)
    advance();
  while (!bad && token.kind != RuleToken::End)
    parseRule();
  return failure(bad || failed(verify(module)));
}

//===-- Expressions -----------------------------------------------------------------------===//

Term RuleParser::parseChoice() {
  if (++depth > maxDepth)
    fail("brackets nested deeper than " + Twine(maxDepth));
  Term value = parseOr();
  RuleToken at = token;
  if (!bad && take("if")) {
    Term condition = parseOr();
    expect("else", "else is missing behind the condition: write a if condition else b");
    Term other = parseChoice();
    place(at);
    value = bad ? Term() : terms->choose(condition, value, other);
  }
  --depth;
  return value;
}

Term RuleParser::parseOr() {
  Term value = parseAnd();
  for (RuleToken at = token; !bad && take("or"); at = token) {
    Term other = parseAnd();
    place(at);
    value = bad ? Term() : terms->logic("arith.ori", value, other);
  }
  return value;
}

Term RuleParser::parseAnd() {
  Term value = parseNot();
  for (RuleToken at = token; !bad && take("and"); at = token) {
    Term other = parseNot();
    place(at);
    value = bad ? Term() : terms->logic("arith.andi", value, other);
  }
  return value;
}

Term RuleParser::parseNot() {
  RuleToken at = token;
  if (!take("not"))
    return parseComparison();
  if (++depth > maxDepth)
    fail("brackets nested deeper than " + Twine(maxDepth));
  Term value = parseNot();
  --depth;
  place(at);
  return bad ? Term() : terms->invert(value);
}

Term RuleParser::parseComparison() {
  auto isSign = [&] { return llvm::is_contained({"<", "<=", ">", ">=", "==", "!="}, token.text); };
  Term value = parseSum();
  RuleToken at = token;
  if (bad || !isSign())
    return value;
  advance(/*linesEnd=*/false);
  Term other = parseSum();
  if (!bad && isSign())
    return fail("two comparisons are written a < b and b < c"), Term();
  place(at);
  return bad ? Term() : terms->compare(at.text, value, other);
}

Term RuleParser::parseSum() {
  Term value = parseProduct();
  for (RuleToken at = token; !bad && (take("+") || take("-")); at = token) {
    Term other = parseProduct();
    place(at);
    value = bad ? Term() : terms->arithmetic(at.text[0], value, other);
  }
  return value;
}

Term RuleParser::parseProduct() {
  Term value = parseUnary();
  for (RuleToken at = token; !bad && (take("*") || take("/") || take("%")); at = token) {
    Term other = parseUnary();
    place(at);
    value = bad ? Term() : terms->arithmetic(at.text[0], value, other);
  }
  return value;
}

Term RuleParser::parseUnary() {
  RuleToken at = token;
  if (!take("-"))
    return parsePower();
  if (++depth > maxDepth)
    fail("brackets nested deeper than " + Twine(maxDepth));
  Term value = parseUnary();
  --depth;
  place(at);
  return bad ? Term() : terms->negate(value);
}

// As Python's **: x ^ -y ^ z is x ^ (-(y ^ z)), and -x ^ 2 is -(x ^ 2).
Term RuleParser::parsePower() {
  Term value = parseAtom();
  RuleToken at = token;
  if (bad || !take("^"))
    return value;
  if (++depth > maxDepth)
    fail("brackets nested deeper than " + Twine(maxDepth));
  Term exponent = parseUnary();
  --depth;
  place(at);
  return bad ? Term() : terms->power(value, exponent);
}

Term RuleParser::parseAtom() {
  RuleToken at = token;
  if (token.kind == RuleToken::Number)
    return parseNumber();
  if (token.kind == RuleToken::Name && !llvm::is_contained(keywords, token.text))
    return lexer.peek() == '(' ? parseCall() : parseName();
  if (!token.is("("))
    return failAtom(), Term();
  open();
  Term value = parseChoice();
  if (!bad)
    close(at);
  return value;
}

Term RuleParser::parseNumber() {
  double number;
  if (token.text.size() > maxNumber)
    return fail("number of more than " + Twine(maxNumber) + " characters"), Term();
  auto isDigits = [](StringRef text) { return llvm::all_of(text, llvm::isDigit); };
  size_t power = token.text.find_first_of("eE");
  auto [whole, fraction] = token.text.take_front(power).split('.');
  StringRef exponent = token.text.drop_front(std::min(power, token.text.size())).drop_front(power != StringRef::npos);
  exponent = exponent.drop_front(exponent.starts_with("-") || exponent.starts_with("+"));
  if (!isDigits(whole) || !isDigits(fraction) || !isDigits(exponent) ||
      exponent.empty() != (power == StringRef::npos) || token.text.getAsDouble(number))
    return fail("'" + token.text + "' is no number; a product is written 2 * x"), Term();
  bool isWhole = isDigits(token.text);
  advance();
  return Term::of(number, isWhole);
}

Term RuleParser::parseName() {
  RuleToken at = token;
  auto known = names.find(token.text);
  advance();
  if (known != names.end())
    return known->second.term;
  place(at);
  if (at.text == "rows" || at.text == "columns")
    return terms->extent(at.text == "rows" ? Dimension::Rows : Dimension::Columns);
  if (at.text == "numel")
    return terms->count();
  SmallVector<StringRef> there(names.keys().begin(), names.keys().end());
  llvm::sort(there);
  StringRef meant = closestSpelling(at.text, there);
  fail(at.text, "'" + at.text + "' is not defined above" +
                    (isCall(at.text)  ? "; the function is written " + at.text + "(x)"
                     : !meant.empty() ? "; did you mean '" + meant + "'?"
                                      : "; arguments and the names of lines above are"));
  return {};
}

// What stands where a value is wanted.
void RuleParser::failAtom() {
  StringRef text = token.text;
  fail(token.kind == RuleToken::NewLine || token.kind == RuleToken::End
           ? "a value is wanted here, and the " + Twine(token.kind == RuleToken::End ? "text" : "line") + " ends"
       : text == "*" || text == "**" ? "a power is written x ^ 2"
       : text == "="                 ? "= stands behind one name at the beginning of a line, and == compares"
       : text == "%"                 ? "names have no % in the short form: leave it out"
       : text == "#"                 ? "a comment begins with //, not with #"
       : text == "["                 ? "there are no lists: hyper-parameters have names of their own, beta1 and beta2"
       : text == "!"                 ? "write not"
       : text == "+"                 ? "a + in front of a value says nothing: leave it out"
       : text == "true" || text == "false" ? "true and false are defaults of options, as in option fast = true"
                                           : "a value is wanted here, and not " + describe(token));
}

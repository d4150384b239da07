// Short text ==> rules.
#include "dialect/frontend/RuleParser.h"

#include "dialect/SpellCheck.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace altgrad;

static constexpr unsigned maxDepth = 64;
static constexpr size_t maxNumber = 100;

//===-- Mistakes ------------------------------------------------------------------===//

// What is written where it has no meaning, and what to write: at the beginning of a line, as a value, behind one.
namespace {
struct Mistake {
  StringLiteral words, answer;
};
} // namespace
static constexpr StringLiteral noHash = "a comment begins with //, not with #";
static constexpr StringLiteral oneName = "= stands behind one name at the beginning of a line, and == compares";
static constexpr Mistake asLine[] = {
    {"return yield",
     "nothing is returned: the last values of the parameter and of the states are the result; leave the "
     "line out"},
    {"if else elif", "`if` stands behind a value, as in g = -g if maximize else g"},
    {"for while", "there are no loops: write the lines out"},
    {"altgrad", "a text is in one form, and this one begins with `rule`: leave altgrad. and @ out"},
    {"def let var", "a line is written name = expression: leave this word out"},
    {"%", noPercent},
    {"#", noHash},
    {"{ }", "a rule has no braces: it ends with the text, or where another one begins"},
};
static constexpr Mistake asValue[] = {
    {"* **", "a power is written x ^ 2"},
    {"=", oneName},
    {"%", noPercent},
    {"#", noHash},
    {"[", "there are no lists: hyper-parameters have names of their own, beta1 and beta2"},
    {"!", "write not"},
    {"+", "a + in front of a value says nothing: leave it out"},
    {"true false", "true and false are defaults of options, as in option fast = true"},
};
static constexpr Mistake behindValue[] = {
    {"=", oneName},
    {")", "this parenthesis was not opened: leave it out"},
    {",", "a line gives one value: leave the comma out"},
    {":", noTypes},
    {".", "a value has no parts: functions are written sqrt(x) and sum(x)"},
    {"**", "a power is written x ^ 2"},
    {"#", noHash},
    {"@", "matrices are multiplied by gram(x) and product(a, x)"},
    {"& &&", "write and"},
    {"| ||", "write or"},
};

static std::string explain(ArrayRef<Mistake> mistakes, StringRef word, const Twine &otherwise) {
  for (const Mistake &one : mistakes)
    if (!word.empty() && llvm::is_contained(llvm::split(one.words, ' '), word))
      return one.answer.str();
  return otherwise.str();
}

static std::string explainLine(StringRef word) { return explain(asLine, word, "a line is written name = expression"); }

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
           : token.is(":")              ? fail(noTypes)
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

//===-- Lines -------------------------------------------------------------------------===//

void RuleParser::parseLine() {
  RuleToken name = token;
  if (name.kind != RuleToken::Name || isKeyword(name.text) || lexer.peekIs("==") || !lexer.peekIs("=")) {
    StringRef sign = name.kind == RuleToken::Name ? lexer.next(true).text : "";
    if (sign.size() == 2 && sign[1] == '=' && StringRef("+-*/").contains(sign[0]))
      return void(fail("values do not change in place: write " + name.text + " = " + name.text + " " +
                       sign.take_front() + " ..."));
    return void(fail(sign == ":" ? noTypes.str() : explainLine(name.text)));
  }
  advance();
  advance(/*linesEnd=*/false);
  Term value = parseChoice();
  if (bad)
    return;
  if (token.kind != RuleToken::NewLine && token.kind != RuleToken::End)
    return void(fail(explain(behindValue, token.text,
                             token.kind == RuleToken::Sign
                                 ? "'" + token.text + "' means nothing here"
                                 : "a sign is missing in front of '" + token.text + "': a product is written a * b")));
  if (Operation *op = value.value ? value.value.getDefiningOp() : nullptr; op && !isa<NameLoc>(op->getLoc()))
    op->setLoc(NameLoc::get(terms->builder.getStringAttr(name.text), op->getLoc()));
  names[name.text] = {value, true, name};
}

// What the yield gives of a parameter or a state.
Value RuleParser::getResult(BlockArgument argument) {
  StringRef name = rule.getName(argument);
  Known &known = names[name];
  bool isParam = rule.getRole(argument) == Role::param;
  if (!known.isNew && isParam && !isEntry())
    return failKept(known.name), Value();
  if (!known.isNew) {
    if (!isParam && !isEntry())
      kept[name] = known.name;
    return argument;
  }
  kept.erase(name);
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
  if (scope > Scope::Column)
    if (BlockAttr own = BlockAttr::getOfState(module.getContext(), scope);
        !known.term.isElement() || terms->getSquare(known.term) != own)
      return terms->fail("the new " + name + " is no square " + describeSquare(own) +
                         ": write matmul(x, transpose(x)) or another product of so many rows and columns"),
             Value();
  if (scope <= Scope::Column && known.term.isElement() && terms->getSquare(known.term))
    return terms->fail("the new " + name + " is a square " + describeSquare(terms->getSquare(known.term)) +
                       ": multiply it with a matrix of the tensor, matmul(" + name + ", x)"),
           Value();
  if (scope == Scope::Column && !known.term.isElement())
    return terms->fail("the new " + name +
                       " is one number for all columns: write mean(x over column), sum(x over "
                       "column) or another reduction over column"),
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

bool RuleParser::failKept(const RuleToken &name) {
  bool isParam = name.text == rule.getName(rule.getByRole(Role::param)[0]);
  return fail(name.text, (isParam ? "parameter " : "state ") + name.text + " gets no new value: write a line " +
                             name.text + " = ..." + (isParam ? "" : ", or leave it out"));
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

// An operation for a rule or an entry, and nothing in it.
void RuleParser::begin(const RuleToken &at, const Twine &name) {
  OperationState state(getLocation(at.text), RuleOp::getOperationName());
  Block &body = state.addRegion()->emplaceBlock();
  rule = cast<RuleOp>(Operation::create(state));
  module.push_back(rule);
  rule.setSymName(name.str());
  names.clear(), signature.clear();
  terms.emplace(OpBuilder::atBlockEnd(&body), [this](const Twine &words) { fail(placed, words); });
}

void RuleParser::parseBody() {
  while (!bad && token.kind == RuleToken::NewLine) {
    advance();
    if (token.kind == RuleToken::End || beginsRule() || beginsEntry())
      break;
    parseLine();
  }
  if (!bad && token.kind != RuleToken::End && !beginsRule() && !beginsEntry())
    fail(token.is("{")   ? explainLine("{")
         : token.is(":") ? "a line ends behind the arguments: leave : out"
                         : "a line ends behind the arguments: write " + describe(token) + " on the next one");
  if (!bad)
    finish();
}

void RuleParser::parseRule() {
  RuleToken at = token;
  if (!take("rule"))
    return void(fail(beginsEntry() ? "an entry stands below its rule: write rule name(param w, grad g) in front of it"
                                   : explainLine(token.text)));
  RuleToken name = token;
  if (name.kind != RuleToken::Name || isKeyword(name.text))
    return void(fail(token.is("@")
                         ? "a name has no @ in the short form: leave it out, or write altgrad.rule for the long one"
                         : "a rule has a name: write rule mine(param w, grad g, lr = 1e-3)"));
  advance();
  begin(at, name.text);
  kept.clear(), places.clear();
  parseSignature();
  parseBody();
  parseEntries();
  for (BlockArgument state : rule.getByRole(Role::state))
    if (auto found = kept.find(rule.getName(state)); !bad && found != kept.end())
      failKept(found->second);
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

void RuleParser::enter() {
  if (++depth > maxDepth)
    fail("brackets nested deeper than " + Twine(maxDepth));
}

Term RuleParser::parseChoice() {
  enter();
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
  enter();
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
  enter();
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
  enter();
  Term exponent = parseUnary();
  --depth;
  place(at);
  return bad ? Term() : terms->power(value, exponent);
}

Term RuleParser::parseAtom() {
  RuleToken at = token;
  if (token.kind == RuleToken::Number)
    return parseNumber();
  if (token.kind == RuleToken::Name && !isKeyword(token.text))
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
  if (token.kind == RuleToken::NewLine || token.kind == RuleToken::End)
    fail("a value is wanted here, and the " + Twine(token.kind == RuleToken::End ? "text" : "line") + " ends");
  else
    fail(explain(asValue, token.text, "a value is wanted here, and not " + describe(token)));
}

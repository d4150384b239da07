// Functions of a rule in short text.
#include "dialect/SpellCheck.h"
#include "dialect/frontend/RuleParser.h"

using namespace mlir;
using namespace altgrad;

using Terms = RuleTerms::Terms;

namespace {
struct Function {
  StringLiteral usage; // "lerp(a, b, weight)"
  Term (*make)(RuleTerms &terms, Terms x);
  StringRef name() const { return StringRef(usage).split('(').first; }
};
// What is called otherwise here.
struct Replacement {
  StringLiteral names, words;
};
} // namespace

template <const char *op> static Term applied(RuleTerms &terms, Terms x) { return terms.apply(op, x); }
static constexpr char sqrtOp[] = "math.sqrt", absOp[] = "math.absf", floorOp[] = "math.floor",
                      minimumOp[] = "arith.minimumf", maximumOp[] = "arith.maximumf", copysignOp[] = "math.copysign",
                      fmaOp[] = "math.fma", lerpOp[] = "altgrad.lerp", expOp[] = "math.exp", logOp[] = "math.log";

template <const char *op> static Term inSingle(RuleTerms &terms, Terms x) { return terms.applySingle(op, x); }
static constexpr char exp2Op[] = "math.exp2", expm1Op[] = "math.expm1", log2Op[] = "math.log2",
                      log1pOp[] = "math.log1p", rsqrtOp[] = "math.rsqrt", cbrtOp[] = "math.cbrt",
                      tanhOp[] = "math.tanh", sigmoidOp[] = "altgrad.sigmoid", softplusOp[] = "altgrad.softplus",
                      erfOp[] = "math.erf", sinOp[] = "math.sin", cosOp[] = "math.cos", atan2Op[] = "math.atan2";

static constexpr Function functions[] = {
    {"sqrt(x)", applied<sqrtOp>},
    {"abs(x)", applied<absOp>},
    {"floor(x)", applied<floorOp>},
    {"exp(x)", applied<expOp>},
    {"log(x)", applied<logOp>},
    {"exp2(x)", inSingle<exp2Op>},
    {"expm1(x)", inSingle<expm1Op>},
    {"log2(x)", inSingle<log2Op>},
    {"log1p(x)", inSingle<log1pOp>},
    {"rsqrt(x)", inSingle<rsqrtOp>},
    {"cbrt(x)", inSingle<cbrtOp>},
    {"tanh(x)", inSingle<tanhOp>},
    {"sigmoid(x)", inSingle<sigmoidOp>},
    {"softplus(x)", inSingle<softplusOp>},
    {"erf(x)", inSingle<erfOp>},
    {"sin(x)", inSingle<sinOp>},
    {"cos(x)", inSingle<cosOp>},
    {"atan2(y, x)", inSingle<atan2Op>},
    {"sign(x)", [](RuleTerms &terms, Terms x) { return terms.sign(x[0]); }},
    {"minimum(a, b)", applied<minimumOp>},
    {"maximum(a, b)", applied<maximumOp>},
    {"clamp(x, low, high)",
     [](RuleTerms &terms, Terms x) {
       return terms.apply("arith.minimumf", {terms.apply("arith.maximumf", {x[0], x[1]}), x[2]});
     }},
    {"copysign(a, b)", applied<copysignOp>},
    {"fma(a, b, c)", applied<fmaOp>},
    {"lerp(a, b, weight)", applied<lerpOp>},
    {"where(condition, a, b)", [](RuleTerms &terms, Terms x) { return terms.choose(x[0], x[1], x[2]); }},
    {"f32(x)", [](RuleTerms &terms, Terms x) { return terms.single(x[0]); }},
    {"int(x)", [](RuleTerms &terms, Terms x) { return terms.whole(x[0]); }},
    {"binade(x)", [](RuleTerms &terms, Terms x) { return terms.ofElements("altgrad.binade", x, Level::Element); }},
    {"row_mean_square(x)",
     [](RuleTerms &terms, Terms x) { return terms.ofElements("altgrad.row_mean_square", x, Level::Unit); }},
    {"match_norm(x, y)",
     [](RuleTerms &terms, Terms x) { return terms.ofElements("altgrad.match_norm", x, Level::Element); }},
    {"descend(w, along, rate, decay)", [](RuleTerms &terms, Terms x) { return terms.descend(x); }},
    {"gram(x)", [](RuleTerms &terms, Terms x) { return terms.gram(x[0]); }},
    {"transpose(x)", [](RuleTerms &terms, Terms x) { return terms.transpose(x[0]); }},
    {"matmul(a, b)", [](RuleTerms &terms, Terms x) { return terms.matmul(x[0], x[1]); }},
    {"trace(s)", [](RuleTerms &terms, Terms x) { return terms.trace(x[0]); }},
    {"diagonal(s)", [](RuleTerms &terms, Terms x) { return terms.diagonal(x[0]); }},
    {"eigenbasis(s)", [](RuleTerms &terms, Terms x) { return terms.factorize(ProductForm::Eigenbasis, x[0]); }},
    {"order(s, q)", [](RuleTerms &terms, Terms x) { return terms.factorize(ProductForm::Order, x[0], x[1]); }},
    {"orthonormal(s)", [](RuleTerms &terms, Terms x) { return terms.factorize(ProductForm::Orthonormal, x[0]); }},
    {"identity(s)", [](RuleTerms &terms, Terms x) { return terms.factorize(ProductForm::Identity, x[0]); }},
    {"inverse_root(s, p)",
     [](RuleTerms &terms, Terms x) {
       return x[1].value || x[1].number <= 0
                  ? terms.fail("the root of inverse_root(s, p) is a number above 0 that is written here")
                  : terms.factorize(ProductForm::InverseRoot, x[0], {}, x[1].number);
     }},
};
static constexpr StringRef reductions[] = {"sum", "mean",   "rms", "norm", "sumsq", "max",
                                           "min", "absmax", "all", "any",  "count"};
static constexpr StringRef matrixCalls[] = {"matrix", "product", "orthogonalize", "scale_by_shape"};
static constexpr StringRef randomCall = "random";

static constexpr Replacement replacements[] = {
    {"pow power powf", "x ^ 2"},
    {"square", "x * x"},
    {"reciprocal", "1 / x"},
    {"mul mulf multiply", "a * b"},
    {"add addf", "a + b"},
    {"sub subf subtract", "a - b"},
    {"div divf divide", "a / b"},
    {"neg negf", "-x"},
    {"absf fabs absolute", "abs(x)"},
    {"addcmul", "fma(a, b, c) or c + a * b"},
    {"addcdiv", "w - lr * m / d"},
    {"minimumf fmin", "minimum(a, b)"},
    {"maximumf fmax", "maximum(a, b)"},
    {"select", "a if condition else b"},
    {"clip", "clamp(x, low, high)"},
    {"clamp_min", "maximum(x, low)"},
    {"clamp_max", "minimum(x, high)"},
    {"truncf float float32", "f32(x)"},
    {"fpowi", "beta ^ t"},
    {"mm mv dot", "matmul(a, b)"},
    {"T t", "transpose(x)"},
    {"diag", "diagonal(s)"},
    {"eigh eig", "eigenbasis(s)"},
    {"qr", "orthonormal(s)"},
    {"eye", "identity(s)"},
    {"zeros_like", "0.0"},
    {"ones_like", "1.0"},
    {"rand", "random(uniform, key=1)"},
    {"randn", "random(normal, key=1)"},
    {"softsign soft_sign", "x / (1 + abs(x))"},
    {"expit logistic", "sigmoid(x)"},
    {"std", "sqrt(mean(x * x) - mean(x) ^ 2)"},
    {"apply_step", "descend(w, along, rate, decay)"},
    {"amax", "max(x)"},
    {"amin", "min(x)"},
};

bool RuleParser::isCall(StringRef name) {
  return llvm::any_of(functions, [&](const Function &one) { return one.name() == name; }) ||
         llvm::is_contained(reductions, name) || llvm::is_contained(matrixCalls, name) || name == randomCall;
}

static std::string describeUnknown(StringRef name) {
  for (const Replacement &one : replacements)
    if (llvm::is_contained(llvm::split(one.names, ' '), name))
      return ("; write " + one.words).str();
  SmallVector<StringRef> known;
  for (const Function &one : functions)
    known.push_back(one.name());
  known.append(std::begin(reductions), std::end(reductions));
  known.append(std::begin(matrixCalls), std::end(matrixCalls));
  known.push_back(randomCall);
  return describeChoices(name, known);
}

Term RuleParser::parseCall() {
  RuleToken name = token;
  auto function = llvm::find_if(functions, [&](const Function &one) { return one.name() == name.text; });
  advance();
  if (function != std::end(functions)) {
    SmallVector<Term> operands = parseOperands(function->usage);
    place(name);
    return bad ? Term() : function->make(*terms, operands);
  }
  if (llvm::is_contained(reductions, name.text))
    return parseReduction(name);
  if (llvm::is_contained(matrixCalls, name.text))
    return parseMatrixCall(name);
  if (name.is(randomCall))
    return parseRandom(name);
  fail(name.text, names.count(name.text) ? "'" + name.text + "' is a value and no function: a product is written a * b"
                                         : "there is no function '" + name.text + "'" + describeUnknown(name.text));
  return {};
}

// As many as the usage has, in parentheses.
SmallVector<Term> RuleParser::parseOperands(StringRef usage) {
  RuleToken opening = token;
  SmallVector<Term> operands;
  open();
  if (!token.is(")"))
    do
      operands.push_back(parseChoice());
    while (!bad && take(","));
  if (bad || (token.is("over") && !fail("what is reduced over stands in a reduction, such as sum(x over unit)")) ||
      !close(opening))
    return operands;
  size_t wanted = usage.count(',') + 1;
  if (operands.size() != wanted)
    fail(opening.text,
         "here are " + Twine(operands.size()) + " values, and " + Twine(wanted) + " are wanted: write " + usage);
  return operands;
}

//===-- Reductions ----------------------------------------------------------------------===//

// tensor, unit, step or block<1x32>.
BlockAttr RuleParser::parseOver() {
  MLIRContext *context = module.getContext();
  RuleToken at = token;
  advance();
  if (at.is("tensor") || at.is("unit") || at.is("step"))
    return BlockAttr::get(context, *symbolizeScope(at.text));
  if (at.is("row"))
    return BlockAttr::get(context, Scope::Unit);
  if (at.is("column"))
    return BlockAttr::getColumn(context);
  static constexpr StringLiteral there = "; there are tensor, row, column, unit (an index of dimension 0), step (all "
                                         "tensors) and block<1x32>";
  if (!at.is("block"))
    return fail(at.text, "nothing is reduced over " + describe(at) + there), BlockAttr();
  expect("<", "a block is written block<1x32>");
  RuleToken size = token;
  auto [rows, columns] = size.text.split('x');
  int64_t extents[2];
  if (bad || rows.getAsInteger(10, extents[0]) || columns.getAsInteger(10, extents[1]) || extents[0] < 1 ||
      extents[1] < 1)
    return fail(size.text, "a block is written block<1x32>"), BlockAttr();
  advance();
  BlockAttr block = BlockAttr::get(context, extents[0], extents[1]);
  std::string why;
  {
    ScopedDiagnosticHandler words(context, [&](Diagnostic &one) { return why = one.str(), success(); });
    (void)verifySupportedBlock(block, [&] { return emitError(getLocation(size.text)); });
  }
  if (!why.empty())
    return fail(size.text, why), BlockAttr();
  expect(">", "a block is written block<1x32>");
  return block;
}

Term RuleParser::parseReduction(const RuleToken &name) {
  RuleToken opening = token;
  open();
  Term x = parseChoice();
  if (token.is(","))
    fail(name.text.starts_with("m") && name.text.size() == 3
             ? name.text + " is of one value, over the tensor; of two values write " + name.text + "imum(a, b)"
             : name.text + " takes one value, and what it is over: " + name.text + "(x over unit)");
  BlockAttr over = BlockAttr::get(module.getContext(), Scope::Tensor);
  if (!bad && take("over"))
    over = parseOver();
  if (bad || !close(opening))
    return {};
  place(name);
  return reduce(name.text, x, over);
}

Term RuleParser::reduce(StringRef name, Term x, BlockAttr over) {
  if (name == "all")
    return terms->reduce(Reduction::And, x, over);
  if (name == "count")
    return terms->reduce(Reduction::Count, x, over);
  if (name == "any") {
    Term count = terms->reduce(Reduction::Count, x, over);
    return bad ? count : terms->compare(">", count, Term::of(0, true));
  }
  if (name == "max")
    return terms->reduce(Reduction::Max, x, over);
  if (name == "absmax")
    return terms->reduce(Reduction::AbsMax, x, over);
  if (name == "min") {
    Term most = terms->reduce(Reduction::Max, terms->negate(x), over);
    return bad ? most : terms->negate(most);
  }
  Term total = terms->reduce(name == "sum" || name == "mean" ? Reduction::Add : Reduction::SumSq, x, over);
  if (bad || name == "sum" || name == "sumsq")
    return total;
  if (name == "norm")
    return terms->apply("math.sqrt", total);
  Term mean = terms->mean(total, over);
  return name == "mean" ? mean : terms->apply("math.sqrt", mean);
}

//===-- Random numbers --------------------------------------------------------------------===//

// random(normal, key=1)
Term RuleParser::parseRandom(const RuleToken &name) {
  static constexpr StringLiteral usage = "write random(normal, key=1) or random(uniform, key=1)";
  RuleToken opening = token;
  open();
  std::optional<Distribution> distribution = symbolizeDistribution(token.text);
  if (!distribution)
    return fail(usage), Term();
  advance();
  if (!expect(",", usage) || !token.is("key"))
    return fail(usage), Term();
  advance();
  if (!expect("=", usage))
    return {};
  RuleToken at = token;
  Term key = parseChoice();
  if (bad || !close(opening))
    return {};
  if (key.value || !key.isWhole || key.number < 0 || key.number > RandomOp::maxKey)
    return fail(at.text,
                "a key is a whole number of 0 to " + Twine(RandomOp::maxKey) + "; two keys give independent numbers"),
           Term();
  place(name);
  return terms->random(*distribution, int64_t(key.number));
}

//===-- Matrices ------------------------------------------------------------------------===//

// A word in parentheses, such as bf16.
RuleToken RuleParser::parseWord() {
  RuleToken word = token;
  advance();
  return word;
}

Term RuleParser::parseMatrixCall(const RuleToken &name) {
  RuleToken opening = token;
  open();
  if (name.is("scale_by_shape")) {
    RuleToken word = parseWord();
    std::optional<ShapeScale> scale = symbolizeShapeScale(word.text);
    if (!scale)
      return fail(word.text, describe(word) + " is no scale; there are original, match_rms, unclamped and spectral"),
             Term();
    if (!close(opening))
      return {};
    place(name);
    return terms->scaleByShape(*scale);
  }
  Term x = parseChoice();
  if (bad || !expect(",", "write " + StringRef(name.is("matrix")    ? "matrix(x, bf16)"
                                               : name.is("product") ? "product(a, x)"
                                                                    : "orthogonalize(x, eps, steps=5)")))
    return {};
  if (name.is("orthogonalize"))
    return parseOrthogonalize(name, opening, x);
  if (name.is("product"))
    return parseProductCall(name, opening, x);
  RuleToken word = parseWord();
  FormatAttr format = llvm::is_contained({"bf16", "f16", "f32"}, word.text)
                          ? FormatAttr::getNamed(module.getContext(), word.text)
                          : FormatAttr();
  if (!format)
    return fail(word.text, "no matrix is of " + describe(word) + "; there are bf16, f16 and f32"), Term();
  if (!close(opening))
    return {};
  place(name);
  return terms->matrix(x, format);
}

// orthogonalize(x, eps, steps=5, in=bf16): the words are those of a rule's options.
Term RuleParser::parseOrthogonalize(const RuleToken &name, const RuleToken &opening, Term x) {
  MLIRContext *context = module.getContext();
  Term eps = parseChoice();
  NamedAttrList words;
  for (StringRef usual : {"coefficients=jordan", "steps=5", "in=bf16", "length=clamped"})
    words.append(*readIterationWord(context, usual));
  while (!bad && token.is(",")) {
    RuleToken word = lexer.nextWord();
    std::optional<NamedAttribute> read = readIterationWord(context, word.text);
    if (!read || !llvm::is_contained(OrthogonalizeOp::getAttributeNames(), read->getName()))
      return fail(word.text, describe(word) +
                                 " is no word of orthogonalize(x, eps, steps=5); there are steps=, in=, length=, "
                                 "coefficients=, over=unit, equal=rows and batches=none"),
             Term();
    words.set(read->getName(), read->getValue());
    advance();
  }
  if (bad || !close(opening))
    return {};
  place(name);
  return terms->orthogonalize(x, eps, words);
}

// product(a, x, by=2.0, plus=y, weight=1.5)
Term RuleParser::parseProductCall(const RuleToken &name, const RuleToken &opening, Term left) {
  Term right = parseChoice(), plus;
  double by = 1, weight = 1;
  while (!bad && take(",")) {
    RuleToken word = token;
    if (!llvm::is_contained({"by", "plus", "weight"}, word.text) || !lexer.peekIs("="))
      return fail("write product(a, x, by=2.0, plus=y, weight=1.5)"), Term();
    advance();
    advance();
    RuleToken at = token;
    Term value = parseChoice();
    if (word.is("plus"))
      plus = value;
    else if (!bad && value.value)
      return fail(at.text, "by= and weight= are numbers that are written here"), Term();
    else
      (word.is("by") ? by : weight) = value.number;
  }
  if (bad || !close(opening))
    return {};
  place(name);
  return terms->product(left, right, by, plus, weight);
}

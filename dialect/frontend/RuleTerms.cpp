// Terms ==> operations, each in the width that its level asks for.
#include "dialect/frontend/RuleTerms.h"

#include "dialect/Variance.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>

using namespace mlir;
using namespace altgrad;

static constexpr char comparisonAsNumber[] = "a comparison is no number: write a if condition else b";

Term RuleTerms::fail(const Twine &words) {
  complain(words);
  return {};
}

Term RuleTerms::make(StringRef op, ValueRange operands, Type type, Level level, ArrayRef<NamedAttribute> attributes) {
  DictionaryAttr named = builder.getDictionaryAttr(attributes);
  std::string key;
  llvm::raw_string_ostream text(key);
  text << op << named.getAsOpaquePointer() << type.getAsOpaquePointer();
  for (Value operand : operands)
    text << operand.getAsOpaquePointer();
  Value &value = known[key];
  if (!value) {
    OperationState state(loc, op, operands, type, attributes);
    value = builder.create(state)->getResult(0);
  }
  return {value, 0, type.isInteger(64), level};
}

//===-- Widths ----------------------------------------------------------------===//

Value RuleTerms::constant(TypedAttr attribute) {
  return make("arith.constant", {}, attribute.getType(), Level::Constant, builder.getNamedAttr("value", attribute))
      .value;
}

Value RuleTerms::integer(const Term &x) {
  return x.value ? x.value : constant(builder.getI64IntegerAttr(int64_t(x.number)));
}

// A number below elements, as f64.
Value RuleTerms::wide(const Term &x) {
  if (!x.value)
    return constant(builder.getF64FloatAttr(x.number));
  if (x.type().isF64() || x.isCondition())
    return x.value;
  return make(x.type().isF32() ? "arith.extf" : "arith.sitofp", x.value, builder.getF64Type(), x.level).value;
}

// A value as f32, as it meets an element.
Value RuleTerms::narrow(const Term &x) {
  Type f32 = builder.getF32Type();
  if (!x.value)
    return constant(builder.getF32FloatAttr(x.number));
  if (isa<TensorsType>(x.type()))
    return make("altgrad.entry", x.value, f32, Level::Element).value;
  if (x.type().isF32() || x.isCondition())
    return x.value;
  return make("arith.truncf", wide(x), f32, x.level).value;
}

// Whether it is a number or a value that has one.
bool RuleTerms::check(const Term &x) {
  if (x.isCondition())
    return fail(comparisonAsNumber), false;
  if (x.isTransposed)
    return fail("transpose(x) stands in matmul alone: write matmul(transpose(x), y)"), false;
  if (isa_and_nonnull<SquaresType>(x.type()))
    return fail("a Gram matrix has no elements of its own: multiply it with the matrix, product(gram(x), x)"), false;
  return true;
}

// Operands in one width: f32 where one of them is an element, else f64.
std::optional<RuleTerms::Met> RuleTerms::meet(Terms operands, bool atElement) {
  Met met;
  for (const Term &x : operands) {
    if (!check(x))
      return std::nullopt;
    met.level = std::max(met.level, x.level);
    met.isSingle |= x.isSingle;
  }
  bool isNarrow = met.isSingle || atElement || met.level == Level::Element;
  met.type = isNarrow ? Type(builder.getF32Type()) : builder.getF64Type();
  for (const Term &x : operands)
    met.values.push_back(isNarrow ? narrow(x) : wide(x));
  return met;
}

Term RuleTerms::apply(StringRef op, Terms operands) {
  std::optional<Met> met = meet(operands);
  if (!met)
    return {};
  Term result = make(op, met->values, met->type, met->level);
  result.isSingle = met->isSingle;
  return result;
}

Term RuleTerms::single(Term x) {
  if (!check(x))
    return {};
  return {narrow(x), 0, false, x.level, /*isSingle=*/true};
}

Term RuleTerms::whole(Term x) {
  if (!check(x))
    return {};
  if (x.isElement())
    return fail("no int of elements, which stay f32; there is floor(x)");
  return x.isWhole ? x : make("arith.fptosi", wide(x), builder.getI64Type(), x.level);
}

//===-- Arithmetic --------------------------------------------------------------===//

// What two written numbers give; nothing after an error.
std::optional<double> RuleTerms::fold(char sign, double a, double b) {
  if ((sign == '/' || sign == '%') && b == 0)
    return fail("a division of two numbers by 0"), std::nullopt;
  switch (sign) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    return a / b;
  default: // with the sign of b, as Python's
    double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
}

Term RuleTerms::arithmetic(char sign, Term a, Term b) {
  bool isWhole = a.isWhole && b.isWhole && sign != '/';
  if (!a.value && !b.value) {
    std::optional<double> number = fold(sign, a.number, b.number);
    return number ? Term::of(*number, isWhole) : Term();
  }
  if (sign == '%') {
    if (a.isElement() || b.isElement())
      return fail("% is for numbers of the step, not for elements: write a - b * floor(a / b)");
    Term quotient = apply("math.floor", apply("arith.divf", {a, b}));
    return arithmetic('-', a, arithmetic('*', quotient, b));
  }
  StringRef op = sign == '+' ? "add" : sign == '-' ? "sub" : sign == '*' ? "mul" : "div";
  if (isWhole)
    return make(("arith." + op + "i").str(), {integer(a), integer(b)}, builder.getI64Type(),
                std::max(a.level, b.level));
  return apply(("arith." + op + "f").str(), {a, b});
}

Term RuleTerms::negate(Term x) {
  if (!x.value)
    return Term::of(x.isWhole && x.number == 0 ? 0 : -x.number, x.isWhole);
  return apply("arith.negf", x);
}

Term RuleTerms::compare(StringRef sign, Term a, Term b) {
  static constexpr std::tuple<StringLiteral, arith::CmpFPredicate, arith::CmpIPredicate> rows[] = {
      {"<", arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt},
      {"<=", arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle},
      {">", arith::CmpFPredicate::OGT, arith::CmpIPredicate::sgt},
      {">=", arith::CmpFPredicate::OGE, arith::CmpIPredicate::sge},
      {"==", arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq},
      {"!=", arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne}};
  auto [word, ofNumbers, ofIntegers] = *llvm::find_if(rows, [&](auto &row) { return std::get<0>(row) == sign; });
  if (!a.value && !b.value)
    return fail("both sides are numbers that are written here, so nothing is to be compared");
  if (a.isWhole && b.isWhole)
    return make("arith.cmpi", {integer(a), integer(b)}, builder.getI1Type(), std::max(a.level, b.level),
                builder.getNamedAttr("predicate", builder.getI64IntegerAttr(int64_t(ofIntegers))));
  std::optional<Met> met = meet({a, b});
  if (!met)
    return {};
  return make("arith.cmpf", met->values, builder.getI1Type(), met->level,
              builder.getNamedAttr("predicate", builder.getI64IntegerAttr(int64_t(ofNumbers))));
}

Term RuleTerms::logic(StringRef op, Term a, Term b) {
  if (!a.isCondition() || !b.isCondition())
    return fail("and, or and not take comparisons and options, such as a < b");
  return make(op, {a.value, b.value}, builder.getI1Type(), std::max(a.level, b.level));
}

Term RuleTerms::invert(Term condition) {
  return logic("arith.xori", condition, {constant(builder.getBoolAttr(true)), 0, false, Level::Constant});
}

Term RuleTerms::choose(Term condition, Term a, Term b) {
  if (!condition.isCondition())
    return fail("what decides is an option or a comparison, such as a if g > 0 else b");
  std::optional<Met> met = meet({a, b}, condition.isElement());
  if (!met)
    return {};
  Term result = make("arith.select", {condition.value, met->values[0], met->values[1]}, met->type,
                     std::max(met->level, condition.level));
  result.isSingle = met->isSingle;
  return result;
}

Term RuleTerms::sign(Term x) {
  if (!check(x))
    return {};
  std::optional<Met> met = meet({x, Term::of(0)});
  Term some = make("arith.cmpf", met->values, builder.getI1Type(), met->level,
                   builder.getNamedAttr("predicate", builder.getI64IntegerAttr(int64_t(arith::CmpFPredicate::ONE))));
  return choose(some, apply("math.copysign", {Term::of(1), x}), Term::of(0));
}

// Of elements, x^n as products, roots and quotients where there are few of them.
static Term powerOfElement(RuleTerms &terms, Term x, Term n) {
  auto root = [&](Term of) { return terms.apply("math.sqrt", of); };
  if (!n.value && n.number == 1)
    return x;
  if (!n.value && n.number == 2)
    return terms.square(x);
  if (!n.value && n.number == 3)
    return terms.arithmetic('*', terms.square(x), x);
  if (!n.value && n.number == 4)
    return terms.square(terms.square(x));
  if (!n.value && n.number == 0.5)
    return root(x);
  if (!n.value && n.number == 0.25)
    return root(root(x));
  if (!n.value && n.number == 1.5)
    return terms.arithmetic('*', x, root(x));
  if (!n.value && n.number == -0.5)
    return terms.arithmetic('/', Term::of(1), root(x));
  if (!n.value && n.number == -1)
    return terms.arithmetic('/', Term::of(1), x);
  return terms.applySingle("math.powf", {x, n});
}

Term RuleTerms::power(Term a, Term n) {
  if (!check(a) || !check(n))
    return {};
  if (!a.value && !n.value) {
    double number = std::pow(a.number, n.number);
    return std::isfinite(number) ? Term::of(number, a.isWhole && n.isWhole && n.number >= 0)
                                 : fail("this power of two numbers is no finite number");
  }
  if (a.isElement() || n.isElement())
    return powerOfElement(*this, a, n);
  Level level = std::max(a.level, n.level);
  if (n.isWhole) {
    Value exponent = integer(n);
    return make("math.fpowi", {wide(a), exponent}, builder.getF64Type(), level);
  }
  if (!n.value && n.number == 0.5)
    return apply("math.sqrt", a);
  return apply("math.exp", arithmetic('*', n, apply("math.log", a)));
}

//===-- Tensors -------------------------------------------------------------------===//

static constexpr StringLiteral levels[] = {"a constant",
                                           "a number of all tensors",
                                           "a number of the hyper-parameters",
                                           "a number of the step",
                                           "a number of the tensor",
                                           "a number of the unit",
                                           "an element"};

Term RuleTerms::reduce(Reduction kind, Term x, BlockAttr over) {
  bool ofConditions = isBoolean(kind);
  if (ofConditions != x.isCondition())
    return fail(ofConditions ? "all, any and count take a comparison, such as count(g > 0)" : comparisonAsNumber);
  Scope scope = over.getScope();
  bool isOfUnits = x.level == Level::Unit && (scope < Scope::Unit || over.isColumn());
  bool isOfTensors = x.level > Level::Hyper && x.level <= Level::Tensor && scope == Scope::Step;
  if (!x.isElement() && !isOfTensors && !isOfUnits)
    return fail("a reduction of " + levels[int(x.level)] +
                ", which is the same for all elements: reduce elements, or use the number itself");
  if (BlockAttr square = scope > Scope::Tensor ? getSquare(x) : BlockAttr())
    return fail("a square " + describeSquare(square) +
                " is reduced over the tensor or the step, as sum(s) and trace(s)");
  std::optional<Met> met = ofConditions ? Met{{x.value}, x.level, false, {}} : meet(x, isOfTensors || isOfUnits);
  if (!met)
    return {};
  Level level = scope == Scope::Block  ? Level::Element
                : scope == Scope::Unit ? Level::Unit
                : scope == Scope::Step ? Level::Global
                                       : Level::Tensor;
  Type type = kind == Reduction::And ? Type(builder.getI1Type()) : builder.getF32Type();
  return make("altgrad.reduce", met->values, type, level,
              {builder.getNamedAttr("over", over),
               builder.getNamedAttr("reduction", ReductionAttr::get(builder.getContext(), kind))});
}

Term RuleTerms::kept(Term x) { return x.value && !check(x) ? Term() : Term{wide(x), 0, false, x.level}; }

Term RuleTerms::extent(Dimension dimension) {
  Term whole = make("altgrad.dim", {}, builder.getI64Type(), Level::Tensor,
                    builder.getNamedAttr("dimension", DimensionAttr::get(builder.getContext(), dimension)));
  return make("arith.sitofp", whole.value, builder.getF64Type(), Level::Tensor);
}

Term RuleTerms::count() {
  Term rows = extent(Dimension::Rows), columns = extent(Dimension::Columns);
  Term matrix = arithmetic('*', rows, columns);
  return arithmetic('*', matrix, extent(Dimension::Batch));
}

// How many numbers of a tensor a reduction over it, or over one of its rows or columns, is of.
Term RuleTerms::countReduced(Scope of, BlockAttr ofBlock, BlockAttr over) {
  if (ofBlock.isSquare()) {
    Term side = extent(ofBlock.isRowSquare() ? Dimension::Rows : Dimension::Columns);
    return square(side);
  }
  if (of == Scope::Tensor) { // one; a constant would be the same for all tensors
    Term some = apply("arith.maximumf", {count(), Term::of(1)});
    return arithmetic('/', some, some);
  }
  if (of == Scope::Unit)
    return arithmetic('/', count(), extent(Dimension::Unit));
  if (of == Scope::Column)
    return extent(Dimension::Columns);
  if (over.isColumn())
    return arithmetic('*', extent(Dimension::Rows), extent(Dimension::Batch));
  if (over.getScope() == Scope::Block)
    return Term::of(double(over.getRows() * over.getColumns()));
  return over.getScope() == Scope::Unit ? extent(Dimension::Unit) : count();
}

Term RuleTerms::mean(Term total, BlockAttr over) {
  if (!total.value)
    return {};
  Variances variances(getRule());
  auto sum = total.value.getDefiningOp<ReduceOp>();
  Scope of = getReducedScope(sum, variances).value_or(Scope::Block);
  Term size = countReduced(of, variances.of(sum.getValue()), over);
  return arithmetic('/', total, over.getScope() == Scope::Step ? reduce(Reduction::Add, size, over) : size);
}

Term RuleTerms::applySingle(StringRef op, Terms operands) {
  std::optional<Met> met = meet(operands, /*atElement=*/true);
  if (!met)
    return {};
  Term result = make(op, met->values, builder.getF32Type(), met->level);
  return met->level == Level::Element || !result.value ? result : kept(result);
}

Term RuleTerms::ofElements(StringRef op, Terms operands, Level level) {
  std::optional<Met> met = meet(operands, /*atElement=*/true);
  if (met && met->level < Level::Element)
    return fail("this is of elements, and here stands " + levels[int(met->level)]);
  return met ? make(op, met->values, builder.getF32Type(), level) : Term();
}

Term RuleTerms::descend(Terms operands) {
  std::optional<Met> met = meet(operands.take_front(2), /*atElement=*/true);
  if (!met)
    return {};
  for (const Term &number : operands.drop_front(2))
    if (!check(number))
      return {};
    else if (number.isElement())
      return fail("the rate and the decay of descend(w, along, rate, decay) are numbers of the tensor, and here is an "
                  "element: write w * (1 - decay) - rate * along");
  Value rate = wide(operands[2]), decay = wide(operands[3]);
  return make("altgrad.apply_step", {met->values[0], met->values[1], rate, decay}, builder.getF32Type(),
              Level::Element);
}

//===-- Matrices --------------------------------------------------------------------===//

Term RuleTerms::matrix(Term x, FormatAttr format) {
  if (!check(x))
    return {};
  if (!x.isElement())
    return fail("a matrix is of elements, and here stands " + levels[int(x.level)]);
  return make("altgrad.matrix", narrow(x), TensorsType::get(builder.getContext(), format), Level::Element);
}

BlockAttr RuleTerms::getSquare(const Term &x) {
  BlockAttr block = x.value ? Variances(getRule()).of(x.value) : BlockAttr();
  return block && block.isSquare() ? block : BlockAttr();
}

bool RuleTerms::checkMatrix(const Term &x) {
  if (isa_and_nonnull<TensorsType>(x.type()))
    return true;
  if (isa_and_nonnull<SquaresType>(x.type()) || !check({x.value, x.number, x.isWhole, x.level}))
    return fail("gram(x) is for product(a, x); matmul(x, transpose(x)) is a square that matmul takes"), false;
  if (!x.isElement())
    return fail("a matrix is of elements, and here stands " + levels[int(x.level)]), false;
  return true;
}

// Its matrix: itself, or that of all elements in f32.
Value RuleTerms::lift(const Term &x) {
  if (!checkMatrix(x))
    return {};
  if (isa<TensorsType>(x.type()))
    return x.value;
  BlockAttr square = getSquare(x);
  MLIRContext *context = builder.getContext();
  auto type = TensorsType::get(context, FormatAttr::getNamed(context, "f32"),
                               square ? square : BlockAttr::get(context, 1, 1), /*packed=*/false);
  return make("altgrad.matrix", narrow(x), type, Level::Element).value;
}

Term RuleTerms::transpose(Term x) {
  if (!checkMatrix(x))
    return {};
  x.isTransposed = !x.isTransposed;
  return x;
}

Term RuleTerms::matmul(Term left, Term right) {
  if (isList(right))
    return multiplyList(left, right);
  if (isList(left))
    return fail("a list stands on the right of matmul: matmul(transpose(x), r) of one per row, matmul(x, c) of one per "
                "column");
  Value a = lift(left), b = a ? lift(right) : Value();
  if (!b)
    return {};
  auto type = getProductType(cast<TensorsType>(a.getType()), left.isTransposed, cast<TensorsType>(b.getType()),
                             right.isTransposed);
  auto describe = [](Value matrix) -> StringRef {
    BlockAttr block = cast<TensorsType>(matrix.getType()).getBlock();
    return block.isSquare() ? describeSquare(block) : "of rows x columns";
  };
  if (!type)
    return fail("matmul takes matrices that fit, and here is " + Twine(left.isTransposed ? "the transpose of " : "") +
                "one " + describe(a) + " and " + (right.isTransposed ? "the transpose of " : "") + "one " +
                describe(b) + "; transpose(x) turns one");
  if (cast<TensorsType>(a.getType()).getFormat() != cast<TensorsType>(b.getType()).getFormat())
    return fail("matmul takes matrices of one format: make both by matrix(x, bf16)");
  SmallVector<NamedAttribute> attributes;
  if (left.isTransposed)
    attributes.push_back(builder.getNamedAttr("left_transposed", builder.getUnitAttr()));
  if (right.isTransposed)
    attributes.push_back(builder.getNamedAttr("right_transposed", builder.getUnitAttr()));
  return make("altgrad.matmul", {a, b}, type, Level::Element, attributes);
}

Term RuleTerms::factorize(ProductForm form, Term square, Term basis, double root) {
  Value s = lift(square), q = s && basis.value ? lift(basis) : Value();
  if (!s || bool(q) != bool(basis.value))
    return {};
  auto type = cast<TensorsType>(s.getType());
  if (!canFactorize(form, type) || (q && q.getType() != type) || square.isTransposed || basis.isTransposed)
    return fail(stringifyProductForm(form) + " takes a square of rows x rows or of columns x columns" +
                (basis.value ? ", and a basis of as many rows" : "") + ", as matmul(x, transpose(x)) gives one" +
                (form == ProductForm::Orthonormal ? ", or a matrix of f32" : ""));
  SmallVector<Value> operands{s};
  if (q)
    operands.push_back(q);
  SmallVector<NamedAttribute> attributes{
      builder.getNamedAttr("form", ProductFormAttr::get(builder.getContext(), form))};
  if (form == ProductForm::InverseRoot)
    attributes.push_back(builder.getNamedAttr("root", builder.getF64FloatAttr(root)));
  return make("altgrad.factorize", operands, type, Level::Element, attributes);
}

Term RuleTerms::gram(Term x) {
  if (!isa_and_nonnull<TensorsType>(x.type()))
    return fail("gram takes a matrix: write gram(matrix(x, bf16))");
  return make("altgrad.gram", x.value, getSquareType(x.type()), Level::Element);
}

Term RuleTerms::product(Term left, Term right, double by, Term plus, double weight) {
  if (!isa_and_nonnull<SquaresType>(left.type()) || !isa_and_nonnull<SquaresType, TensorsType>(right.type()) ||
      getSquareType(right.type()) != left.type())
    return fail("product(a, x) is of a square a, which gram(x) or a product of squares gives, and of a matrix or "
                "square x of the same format");
  if (plus.value && plus.type() != right.type())
    return fail("plus= is of what the product is: a square beside squares, and a matrix beside a matrix");
  SmallVector<Value> operands{left.value, right.value};
  SmallVector<NamedAttribute> attributes{builder.getNamedAttr("factor", builder.getF64FloatAttr(by))};
  if (plus.value) {
    operands.push_back(plus.value);
    attributes.push_back(builder.getNamedAttr("weight", builder.getF64FloatAttr(weight)));
  }
  return make("altgrad.product", operands, right.type(), Level::Element, attributes);
}

Term RuleTerms::orthogonalize(Term x, Term eps, ArrayRef<NamedAttribute> words) {
  std::optional<Met> met = meet(x);
  if (!met || !check(eps))
    return {};
  if (met->level < Level::Element || eps.isElement())
    return fail("orthogonalize(x, eps) takes the elements of a matrix and one number");
  Value small = wide(eps);
  return make("altgrad.orthogonalize", {met->values[0], small}, builder.getF32Type(), Level::Element, words);
}

Term RuleTerms::scaleByShape(ShapeScale scale) {
  return make("altgrad.scale_by_shape", {}, builder.getF64Type(), Level::Tensor,
              builder.getNamedAttr("by", ShapeScaleAttr::get(builder.getContext(), scale)));
}

Term RuleTerms::random(Distribution distribution, int64_t key) {
  return make("altgrad.random", {}, builder.getF32Type(), Level::Element,
              {builder.getNamedAttr("distribution", DistributionAttr::get(builder.getContext(), distribution)),
               builder.getNamedAttr("key", builder.getI64IntegerAttr(key))});
}

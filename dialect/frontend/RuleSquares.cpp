// Lists of rows and columns beside matrices in short text: products with them, and the diagonals of squares.
#include "dialect/frontend/RuleTerms.h"

#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

// Whether a value is one number for each row or each column.
bool RuleTerms::isList(const Term &x) {
  if (!x.value || x.isTransposed || isa<TensorsType, SquaresType>(x.type()))
    return false;
  return x.level == Level::Unit || (x.isElement() && Variances(getRule()).of(x.value).isColumn());
}

// A matrix of ones. It is computed from the gradient, since a constant would be of no set of tensors.
Term RuleTerms::ones() {
  Term gradient{getRule().getByRole(Role::grad).front(), 0, false, Level::Element};
  return apply("math.absf", apply("math.copysign", {Term::of(1), gradient}));
}

// Of the product with a matrix whose rows or columns are the list, one column or row: the others are the same.
Term RuleTerms::multiplySquare(Term square, Term list) {
  MLIRContext *context = builder.getContext();
  const bool ofRows = getSquare(square).isRowSquare();
  Term matrix = arithmetic('*', list, ones());
  if (ofRows)
    return reduce(Reduction::Max, matmul(square, matrix), BlockAttr::get(context, Scope::Unit));
  square.isTransposed = !square.isTransposed;
  return reduce(Reduction::Max, matmul(matrix, square), BlockAttr::getColumn(context));
}

Term RuleTerms::multiplyList(Term left, Term list) {
  const bool ofRows = list.level == Level::Unit;
  if (!checkMatrix(left))
    return {};
  if (BlockAttr square = getSquare(left))
    return square.isRowSquare() == ofRows
               ? multiplySquare(left, list)
               : fail("matmul of a square " + describeSquare(square) + " and of a list per " +
                      (ofRows ? "row" : "column") + ", which do not fit");
  if (left.isTransposed != ofRows)
    return fail("matmul(x, c) takes a list c per column and gives one per row, and matmul(transpose(x), r) takes one "
                "per row and gives one per column");
  left.isTransposed = false;
  Term product = arithmetic('*', left, list);
  return reduce(Reduction::Add, product,
                ofRows ? BlockAttr::getColumn(builder.getContext())
                       : BlockAttr::get(builder.getContext(), Scope::Unit));
}

// The square with zeros beside its diagonal.
Term RuleTerms::selectDiagonal(StringRef name, Term s) {
  s.isTransposed = false;
  if (!s.value || !getSquare(s))
    return fail(name +
                "(s) takes a square of rows x rows or of columns x columns, as matmul(x, transpose(x)) gives one");
  Term identity = factorize(ProductForm::Identity, s);
  return identity.value ? choose(compare(">", identity, Term::of(0)), s, Term::of(0)) : Term();
}

Term RuleTerms::trace(Term s) {
  Term kept = selectDiagonal("trace", s);
  return kept.value ? reduce(Reduction::Add, kept, BlockAttr::get(builder.getContext(), Scope::Tensor)) : Term();
}

Term RuleTerms::diagonal(Term s) {
  Term kept = selectDiagonal("diagonal", s);
  return kept.value ? multiplySquare(kept, Term::of(1)) : Term();
}

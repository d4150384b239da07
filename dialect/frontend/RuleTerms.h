// Values of a rule in short text: which level they have, and where they are rounded.
#ifndef ALTGRAD_DIALECT_FRONTEND_RULETERMS_H
#define ALTGRAD_DIALECT_FRONTEND_RULETERMS_H

#include "dialect/Dialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace altgrad {

/// Where a value may differ: it is one number for the lower of these, and another for each of the higher ones.
enum class Level { Constant, Global, Hyper, Step, Tensor, Unit, Element };

/// A value, or a number that is written and has no width before it meets one.
struct Term {
  mlir::Value value; // null: a number
  double number = 0;
  bool isWhole = false; // a number without a point, or i64
  Level level = Level::Constant;
  bool isSingle = false; // f32(x): what meets it is rounded as beside an element
  bool isTransposed = false; // transpose(x), for matmul alone

  static Term of(double number, bool isWhole = false) { return {{}, number, isWhole && std::abs(number) < 0x1p53}; }
  mlir::Type type() const { return value ? value.getType() : mlir::Type(); }
  bool isCondition() const { return value && value.getType().isInteger(1); }
  bool isElement() const { return level == Level::Element; }
};

/// "of rows x rows", or of columns.
inline llvm::StringRef describeSquare(BlockAttr square) {
  return square && square.isRowSquare() ? "of rows x rows" : "of columns x columns";
}

/// Makes operations of a rule. Numbers below elements are f64, and what meets an element is rounded once; equal
/// operations are one; operands are made in the order of the text. runtime/python/altgrad/language/_arithmetic.py
/// has the same rules.
class RuleTerms {
public:
  using Terms = llvm::ArrayRef<Term>;
  RuleTerms(mlir::OpBuilder builder, std::function<void(const llvm::Twine &)> complain)
      : builder(builder), complain(std::move(complain)), loc(builder.getUnknownLoc()) {}

  /// The place of what is made next.
  void setLocation(mlir::Location place) { loc = place; }
  /// Says why at that place, and stands for what is not made.
  Term fail(const llvm::Twine &words);

  /// An operation whose operands and result have one width.
  Term apply(llvm::StringRef op, Terms operands);
  /// '+', '-', '*', '/' and '%'.
  Term arithmetic(char sign, Term a, Term b);
  Term negate(Term x);
  /// By "<", "<=", ">", ">=", "==" and "!=".
  Term compare(llvm::StringRef sign, Term a, Term b);
  /// "arith.andi", "arith.ori" and "arith.xori" of conditions.
  Term logic(llvm::StringRef op, Term a, Term b);
  Term invert(Term condition);
  Term choose(Term condition, Term a, Term b);
  Term power(Term a, Term n);

  Term square(Term x) { return arithmetic('*', x, x); }
  Term sign(Term x);
  Term single(Term x);
  Term whole(Term x);
  /// x as f64, as numbers of tensors and of the step are kept.
  Term kept(Term x);
  Term reduce(Reduction kind, Term x, BlockAttr over);
  Term mean(Term total, BlockAttr over);
  Term extent(Dimension dimension);
  Term count();
  Term descend(Terms operands);
  Term matrix(Term x, FormatAttr format);
  Term gram(Term x);
  Term product(Term left, Term right, double by, Term plus, double weight);
  Term transpose(Term x);
  /// Of two matrices; or of a matrix and a list per column or row, whose product is one per row or column.
  Term matmul(Term left, Term right);
  Term trace(Term s);
  /// A list per row or per column of a square's numbers that are on its diagonal.
  Term diagonal(Term s);
  /// What is found of a square; `basis` is for the order alone.
  Term factorize(ProductForm form, Term square, Term basis = {}, double root = 1);
  /// The squares that a value is an element or a matrix of; null: the tensor's.
  BlockAttr getSquare(const Term &x);
  Term orthogonalize(Term x, Term eps, llvm::ArrayRef<mlir::NamedAttribute> words);
  Term scaleByShape(ShapeScale scale);
  Term random(Distribution distribution, int64_t key);
  /// A function that there is in f32 alone: a number below elements is rounded in front of it.
  Term applySingle(llvm::StringRef op, Terms operands);
  /// An operation of elements that gives f32.
  Term ofElements(llvm::StringRef op, Terms operands, Level level);

  mlir::Value wide(const Term &x);
  mlir::Value narrow(const Term &x);
  Term make(llvm::StringRef op, mlir::ValueRange operands, mlir::Type type, Level level,
            llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  mlir::OpBuilder builder;

private:
  RuleOp getRule() { return mlir::cast<RuleOp>(builder.getInsertionBlock()->getParentOp()); }
  Term countReduced(Scope of, BlockAttr ofBlock, BlockAttr over);
  bool isList(const Term &x);
  Term ones();
  Term multiplySquare(Term square, Term list);
  Term multiplyList(Term left, Term list);
  Term selectDiagonal(llvm::StringRef name, Term s);
  struct Met {
    llvm::SmallVector<mlir::Value, 4> values;
    Level level = Level::Constant;
    bool isSingle = false;
    mlir::Type type;
  };
  bool check(const Term &x);
  bool checkMatrix(const Term &x);
  mlir::Value lift(const Term &x);
  std::optional<Met> meet(Terms operands, bool atElement = false);
  mlir::Value constant(mlir::TypedAttr attribute);
  mlir::Value integer(const Term &x);
  std::optional<double> fold(char sign, double a, double b);

  std::function<void(const llvm::Twine &)> complain;
  mlir::Location loc;
  llvm::StringMap<mlir::Value> known; // by what they compute
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_RULETERMS_H

// What the operations of a rule or a step give for one element, in numbers.
#ifndef ALTGRAD_PASSES_ANALYSIS_NUMBERS_H
#define ALTGRAD_PASSES_ANALYSIS_NUMBERS_H

#include "dialect/Dialect.h"
#include <optional>

namespace altgrad {

/// Evaluates bodies for a tensor of one element. As compiled code does, or,
/// `exact`, with every real number in f64 and nothing rounded to a format.
class Numbers {
public:
  explicit Numbers(bool exact = false) : exact(exact) {}
  /// Beside the element a block holds one of this magnitude.
  double largest = 0;
  /// The 16 bits of every draw.
  uint32_t draw = 0;

  void set(mlir::Value value, double number) { known[value] = {number, 0}; }
  void setInteger(mlir::Value value, int64_t number) { known[value] = {0, number}; }
  std::optional<double> of(mlir::Value value) const;
  /// Operations whose operands are known and whose results are not.
  template <typename Range> void run(Range &&operations) {
    for (mlir::Operation &op : operations)
      evaluate(op);
  }

private:
  struct Number {
    double real;
    int64_t integer;
  };
  void evaluate(mlir::Operation &op);
  bool parted(mlir::Operation &op);
  std::optional<double> real(mlir::Operation &op);
  std::optional<double> listed(mlir::Operation &op);
  std::optional<int64_t> integer(mlir::Operation &op);
  double stored(double number, QuantizeOp op) const;
  const Number &operand(mlir::Operation &op, unsigned index) const { return known.find(op.getOperand(index))->second; }

  bool exact;
  llvm::DenseMap<mlir::Value, Number> known;
};

} // namespace altgrad

#endif // ALTGRAD_PASSES_ANALYSIS_NUMBERS_H

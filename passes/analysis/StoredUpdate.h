// A rule as a step applies it, in numbers: what it computes and what is kept of it.
#ifndef ALTGRAD_PASSES_ANALYSIS_STOREDUPDATE_H
#define ALTGRAD_PASSES_ANALYSIS_STOREDUPDATE_H

#include "dialect/Dialect.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <optional>

namespace altgrad {

/// Evaluates bodies for a tensor of one element. As compiled code does, or,
/// `exact`, with every real number in f64 and nothing rounded to a format.
class ScalarInterpreter {
public:
  explicit ScalarInterpreter(bool exact = false) : exact(exact) {}
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
  bool evaluateSplit(mlir::Operation &op);
  std::optional<double> evaluateReal(mlir::Operation &op);
  std::optional<double> evaluateList(mlir::Operation &op);
  std::optional<int64_t> evaluateInteger(mlir::Operation &op);
  double quantize(double number, QuantizeOp op) const;
  const Number &operand(mlir::Operation &op, unsigned index) const { return known.find(op.getOperand(index))->second; }

  bool exact;
  llvm::DenseMap<mlir::Value, Number> known;
};

/// Where one element stands before an update.
struct Point {
  double param = 1, grad = 0;
  llvm::SmallVector<double> states; // those that are stored
  int64_t step = 1000000;           // long after what only a beginning has
};

class StoredUpdate {
public:
  /// `hypers` are values for hyper-parameters by key, before their defaults.
  StoredUpdate(StepOp step, UpdateOp update, RuleOp rule, const llvm::StringMap<double> &hypers);
  /// Emits an error for a hyper-parameter that has no value.
  mlir::LogicalResult read();

  /// What looking at all of it takes, in operations: some hundred times this.
  size_t cost() const;
  /// The new parameter, then the new states; NaN where nothing is known.
  llvm::SmallVector<double> apply(const Point &point, bool exact) const;
  /// The value of an operation of the rule there.
  std::optional<double> valueAt(mlir::Value value, const Point &point, bool exact) const {
    return at(point, exact).of(value);
  }
  /// What is read of stream `index` after `number` was stored: 0 is the
  /// parameter, from 1 on states. NaN where that is not known.
  double roundTrip(unsigned index, double number, double largest = 0, uint32_t draw = 0) const;
  /// Whether it still reads as `before`, which was read, whatever is drawn.
  bool isUnchanged(unsigned index, double before, double number, double largest = 0) const;
  /// A point at which every state is what a steady gradient makes of it.
  const Point &steady(double grad) const;

  unsigned stateCount() const { return states.size(); }
  llvm::StringRef getName(unsigned index) const;
  mlir::Location getLocation(unsigned index) const;
  /// "bf16", "ocp.e5m2:256:f16"; of the parameter, that of its master if it has one.
  std::string getFormat(unsigned index) const;
  /// "f32", "f16": that of the scales of its blocks; "" where it has none.
  std::string getScaleFormat(unsigned index) const;
  /// "softsign", "sqrt", or "" where codes are of numbers as they are.
  llvm::StringRef getCompanding(unsigned index) const;
  bool isNearestOnly(unsigned index) const;
  /// How it is rounded; nothing where it is f32.
  std::optional<Round> getRounding(unsigned index) const;
  /// The elements that share a scale; 1 where each stands for itself.
  unsigned getBlock(unsigned index) const;
  llvm::ArrayRef<mlir::BlockArgument> hyperArguments() const { return hypers; }
  double hyper(mlir::BlockArgument argument) const { return values.lookup(argument); }
  void setHyper(mlir::BlockArgument argument, double value) {
    values[argument] = value;
    settled.clear();
  }
  /// What the step calls it; "" where it computes the value.
  std::string getKey(mlir::BlockArgument hyper) const;
  /// What the step calls a stream.
  std::string getKey(unsigned index) const;
  /// The set of its tensors.
  unsigned set() const;
  RuleOp getRule() const { return rule; }

private:
  // What leads from a result of the update to memory, and from there back.
  struct Path {
    mlir::Value operand, result; // of the update
    llvm::SmallVector<mlir::Operation *> loads, stores;
    // Values that are committed, and the arguments that hold them.
    llvm::SmallVector<std::pair<mlir::Value, mlir::BlockArgument>> written;
  };
  Path getPath(mlir::Value operand, mlir::Value result);
  ScalarInterpreter at(const Point &point, bool exact) const;
  mlir::BlockArgument getStream(unsigned index) const;

  // Handles: asking them changes nothing.
  mutable StepOp step;
  mutable UpdateOp update;
  mutable RuleOp rule;
  const llvm::StringMap<double> &given;
  llvm::SmallVector<mlir::BlockArgument> states, hypers;
  llvm::DenseMap<mlir::Value, double> values; // of hyper-parameters
  llvm::DenseMap<mlir::Value, bool> decided;
  llvm::SmallVector<Path> paths;
  mutable std::map<double, Point> settled; // by their gradient
};

} // namespace altgrad

#endif // ALTGRAD_PASSES_ANALYSIS_STOREDUPDATE_H

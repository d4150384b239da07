// One set of tensors of a step: its streams, its update and what becomes of the results.
#ifndef ALTGRAD_CODEGEN_FRONTEND_SETBUILDER_H
#define ALTGRAD_CODEGEN_FRONTEND_SETBUILDER_H

#include "codegen/frontend/SetStorage.h"
#include "codegen/frontend/StepBuilder.h"

namespace altgrad {

// Elements of a parameter in rungs: its code, its number where that is stored, how far the code is to be moved
// beside the change, the change, and what becomes of it.
struct RungValues {
  mlir::Value code, number, shift, change, moved, up, beyond;
};

class SetBuilder {
public:
  using Value = mlir::Value;
  SetBuilder(SetStorage storage, StepBuilder &step)
      : storage(std::move(storage)), step(step), rule(this->storage.rule) {}

  //===-- The gradient ------------------------------------------------------===//
  /// `changes`: without a rule it is written, too.
  void takeGradient(bool changes);
  void dequantizeGradient();
  /// Returns whether all of it is finite.
  Value unscaleGradient(Value factor);
  /// Its gradient times a factor, a list that `word` names.
  void scaleBy(Value factor, const llvm::Twine &word = "clipped") {
    gradient = ops().scale(word, gradient, factor);
  }
  /// The gradient so far, as its format holds it and torch reads it again.
  void roundGradient(const llvm::Twine &word);
  /// A norm of each tensor's gradient, which the step says.
  Value takeNorm(NormKind kind);

  //===-- The update --------------------------------------------------------===//
  void update();
  /// Norms and counts of each tensor, as arguments of role `statistic`; after the others.
  void measure();

  //===-- Without a rule ----------------------------------------------------===//
  /// The further copy becomes what was quantized to `format`, over one scale or, as
  /// `scales` says, over those of tensors, blocks or elements.
  mlir::LogicalResult quantizeTo(llvm::StringRef format, llvm::StringRef scales);
  /// To the further copy whatever was found, or where it was if the step's condition holds.
  void writeGradient(bool conditional);

  //===-- Parts -------------------------------------------------------------===//
  /// An argument that the rule, or the step, calls `key`.
  Argument list(llvm::StringRef access, llvm::StringRef role, llvm::StringRef key, TensorsType type);
  Argument scales(llvm::StringRef access, const Argument &of, llvm::StringRef stream, TensorsType type);
  Argument scalar(llvm::StringRef access, llvm::StringRef role, llvm::StringRef key, mlir::Type type,
                  Scope scope = Scope::Tensor, mlir::FloatAttr fallback = {});
  /// `value` goes to `target`, rounded as the word about `stream` says where its format is
  /// not f32; `overflow` is for a word that says nothing of it.
  Value store(const Argument &target, Value value, llvm::StringRef stream,
              std::optional<OverflowMode> overflow = {});
  /// A further copy of the parameter, or of a gradient, with or without scales.
  void writeCopy(Value value);
  /// A draw for what is stored to `stream`.
  Value draw(Ops ops, unsigned bits, unsigned store) const;
  void measured(llvm::StringRef key, Value value, bool always = false);
  /// Of how many elements a condition is true.
  Value countOf(Value condition, const llvm::Twine &name);
  Ops ops(const Argument &argument, llvm::StringRef stream) {
    return step.ops(argument.name + ".", storage.place(stream));
  }
  /// About the gradient.
  Ops ops() { return ops(grad, "grad"); }
  std::string suffix() const { return storage.set ? "_" + std::to_string(storage.set) : ""; }

  SetStorage storage;
  StepBuilder &step;
  RuleOp rule;
  Argument grad;
  Value gradient, unclipped;            // that the update takes; before it was clipped
  std::optional<Scope> clippedOver;     // what its norm is bounded by that of the parameter
  llvm::StringMap<Value> hypers;        // by the rule's names
  Value count;                          // the number of this step, if the rule counts
  RungValues rung;

private:
  llvm::StringRef nameOf(llvm::StringRef role) { return rule.getName(rule.getByRole(role)[0]); }
  int64_t setOfScalars() const { return storage.several ? int64_t(storage.set) : -1; }
  void clipToParameter();
  void takeHypers();
  void countStep();
  Value keptState(const Argument &state, Value list);
  mlir::FailureOr<Value> takeGivenScales(llvm::StringRef scales);
  Value saturated(Value value, FormatAttr format);
  Value norm(Value element, const llvm::Twine &name);
  Value loadRung(const Argument &param);
  Value storeRung(const Argument &param, Value change);
  void countFlips();
  void measureRungs();

  Value before, after; // the parameter, or its master
  Value code;          // what is stored of it
};

/// One stream whose codes have scales: how they are read and written.
class ScaledStream {
public:
  using Value = mlir::Value;
  ScaledStream(SetBuilder &set, const Argument &target, llvm::StringRef stream)
      : set(set), step(set.step), target(target), stream(stream), word(set.storage.word(stream)),
        codec(set.storage.codec(stream)), top(decode(codec, codec.maxCode())), ops(set.ops(target, stream)) {}

  /// Code times scale.
  Value loadBlocks(const Argument &scales);
  void storeBlocks(const Argument &scales, Value value);
  /// Scales of two levels, as NVFP4's.
  void storeTwoLevels(const Argument &scales, Value value);
  void storeSquares(Value value);
  void storeTensorScaled(Value value);
  /// The same numbers as in a copy by rows, each with its column's scale.
  static void storeColumns(SetBuilder &set, Value value);
  /// `number` of a state over `scale`, null for 1; where its word says so, at least what
  /// the smallest positive code is read as, if it is above 0.
  Value keptPositive(Value number, Value scale);

private:
  Value largestOf(Value number, bool finite);
  Value anyScale(const Argument &scales, Value largest);
  Value powerOfTwo(const Argument &scales, Value largest);
  Value inverseOf(Value scale);
  Value expand(Value number, Value unit);
  Value compress(Value number, Value scale);
  Value factorOf(Value largest, float top);
  Value powerBelow(Value factor);
  Value tensorScale(Value largest);
  Value largestOfHistory(Value newest);
  Value boundOfLargest(Value newest);
  void finish(Value scaled);

  SetBuilder &set;
  StepBuilder &step;
  Argument target;
  llvm::StringRef stream;
  const StorageWord &word;
  Format codec;
  float top; // the largest number of the format
  Ops ops;
  Value one, most, scaleCode; // 1; the largest f32; what is written to the scales
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_FRONTEND_SETBUILDER_H

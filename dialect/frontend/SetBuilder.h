// One set of tensors of a step: its streams, its update and what becomes of the results.
#ifndef ALTGRAD_DIALECT_FRONTEND_SETBUILDER_H
#define ALTGRAD_DIALECT_FRONTEND_SETBUILDER_H

#include "dialect/Codecs.h"
#include "dialect/frontend/SetStorage.h"
#include "dialect/frontend/StepBuilder.h"

namespace altgrad {

// Elements of a parameter in rungs: its code, its number where that is stored, how far the code is to be moved
// beside the change, the change, and what becomes of it.
struct CodeUpdate {
  mlir::Value code, number, shift, change, moved, up, beyond;
};

class BlockCodec;

class SetBuilder {
public:
  using Value = mlir::Value;
  SetBuilder(SetStorage storage, StepBuilder &step)
      : storage(std::move(storage)), step(step), rule(this->storage.rule) {}

  //===-- The gradient ------------------------------------------------------===//
  /// `changes`: without a rule it is written, too.
  void addGradient(bool changes);
  void dequantizeGradient();
  /// Returns whether all of it is finite.
  Value unscaleGradient(Value factor);
  /// Its gradient times a factor, a list that `word` names.
  void scaleBy(Value factor, const llvm::Twine &word = "clipped") { gradient = ops().scale(word, gradient, factor); }
  /// The gradient so far, as its format holds it and torch reads it again.
  void roundGradient(const llvm::Twine &word);
  /// A norm of each tensor's gradient, which the step says.
  Value addNorm(NormKind kind);

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
  Argument list(Access access, Role role, llvm::StringRef key, TensorsType type);
  /// One that is kept as the word about `stream` says.
  std::unique_ptr<BlockCodec> codec(Access access, Role role, llvm::StringRef key, llvm::StringRef stream);
  Argument scales(Access access, const Argument &of, llvm::StringRef stream, TensorsType type);
  /// A state of the rule that is a scalar, and whether this set writes it.
  std::pair<Argument, bool> scalarState(mlir::BlockArgument state);
  Argument scalar(Access access, Role role, llvm::StringRef key, mlir::Type type, Scope scope = Scope::Tensor,
                  mlir::FloatAttr fallback = {});
  /// `value` goes to `target`, rounded as the word about `stream` says where its format is
  /// not f32; `overflow` is for a word that says nothing of it.
  Value writeRounded(const Argument &target, Value value, llvm::StringRef stream,
                     std::optional<OverflowMode> overflow = {});
  /// A further copy of the parameter, or of a gradient, with or without scales.
  void writeCopy(Value value);
  /// A draw for what is stored to `stream`.
  Value draw(NamedOpBuilder ops, unsigned bits, unsigned store) const;
  void writeStatistic(llvm::StringRef key, Value value, bool always = false);
  /// Of how many elements a condition is true.
  Value countTrue(Value condition, const llvm::Twine &name);
  NamedOpBuilder ops(const Argument &argument, llvm::StringRef stream) {
    return step.ops(argument.name + ".", storage.getLocation(stream));
  }
  /// About the gradient.
  NamedOpBuilder ops() { return ops(grad, "grad"); }
  std::string suffix() const { return storage.set ? "_" + std::to_string(storage.set) : ""; }

  SetStorage storage;
  StepBuilder &step;
  RuleOp rule;
  Argument grad;
  Value gradient, unclipped;        // that the update takes; before it was clipped
  std::optional<Scope> clippedOver; // what its norm is bounded by that of the parameter
  llvm::StringMap<Value> hypers;    // by the rule's names
  Value count;                      // the number of this step, if the rule counts
  Value before, after;              // the parameter, or its master
  CodeUpdate rung;

private:
  llvm::StringRef getName(Role role) { return rule.getName(rule.getByRole(role)[0]); }
  int64_t setOfScalars() const { return storage.several ? int64_t(storage.set) : -1; }
  void clipToParameter();
  void addHypers();
  void countStep();
  mlir::FailureOr<Value> addGivenScales(llvm::StringRef scales);
  Value saturated(Value value, FormatAttr format);
  Value norm(Value element, const llvm::Twine &name);
  Value loadRung(const Argument &param);
  Value writeRung(const Argument &param, Value change);
  void countFlips();
  void measureRungs();

  Value code; // what is stored of the parameter
};

//===-- Scales of losses ----------------------------------------------------===//

using Sets = llvm::MutableArrayRef<SetBuilder>;

/// The names of their arguments.
void reserveOfScales(StepBuilder &step);
/// torch's protocol: the scale to divide by, and whether to skip.
void addScaler(StepBuilder &step, Sets sets);
/// A check of our own: skip where a gradient is not finite, and say so.
void addInverseScale(StepBuilder &step, Sets sets);
/// The same from the scale itself, and what becomes of it: arguments of role `scaler`.
void addLossScaler(StepBuilder &step, Sets sets, Scaler variant);
/// A step of scalars alone: what becomes of the scale by `found`.
mlir::OwningOpRef<StepOp> buildLossScale(mlir::MLIRContext &context, Scaler variant);
/// Counts the step in `skipped` unless `fine`.
void countSkipped(StepBuilder &step, mlir::Value fine);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_SETBUILDER_H

// A step while it is built: its signature, its operations, and what they write.
#ifndef ALTGRAD_DIALECT_FRONTEND_STEPBUILDER_H
#define ALTGRAD_DIALECT_FRONTEND_STEPBUILDER_H

#include "dialect/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace altgrad {

/// An argument of the step: its value, its name there, and what the rule calls it.
struct Argument {
  mlir::Value value;
  std::string name, key;
  TensorsType type() const { return llvm::cast<TensorsType>(value.getType()); }
};

/// Builds operations, one behind the other. Their places are that of the words that ask for them. Their names begin
/// with `prefix`; they are for readers alone, so two values may have one.
class NamedOpBuilder {
public:
  NamedOpBuilder(mlir::OpBuilder &builder, const llvm::Twine &prefix, mlir::Location loc)
      : builder(builder), prefix(prefix.str()), loc(loc) {}
  NamedOpBuilder named(const llvm::Twine &other) const { return NamedOpBuilder(builder, other, loc); }

  /// The place of an operation whose one result, or whose results, are called so.
  mlir::Location at(const llvm::Twine &name) const;
  mlir::Location at(llvm::ArrayRef<std::string> names) const;
  template <typename Op, typename... Args> mlir::Value make(const llvm::Twine &name, Args &&...args) const {
    return Op::create(builder, at(name), std::forward<Args>(args)...)->getResult(0);
  }
  template <typename Op, typename... Args> Op makeMany(llvm::ArrayRef<std::string> names, Args &&...args) const {
    return Op::create(builder, at(names), std::forward<Args>(args)...);
  }

  using Value = mlir::Value;
  using Name = const llvm::Twine &;
  Value number(Name name, double number, mlir::Type type) const {
    return make<mlir::arith::ConstantOp>(name, builder.getFloatAttr(type, number));
  }
  Value f32(Name name, float number) const { return this->number(name, number, builder.getF32Type()); }
  Value f64(Name name, double number) const { return this->number(name, number, builder.getF64Type()); }
  Value i64(Name name, int64_t number) const {
    return make<mlir::arith::ConstantOp>(name, builder.getI64IntegerAttr(number));
  }
  Value infinity(Name name) const { return f32(name, std::numeric_limits<float>::infinity()); }
  Value add(Name name, Value a, Value b) const { return make<mlir::arith::AddFOp>(name, a, b); }
  Value sub(Name name, Value a, Value b) const { return make<mlir::arith::SubFOp>(name, a, b); }
  Value mul(Name name, Value a, Value b) const { return make<mlir::arith::MulFOp>(name, a, b); }
  Value div(Name name, Value a, Value b) const { return make<mlir::arith::DivFOp>(name, a, b); }
  Value max(Name name, Value a, Value b) const { return make<mlir::arith::MaximumFOp>(name, a, b); }
  Value min(Name name, Value a, Value b) const { return make<mlir::arith::MinimumFOp>(name, a, b); }
  Value neg(Name name, Value a) const { return make<mlir::arith::NegFOp>(name, a); }
  Value abs(Name name, Value a) const { return make<mlir::math::AbsFOp>(name, a); }
  Value floor(Name name, Value a) const { return make<mlir::math::FloorOp>(name, a); }
  Value sqrt(Name name, Value a) const { return make<mlir::math::SqrtOp>(name, a); }
  Value fma(Name name, Value a, Value b, Value c) const { return make<mlir::math::FmaOp>(name, a, b, c); }
  Value extend(Name name, Value a) const { return make<mlir::arith::ExtFOp>(name, builder.getF64Type(), a); }
  Value truncate(Name name, Value a) const { return make<mlir::arith::TruncFOp>(name, builder.getF32Type(), a); }
  Value logicalAnd(Name name, Value a, Value b) const { return make<mlir::arith::AndIOp>(name, a, b); }
  Value compare(Name name, mlir::arith::CmpFPredicate how, Value a, Value b) const {
    return make<mlir::arith::CmpFOp>(name, how, a, b);
  }
  Value above(Name name, Value a, Value b) const { return compare(name, mlir::arith::CmpFPredicate::OGT, a, b); }
  Value below(Name name, Value a, Value b) const { return compare(name, mlir::arith::CmpFPredicate::OLT, a, b); }
  Value select(Name name, Value condition, Value a, Value b) const {
    return make<mlir::arith::SelectOp>(name, condition, a, b);
  }
  Value element(Name name, Value list) const { return make<ElementOp>(name, builder.getF32Type(), list); }
  Value collect(Name name, Value element, mlir::Type type = {}) const {
    return make<CollectOp>(name, type ? type : reals(), element, /*factor=*/Value());
  }
  Value scale(Name name, Value list, Value factor) const { return make<ScaleOp>(name, reals(), list, factor); }
  Value dequantize(Name name, Value tensors) const { return make<DequantizeOp>(name, reals(), tensors); }
  Value quantize(Name name, Value list, TensorsType type, Round round = Round::NearestEven,
                 OverflowMode overflow = OverflowMode::Saturate, Value draw = {}) const {
    return make<QuantizeOp>(name, type, list, round, draw, overflow, CompandingAttr());
  }
  /// Rounded toward zero: of what is above 0, the code at or below it.
  Value quantizeTowardZero(Name name, Value list, TensorsType type) const {
    return quantize(name, list, type, Round::TowardZero);
  }
  Value reduce(Name name, Reduction how, Value element, Scope over) const {
    return make<ReduceOp>(name, how, element, over);
  }
  /// The largest magnitude of a block, for each of its elements.
  Value largest(Name name, Value element, BlockAttr block) const {
    return make<ReduceOp>(name, Reduction::AbsMax, element, block);
  }
  /// Of lists, of each tensor or of all.
  Value norm(Name name, NormKind kind, mlir::ValueRange lists, Scope over) const {
    return make<NormOp>(name, builder.getF32Type(), kind, lists, over);
  }
  mlir::Type reals() const { return RealsType::get(builder.getContext()); }

  mlir::OpBuilder &builder;
  std::string prefix;

private:
  mlir::Location loc;
};

class StepBuilder {
public:
  /// `loc` is that of what concerns the step as a whole.
  StepBuilder(mlir::MLIRContext &context, mlir::Location loc);

  /// The names of the step's own arguments: a rule's are other ones.
  void reserve(llvm::ArrayRef<llvm::StringRef> names);
  /// A name that no other argument has: names of a rule may be any.
  std::string makeUniqueName(llvm::StringRef wanted);
  /// An argument behind those that there are; `set` is -1 for one of no set.
  mlir::Value argument(Access access, Role role, const Argument &names, mlir::Type type, Scope scope, int64_t set,
                       mlir::Location loc, mlir::FloatAttr fallback = {});
  /// One of the step as a whole, under its own name.
  mlir::Value scalar(Access access, Role role, llvm::StringRef name, mlir::Type type);
  mlir::Value scalar(llvm::StringRef name) const { return scalars.lookup(name); }
  /// A state or a hyper-parameter that `rule` has once for all of its sets, and whether this call has made it.
  std::pair<Argument, bool> getOrAddScalar(llvm::StringRef rule, Access access, Role role, llvm::StringRef key,
                                           mlir::Type type, mlir::Location loc, mlir::FloatAttr fallback);
  /// The seed of a step that draws, and how often it has drawn.
  void addSeed(bool always);

  void write(mlir::Value value, mlir::Value target) { writes.push_back({value, target}); }
  /// In place of what was to be written there before.
  void writeAlways(mlir::Value value, mlir::Value target);
  /// What was written from the `from`th on is written whatever was found.
  void moveToAlways(size_t from);
  size_t countWrites() const { return writes.size(); }

  /// What concerns the step as a whole: `clip.norm` and the like.
  NamedOpBuilder ops(const llvm::Twine &prefix) { return NamedOpBuilder(builder, prefix, loc); }
  NamedOpBuilder ops(const llvm::Twine &prefix, mlir::Location loc) { return NamedOpBuilder(builder, prefix, loc); }
  mlir::OwningOpRef<StepOp> finish(const llvm::Twine &name);

  mlir::Value condition; // of `write`; null: none
  mlir::Value count;     // of draws, with this step's
  mlir::Type f32, f64, i64;

private:
  using Writes = llvm::SmallVector<std::pair<mlir::Value, mlir::Value>>;
  mlir::Location loc;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<StepOp> step;
  mlir::Block *body;
  llvm::SmallVector<mlir::Attribute> signature;
  llvm::StringSet<> usedNames;
  llvm::StringMap<mlir::Value> scalars;
  std::map<std::pair<std::string, std::string>, Argument> ofRules; // by rule and key
  Writes writes, always;
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_STEPBUILDER_H

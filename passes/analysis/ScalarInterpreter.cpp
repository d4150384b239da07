// One operation after the other, in numbers.
#include "dialect/Arithmetic.h"
#include "passes/analysis/StoredUpdate.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace altgrad;

static bool isReal(Type type) { return isa<FloatType, RealsType, TensorsType>(type); }

std::optional<double> ScalarInterpreter::of(Value value) const {
  auto it = known.find(value);
  if (it == known.end())
    return std::nullopt;
  return isReal(value.getType()) ? it->second.real : it->second.integer;
}

double ScalarInterpreter::quantize(double number, QuantizeOp op) const {
  FormatAttr format = op.getTensors().getType().getFormat();
  if (exact || format.isF32())
    return number;
  // The draw of 16 bits is both halves of one of 32.
  bool wide = op.getDraw() && op.getDraw().getType().isInteger(32);
  Format known = format.toFormat();
  return decode(known, encode(known, float(number), Rounding(op.getRounding()), Overflow(op.getOverflow()),
                              /*saturated=*/nullptr, wide ? draw * 0x10001u : draw, wide ? 32 : 16));
}

// Lists, codes and blocks: a code stands for the number that it is decoded to.
std::optional<double> ScalarInterpreter::evaluateList(Operation &op) {
  auto number = [&](unsigned index) { return operand(op, index).real; };
  using Result = std::optional<double>;
  return llvm::TypeSwitch<Operation *, Result>(&op)
      .Case<DequantizeOp, ElementOp>([&](auto) { return number(0); })
      .Case<CollectOp>([&](CollectOp collect) { return collect.getFactor() ? number(0) * number(1) : number(0); })
      .Case<QuantizeOp>([&](QuantizeOp op) { return quantize(number(0), op); })
      .Case<ScaleOp>([&](auto) { return number(0) * number(1); })
      .Case<ScaledQuotientOp>([&](auto) { return number(0) / number(1); })
      .Case<JoinOp>([&](auto) { return number(0) + number(1); })
      .Case<UniformOp>([&](auto) { return double(draw * 0x10001u >> 8) * 0x1p-24; })
      .Case<ReduceOp>([&](ReduceOp op) -> Result {
        if (op.getReduction() == Reduction::And)
          return std::nullopt;
        if (op.getReduction() == Reduction::Count)
          return double(operand(*op, 0).integer);
        double one = op.getReduction() == Reduction::AbsMax ? std::fabs(number(0)) : number(0);
        if (op.getReduction() == Reduction::SumSq)
          return one * one;
        return op.isOverBlock() && op.getReduction() != Reduction::Add ? std::max(one, largest) : one;
      })
      .Default([](Operation *) { return std::nullopt; });
}

// The table of allowed operations says what most compute; the others have attributes, or numbers of two kinds.
std::optional<double> ScalarInterpreter::evaluateReal(Operation &op) {
  const AllowedOperation *row = findAllowedOperation(op);
  if (row && row->facts.real) {
    auto number = [&](unsigned index) { return index < op.getNumOperands() ? operand(op, index).real : 0; };
    return row->facts.real(number(0), number(1), number(2));
  }
  auto a = [&] { return operand(op, 0).real; };
  auto b = [&] { return operand(op, 1).real; };
  using Result = std::optional<double>;
  return llvm::TypeSwitch<Operation *, Result>(&op)
      .Case<arith::ConstantOp>([&](arith::ConstantOp op) { return cast<FloatAttr>(op.getValue()).getValueAsDouble(); })
      .Case<arith::SelectOp>([&](auto) { return operand(op, operand(op, 0).integer ? 1 : 2).real; })
      .Case<arith::SIToFPOp>([&](auto) { return double(operand(op, 0).integer); })
      .Case<math::FmaOp>([&](auto) {
        double c = operand(op, 2).real;
        bool wide = exact || op.getResult(0).getType().isF64();
        return wide ? std::fma(a(), b(), c) : double(std::fma(float(a()), float(b()), float(c)));
      })
      .Case<ApplyStepOp>([&](auto) { return std::fma(-operand(op, 2).real, b(), a() * (1 - operand(op, 3).real)); })
      .Case<ScaleByShapeOp>([](ScaleByShapeOp scale) { return scale.getBy() == ShapeScale::MatchRms ? 0.2 : 1.0; })
      .Case<math::FPowIOp>([&](auto) { return std::pow(a(), double(operand(op, 1).integer)); })
      .Default([&](Operation *) { return evaluateList(op); });
}

std::optional<int64_t> ScalarInterpreter::evaluateInteger(Operation &op) {
  auto a = [&] { return operand(op, 0).integer; };
  auto b = [&] { return operand(op, 1).integer; };
  const AllowedOperation *row = findAllowedOperation(op);
  if (row && row->facts.integer)
    return int64_t(row->facts.integer(a(), b()));
  using Result = std::optional<int64_t>;
  return llvm::TypeSwitch<Operation *, Result>(&op)
      .Case<arith::ConstantOp>([&](arith::ConstantOp op) {
        APInt value = cast<IntegerAttr>(op.getValue()).getValue();
        return op.getType().isInteger(1) ? int64_t(value.getZExtValue()) : value.getSExtValue();
      })
      .Case<arith::CmpFOp>([&](arith::CmpFOp compare) {
        return arith::applyCmpPredicate(compare.getPredicate(), APFloat(operand(op, 0).real),
                                        APFloat(operand(op, 1).real));
      })
      .Case<arith::CmpIOp>([&](arith::CmpIOp compare) {
        return arith::applyCmpPredicate(compare.getPredicate(), APInt(64, a(), /*isSigned=*/true),
                                        APInt(64, b(), /*isSigned=*/true));
      })
      .Case<arith::SelectOp>([&](auto) { return operand(op, a() ? 1 : 2).integer; })
      .Case<arith::FPToSIOp>([&](auto) -> Result {
        double number = operand(op, 0).real;
        if (!(std::fabs(number) < 0x1p63))
          return std::nullopt;
        return int64_t(number);
      })
      .Case<ReduceOp>([&](auto) { return a(); })
      .Case<DimOp>([](auto) { return 1; })
      .Case<IndexOp, TagOp>([](auto) { return 0; })
      .Case<DrawOp>([&](auto) { return draw; })
      .Default([](Operation *) { return std::nullopt; });
}

// 16 bits beside a bf16 lose nothing: the upper one stands for all.
bool ScalarInterpreter::evaluateSplit(Operation &op) {
  auto split = dyn_cast<SplitOp>(op);
  if (!split || !known.count(split.getValues()) || split.getLower().getType().getFormat().getBits() != 16)
    return false;
  set(split.getUpper(), operand(op, 0).real);
  set(split.getLower(), 0);
  return true;
}

void ScalarInterpreter::evaluate(Operation &op) {
  if (evaluateSplit(op) || op.getNumResults() != 1 || known.count(op.getResult(0)) ||
      !llvm::all_of(op.getOperands(), [&](Value value) { return known.count(value); }))
    return;
  Value result = op.getResult(0);
  if (!isReal(result.getType())) {
    if (std::optional<int64_t> number = evaluateInteger(op))
      setInteger(result, *number);
    return;
  }
  std::optional<double> number = evaluateReal(op);
  if (!number)
    return;
  bool rounds = !exact && !result.getType().isF64();
  set(result, rounds ? double(float(*number)) : *number);
}

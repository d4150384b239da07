// Magnitudes follow roots, quotients by scalars, sums and maxima; nothing else.
#include "codegen/numerics/Magnitudes.h"

#include "codegen/numerics/Quotients.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace altgrad;

// A chain of sums that share operands would otherwise take exponential time.
static constexpr unsigned farthest = 8;

Value altgrad::uniformOf(Value vector) {
  auto broadcast = vector.getDefiningOp<vector::BroadcastOp>();
  if (!broadcast || broadcast->getParentRegion() == broadcast.getSource().getParentRegion())
    return {};
  return broadcast.getSource();
}

static Magnitude magnitudeOf(const APFloat &value) {
  Magnitude all;
  all.negative = value.isNegative();
  if (value.isFiniteNonZero()) {
    all.low = ilogb(value);
    all.high = all.low + 1;
  }
  return all;
}

Magnitude Magnitudes::compute(Value value, llvm::SetVector<Value> &scalars, unsigned depth) const {
  auto ofOperand = [&](unsigned index) {
    return compute(value.getDefiningOp()->getOperand(index), scalars, depth + 1);
  };
  Magnitude result;
  Operation *op = value.getDefiningOp();
  DenseFPElementsAttr constant;
  if (!op || depth > farthest) {
  } else if (matchPattern(value, m_Constant(&constant)) && constant.isSplat()) {
    result = magnitudeOf(constant.getSplatValue<APFloat>());
  } else if (Value scalar = uniformOf(value)) {
    scalars.insert(scalar);
    result.negative = false;
    result.high = divisorLimit;
  } else if (isa<math::SqrtOp>(op)) {
    Magnitude x = ofOperand(0);
    result = {false, (x.low - 1) / 2, (x.high + 1) / 2};
  } else if (isa<math::AbsFOp>(op)) {
    result = ofOperand(0);
    result.negative = false;
  } else if (auto n = numerators.find(value); n != numerators.end()) {
    result = ofOperand(0);
    result.low -= divisorLimit;
    result.high += divisorLimit;
  } else if (isa<arith::AddFOp, arith::MaximumFOp>(op)) {
    Magnitude x = ofOperand(0), y = ofOperand(1);
    if (!x.negative && !y.negative)
      result = {false, std::min(x.low, y.low), std::max(x.high, y.high) + isa<arith::AddFOp>(op)};
  }
  result.low = std::max(result.low, -149);
  result.high = std::min(result.high, 128);
  if (tested.contains(value))
    result.low = std::max(result.low, leastTested);
  return result;
}

Magnitude Magnitudes::of(Value value, llvm::SetVector<Value> &scalars) const { return compute(value, scalars, 0); }

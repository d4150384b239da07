// What a value is computed from.
#ifndef ALTGRAD_DIALECT_WALKBACK_H
#define ALTGRAD_DIALECT_WALKBACK_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SetVector.h"

namespace altgrad {

/// Visits values and what they are computed from, each once and in order; `further` says whether to go on to the
/// operands of one.
inline void walkBack(mlir::ValueRange from, llvm::function_ref<bool(mlir::Value)> further) {
  llvm::SetVector<mlir::Value> seen(from.begin(), from.end());
  for (size_t i = 0; i < seen.size(); ++i) {
    mlir::Value value = seen[i];
    if (mlir::Operation *op = value.getDefiningOp(); further(value) && op)
      seen.insert_range(op->getOperands());
  }
}

} // namespace altgrad

#endif // ALTGRAD_DIALECT_WALKBACK_H

// The guard of quick bodies (SweepOps.td), from its beginning to its verdict.
#ifndef ALTGRAD_CODEGEN_GUARD_H
#define ALTGRAD_CODEGEN_GUARD_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace altgrad {

class Guard {
public:
  Guard(mlir::ImplicitLocOpBuilder &builder, int64_t width);
  /// A quick body's last arguments, and the last values that it emits.
  void appendTo(llvm::SmallVectorImpl<mlir::Value> &arguments);
  void takeFrom(llvm::SmallVectorImpl<mlir::Value> &emitted);
  /// Whether what was emitted is right, which it mostly is: i1.
  mlir::Value holds();
  /// `fast` where that holds; else what `exact` makes, of the same types.
  mlir::ResultRange
  choose(mlir::ValueRange fast,
         llvm::function_ref<llvm::SmallVector<mlir::Value>()> exact);

private:
  mlir::ImplicitLocOpBuilder &builder;
  mlir::Value low, sum; // of each element
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GUARD_H

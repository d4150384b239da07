// A sweep between bf16 streams alone, as AVX2 does it best: by the halves of
// words of 32 bits, and the last division in a pass of its own.
#ifndef ALTGRAD_CODEGEN_WORDSWEEP_H
#define ALTGRAD_CODEGEN_WORDSWEEP_H

#include "codegen/common/KernelBuilder.h"
#include "codegen/Target.h"

namespace altgrad {

class WordSweep {
public:
  static bool fits(SweepOp sweep, const Target &target);
  /// Whether the halves of words are what a sweep had better load.
  static bool takesHalves(SweepOp sweep, const Target &target);
  /// At the kernel's entry: takes memory on the stack.
  WordSweep(KernelBuilder &kernel, SweepOp sweep, const CpuTuning &tuning,
            mlir::Value ahead);

  /// The elements from 0 to `to`, a multiple of elementsAtOnce().
  void lower(mlir::Value to, llvm::ArrayRef<mlir::Value> loadPointers,
             llvm::ArrayRef<mlir::Value> storePointers,
             const mlir::IRMapping &known);
  int64_t elementsAtOnce() const { return 2 * width; }

private:
  enum class Pass { First, Last };

  void cut();
  void addOperands(llvm::SetVector<mlir::Value> &values);
  bool isIn(Pass pass, mlir::Value value) const;
  void lowerPass(Pass pass, mlir::Value from, mlir::Value to,
                 llvm::ArrayRef<mlir::Value> loadPointers,
                 llvm::ArrayRef<mlir::Value> storePointers,
                 const mlir::IRMapping &known);

  KernelBuilder &kernel;
  mlir::ImplicitLocOpBuilder &builder;
  SweepOp sweep;
  const CpuTuning &tuning;
  mlir::Block &body;
  int64_t width;
  mlir::Value ahead;
  // What each pass computes or loads; the first has everything where there is
  // no second. What varies is not the same for all elements.
  llvm::SetVector<mlir::Value> varying, first, last;
  llvm::SmallVector<mlir::Value> crossing; // from the first to the last
  llvm::SmallVector<mlir::Value> stash;    // memory of each
};

/// Asks for the memory `ahead` bytes after `at`.
void prefetchAhead(KernelBuilder &kernel, mlir::Value at, mlir::Value ahead);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_WORDSWEEP_H

// The partial sums that a lane of a GPU has of a chunk.
#ifndef ALTGRAD_CODEGEN_LANESUMS_H
#define ALTGRAD_CODEGEN_LANESUMS_H

#include "codegen/KernelBuilder.h"

namespace altgrad {

constexpr int64_t warpLanes = 32;
/// Elements that a lane computes at once: what the conversions to eight bits
/// take, and few enough for 64 registers.
constexpr int64_t groupWidth = 2;

/// In pairs, the elements of a group. A sum has 256 words in the 32 lanes of a
/// warp, four pairs in each. One sum has them in registers; several have them
/// in shared memory, where a thread touches its own words only: there is no
/// barrier, and no bank conflict.
class LaneSums {
public:
  LaneSums(KernelBuilder &kernel, SweepOp sweep, mlir::Value thread);

  /// What lies in registers; loops and branches carry it.
  using Carried = llvm::SmallVector<mlir::Value>;
  /// The sums of an empty chunk.
  Carried clear();
  unsigned pairs(unsigned result) const { return sums[result].pairs; }
  mlir::Value pair(const Carried &carried, unsigned result, unsigned number);
  void add(Carried &carried, unsigned result, unsigned number,
           mlir::Value group);
  /// Adds element `offset` of pair `first` and those after it.
  void addElement(Carried &carried, unsigned result, unsigned first,
                  unsigned count, mlir::Value offset, mlir::Value element);

private:
  struct Sum {
    Reduction kind;
    unsigned pairs;
    unsigned at; // in Carried, or bytes of shared memory
    bool shared;
  };
  mlir::VectorType pairType(Reduction kind);
  mlir::Value spread(mlir::Value value);
  mlir::Value allocate(unsigned bytes);
  mlir::Value address(const Sum &sum, unsigned number);

  KernelBuilder &kernel;
  mlir::ImplicitLocOpBuilder &builder;
  llvm::SmallVector<Sum> sums;
  mlir::Value own; // the thread's first pair in shared memory
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_LANESUMS_H

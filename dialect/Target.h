// The machines code is generated for, and what is tuned for each: a table.
#ifndef ALTGRAD_DIALECT_TARGET_H
#define ALTGRAD_DIALECT_TARGET_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace altgrad {

/// How far ahead a sweep prefetches is the runtime's choice, for the CPU it
/// finds.
struct CpuTuning {
  // What widens 16 bits to 32 and narrows them crosses lanes of a vector and is slow: sweeps of bf16 alone take the
  // halves of 32-bit words for vectors. There so many divisions and square roots in a row are more than
  // the CPU looks ahead, and the last one waits for a second pass. 0: none are.
  unsigned serialDivisions;
  // Elements of a pass, a power of two: what crosses to the second stays in L1.
  unsigned passElements;
  // Vectors of sums that a sweep has in registers; what else it computes with
  // needs the others.
  unsigned sumRegisters;
  // A root's quotient by a scalar is faster by products than by a division.
  bool fastQuotients;
  // Sixteen numbers find their place in a code book by permutations.
  bool fastBooks;
  // Of a thread's stack, for the draws of a chunk: threads have 8 MB as a rule, and
  // 2 MB where OpenMP starts them.
  int64_t drawBytes = 512 << 10;
  // A sweep that only sums goes through a row of 256 elements at once where its body is
  // no longer: each vector has a copy of it. By tools/bench.py on Zen 4.
  size_t rowOperations = 32;
  // Sums in any order, or conjunctions, that need not wait for each other.
  size_t chains = 4;
};

/// The tile of a product that a block of threads computes: rows and columns of the result, terms of sums of a stage
/// in shared memory, the stages, a power of two, and how many warps lie below each other and side by side.
struct ProductTuning {
  int64_t rows, columns, depth, stages, down, across;
};

struct GpuTuning {
  // Bytes of a thread's load or store: the longest there is.
  unsigned accessBytes = 16;
  // Registers for pointers, uniform numbers and codes that wait for others of
  // their access. Numbers beyond that wait in shared memory, or a kernel takes
  // more than 64.
  unsigned uniformRegisters = 24;
  // As many fewer where a thread needs others: to find several sums in shared
  // memory, or draws, or for accesses that end at different elements.
  unsigned otherRegisters = 8;
  // Bytes of a thread's loads that come before the first of them is used, where a
  // warp does a chunk.
  unsigned bytesAhead = 128;
  // Bytes of shared memory for a block: four are at home on a multiprocessor, of
  // 100 KB, or of 164 and more.
  unsigned sharedBytes = 24 << 10;
  // Shared memory that a block may have: named in the kernel, and with what its launch
  // adds. CUDA C++ Programming Guide, technical specifications by compute capability.
  unsigned staticSharedBytes = 48 << 10, blockSharedBytes = 99 << 10;
  // Blocks on a multiprocessor that ptxas must make room for: four leave 64
  // registers. One fewer where a sweep needs more. Without a number it aims at
  // eight, and unrolls the loops of folds and scalars until they have as many registers as they may.
  unsigned residentBlocks = 4;
  // Of a square's tile, which takes 64 KB of shared memory.
  unsigned residentSquare = 3;
  // Registers that a sweep keeps throughout a chunk before it has one block fewer: for
  // the shared values of each block reduction, and for each of several sums beside draws
  // or a master in two parts, without and with a guard. By ptxas's spills of stock steps.
  unsigned pinnedRegisters = 22, registersPerBlockReduction = 8, registersPerSum = 2, registersPerGuardedSum = 8;
  // Words that may be loaded before their time where values wait in shared memory, of
  // which a search in a code book takes some, and a guard. By ptxas's spills at 80 registers.
  unsigned aheadWords = 52, wordsPerSearch = 11, wordsPerGuard = 10;
  // Rounds of a block whose loads are prefetched before it has its scalars; the bytes
  // that one prefetch brings.
  int64_t prefetchedRounds = 0, lineBytes = 128;
  // Sums of a sweep beyond which its guard is asked for each vector.
  unsigned guardedSums = 4;
  // Rows of a chunk that a warp loads before the first of them is used, at most.
  int64_t rowsAhead = 4;
  // Partial sums of a tensor that are one thread's, and those that want a block; and
  // how many a thread loads before it adds them. By the model of tests/gpumodel.
  int64_t fewChunks = 8, manyChunks = 16384, partialsAhead = 8;
  // 96 of 176 tiles are computed for 2048 x 2048: one for each of 108 or 132 multiprocessors. By the model.
  ProductTuning products = {/*rows=*/128, /*columns=*/192, /*depth=*/32,
                            /*stages=*/4, /*down=*/2,      /*across=*/4};
};

struct Target {
  llvm::StringLiteral name;   // as on the command line, and as LLVM knows the chip
  llvm::StringLiteral suffix; // of a host kernel's symbol; "" for PTX
  llvm::StringLiteral ptx;    // lowest PTX version of the chip; "" for a CPU
  bool convertsFp8;           // packed f32 to e4m3 and e5m2 in hardware
  bool overlapsLaunches;      // griddepcontrol, which LLVM aborts at elsewhere
  // Elements that a sweep's wide body computes: f32 in a CPU's register; on a
  // GPU the operand of conversions to 8 bits, and few enough for 64 registers:
  // a power of two up to accessBytes / 4.
  unsigned vectorWidth;
  CpuTuning cpu; // of PTX: nothing
  GpuTuning gpu; // of a CPU: unused

  bool isPtx() const { return !ptx.empty(); }
};

llvm::ArrayRef<Target> getTargets();

/// Null for an unknown name.
const Target *findTarget(llvm::StringRef name);
/// Emits an error, too.
const Target *findTarget(llvm::StringRef name, mlir::Operation *op);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_TARGET_H

// The words of a storage line: which stream is stored how.
#ifndef ALTGRAD_CODEGEN_DRIVER_STORAGE_H
#define ALTGRAD_CODEGEN_DRIVER_STORAGE_H

#include "dialect/Dialect.h"
#include <optional>
#include <string>

namespace altgrad {

/// How the power of two is chosen that scales a block, as MX formats have it.
enum class ScaleRule { RCeil, Floor, Ceil, Even };

/// By what the one scale of a copy without blocks is chosen: the largest numbers of
/// past steps, this step's, or what this step's cannot pass.
enum class TensorScale { None, Delayed, Current, Bounded };

/// How a state's share of its block's largest number is bent before it becomes a code,
/// as FlashOptim's: 2x / (1 + |x|), or the root.
enum class Companding { None, Softsign, Sqrt };

/// "m=ocp.e4m3fn:128,stochastic,nonfinite": 128 elements share a scale; what is said
/// behind a comma is how what lies between two codes, or beyond the last, is stored.
/// "copy=ocp.e4m3fn,delayed,pow2": one scale for a tensor; "delayed:16", by the largest
/// number of 16 steps.
/// "copy=mxfp8,both": blocks of rows, and beside them blocks of columns.
/// "copy=ocp.e4m3fn:128x128", "copy=ocp.e4m3fn:128x128,pow2": blocks of rows and columns.
/// "copy=ocp.e4m3fn:32:ocp.e8m0,floor", or "copy=mxfp8,floor": scales are powers of two.
/// "m=int8:32:f16,softsign": scales are in f16, codes are of bent numbers.
/// "v=bnb8u:256,keep_positive": a number above 0 is not stored as 0.
struct StorageWord {
  std::string text; // all of it
  unsigned column = 1; // in the line, from 1
  std::string stream, format;
  std::optional<std::string> block;     // as it was written
  std::optional<std::string> scale;     // its format; f32 where nothing is said
  std::optional<ScaleRule> rule;        // rceil where nothing is said
  Companding companding = Companding::None;
  std::optional<Round> round;           // nearest_even where nothing is said
  unsigned drawBits = 16;               // 32 of stochastic32
  std::optional<OverflowMode> overflow; // what suits the format
  bool reference = false; // of rungs: draws as GridOptim's source adds them
  TensorScale tensorScale = TensorScale::None;
  unsigned history = 1; // steps that a delayed scale looks back
  bool keepPositive = false; // what is above 0 is at least the smallest code's number
  bool both = false;    // blocks of columns beside those of rows
  bool pow2 = false;    // that scale, or each of squares, is rounded down to a power of two
  bool squares() const { return block == "128x128"; }
  bool hasModifiers() const { return round || overflow || reference; }
};

/// Why a line is not one of storage, and where in it, from 1; `why` is "" where it is.
struct StorageProblem {
  unsigned column = 1;
  std::string why;
};

/// Reads the words of a line. Whether streams and formats are known is for the caller
/// to say.
StorageProblem readStorageLine(llvm::StringRef line, llvm::SmallVectorImpl<StorageWord> &words);

/// What a word may name beside a rule's states and its step count.
llvm::ArrayRef<llvm::StringRef> commonStorageWords();

/// What words may name for a rule that stores `states`: its streams, `states` for all of
/// them, and `step` where it counts steps.
llvm::SmallVector<llvm::StringRef> storageWordsOf(RuleOp rule, llvm::ArrayRef<llvm::StringRef> states);

/// Why `word` has no format that is known: "unknown format 'e4m3'; did you mean ...".
std::string unknownFormat(llvm::StringRef word);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_STORAGE_H

// The words of a storage line: which stream is stored how.
#ifndef ALTGRAD_CODEGEN_DRIVER_STORAGE_H
#define ALTGRAD_CODEGEN_DRIVER_STORAGE_H

#include "dialect/Dialect.h"
#include <optional>
#include <string>

namespace altgrad {

/// "m=ocp.e4m3fn:128,stochastic,nonfinite": 128 elements share a scale; what is said
/// behind a comma is how what lies between two codes, or beyond the last, is stored.
struct StorageWord {
  std::string stream, format;
  std::optional<std::string> block;     // as it was written
  std::optional<Round> round;           // nearest_even where nothing is said
  std::optional<OverflowMode> overflow; // what suits the format
  bool reference = false; // of rungs: draws as GridOptim's source adds them
  bool hasModifiers() const { return round || overflow || reference; }
};

/// Returns why `text` is no such word, or "". Whether stream and format are
/// known is for the caller to say.
std::string readStorageWord(llvm::StringRef text, StorageWord &word);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_STORAGE_H

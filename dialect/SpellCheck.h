// Names that are nearly right.
#ifndef ALTGRAD_DIALECT_SPELLCHECK_H
#define ALTGRAD_DIALECT_SPELLCHECK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace altgrad {

/// The word of `known` that is spelled nearly as `word` is, or "".
llvm::StringRef closestSpelling(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> known);

/// "; did you mean 'report'? There are mlir, report", or "; there are mlir, report".
std::string describeChoices(llvm::StringRef word, llvm::ArrayRef<llvm::StringRef> known);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_SPELLCHECK_H

// Reading text that may be hostile.
#ifndef ALTGRAD_CODEGEN_READSPEC_H
#define ALTGRAD_CODEGEN_READSPEC_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace altgrad {

/// Why `text` is not even parsed: over 1 MiB, bytecode, a NUL, an affine
/// map, brackets nested deeper than 64. Empty if it may be. `line` and `column` say where.
std::string refuseSpec(llvm::StringRef text, unsigned &line, unsigned &column);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_READSPEC_H

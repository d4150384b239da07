// Diagnostics of the command line, and products in files.
#ifndef ALTGRAD_CODEGEN_DRIVER_OUTPUT_H
#define ALTGRAD_CODEGEN_DRIVER_OUTPUT_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace altgrad {

/// Says why on stderr; 1, the exit code.
int complain(const llvm::Twine &words);
/// Writes to `path`, stdout for "-". Exit code: 0, or 1 after a diagnostic.
int writeProduct(llvm::StringRef product, const std::string &path);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_OUTPUT_H

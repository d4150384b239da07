// Reading text that may be hostile.
#ifndef ALTGRAD_DIALECT_FRONTEND_READSPEC_H
#define ALTGRAD_DIALECT_FRONTEND_READSPEC_H

#include "llvm/Support/VirtualFileSystem.h"
#include <string>

namespace altgrad {

/// Text that may be parsed, or one sentence on why there is none. `line` and
/// `column` say where in the text that is; 0 if it could not be read at all.
struct Spec {
  std::string text, why;
  unsigned line = 0, column = 0;
};

/// Reads a regular file, or stdin for "-", no further than the limits: 1 MiB, text
/// without a NUL and an affine map, brackets nested no deeper than 64, aliases written
/// out, and numbers of at most 1000 characters.
Spec readSpec(llvm::StringRef path);

/// The files from which diagnostics quote a line: regular ones within the limit.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> quotedFiles();

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_READSPEC_H

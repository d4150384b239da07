// Which altgrad-opt is used, what identifies it in a cache key, and its run.
#ifndef ALTGRAD_RUNTIME_COMPILER_H
#define ALTGRAD_RUNTIME_COMPILER_H

#include "altgrad/altgrad.h"

#include <string>
#include <vector>

namespace altgrad::runtime {

struct Compiler {
  std::string path;
  std::string identity; // the linker's build id, or the digest of a file that has none
};

// `given`, or $ALTGRAD_OPT, beside this library, on PATH.
altgrad_status findCompiler(const char *given, Compiler &out);

// The folder that this library lies in; "" where that is not known for sure.
std::string libraryFolder();

// Runs it; `spec` may be null. `out` is the bundle that it wrote.
altgrad_status runCompiler(const Compiler &compiler, const std::vector<std::string> &options, const char *spec,
                           uint64_t size, std::vector<char> &out);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_COMPILER_H

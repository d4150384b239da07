// Which altgrad-opt is used, and what identifies it in a cache key.
#ifndef ALTGRAD_RUNTIME_COMPILER_H
#define ALTGRAD_RUNTIME_COMPILER_H

#include "altgrad/altgrad.h"

#include <string>
#include <vector>

namespace altgrad::runtime {

struct Compiler {
  std::string path;
  std::string identity; // path, size, time and the words of --version
};

// `given`, or $ALTGRAD_OPT, beside this library, on PATH.
altgrad_status findCompiler(const char *given, Compiler &out);

// Names and digests of the rules that these options let the compiler read; a
// template that changes must change the key.
std::string ruleIdentity(const Compiler &compiler,
                         const std::vector<std::string> &options);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_COMPILER_H

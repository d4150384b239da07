// Limits on a spec, checked before MLIR's parser, which recurses without one.
#include "codegen/ReadSpec.h"

using namespace altgrad;

static constexpr size_t maxBytes = 1 << 20;
static constexpr int maxDepth = 64;

std::string altgrad::refuseSpec(llvm::StringRef text, unsigned &line,
                                unsigned &column) {
  line = column = 1;
  if (text.size() > maxBytes)
    return "spec has " + std::to_string(text.size()) + " bytes, at most " +
           std::to_string(maxBytes) + " are read";
  if (text.starts_with("ML\xefR"))
    return "spec is bytecode, expected text";
  int depth = 0;
  bool quoted = false, comment = false;
  char last = 0;
  for (char c : text) {
    if (c == '\0')
      return "spec contains a NUL";
    if (c == '\n') {
      ++line;
      column = 0;
      comment = false;
    }
    comment |= !quoted && c == '/' && last == '/';
    if (!comment && c == '"' && last != '\\')
      quoted = !quoted;
    if (!comment && !quoted) {
      if (c == '(' || c == '[' || c == '{' || c == '<')
        ++depth;
      else if (c == ')' || c == ']' || c == '}' || (c == '>' && last != '-'))
        depth = depth > 0 ? depth - 1 : 0;
      if (depth > maxDepth)
        return "brackets nested deeper than " + std::to_string(maxDepth);
    }
    last = c;
    ++column;
  }
  return "";
}

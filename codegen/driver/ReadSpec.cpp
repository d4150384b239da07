// Limits on a spec, checked before MLIR's parser, which recurses without one.
#include "codegen/driver/ReadSpec.h"

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
  bool quoted = false, comment = false, escaped = false;
  char last = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\0')
      return "spec contains a NUL";
    if (c == '\n') { // ends a comment, and no string crosses it
      ++line;
      column = 0;
      comment = quoted = escaped = false;
    } else if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (!comment) {
      comment = c == '/' && last == '/';
      quoted = c == '"';
      if (c == '(' || c == '[' || c == '{' || c == '<')
        ++depth;
      else if (c == ')' || c == ']' || c == '}' || (c == '>' && last != '-'))
        depth = depth > 0 ? depth - 1 : 0;
      if (depth > maxDepth)
        return "brackets nested deeper than " + std::to_string(maxDepth);
      // MLIR's parser of affine expressions recurses without any bracket.
      if (text.substr(i).starts_with("affine_map") ||
          text.substr(i).starts_with("affine_set"))
        return "spec contains an affine map or set";
    }
    last = c;
    ++column;
  }
  return "";
}

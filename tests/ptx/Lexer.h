// Splits PTX text into tokens, each with its line.
#ifndef ALTGRAD_TESTS_PTX_LEXER_H
#define ALTGRAD_TESTS_PTX_LEXER_H

#include <cstdint>
#include <string>
#include <vector>

namespace ptx {

struct Token {
  enum Kind : uint8_t {
    Word,
    Integer,
    Float32,
    Float64,
    String,
    Punctuation,
    End
  };
  Kind kind;
  unsigned line;
  std::string text;
  uint64_t value = 0; // bits of a number
};

/// Throws ParseError on a character PTX does not have.
std::vector<Token> tokenize(const std::string &text);

} // namespace ptx

#endif

// Turns PTX text into a Module, or refuses it with a line.
#ifndef ALTGRAD_TESTS_PTX_PARSER_H
#define ALTGRAD_TESTS_PTX_PARSER_H

#include "Lexer.h"
#include "Program.h"

namespace ptx {

/// Throws ParseError.
std::unique_ptr<Module> parseModule(const std::string &text);

/// What the module and the body parser share: a cursor over tokens, the names
/// in scope, and the layout of variables.
class TokenCursor {
public:
  explicit TokenCursor(const std::vector<Token> &tokens) : tokens(tokens) {}

  const Token &peek(size_t ahead = 0) const {
    size_t at = position + ahead;
    return tokens[at < tokens.size() ? at : tokens.size() - 1];
  }
  const Token &take() {
    const Token &t = peek();
    if (position + 1 < tokens.size())
      ++position;
    return t;
  }
  bool is(const char *text, size_t ahead = 0) const {
    const Token &t = peek(ahead);
    return (t.kind == Token::Word || t.kind == Token::Punctuation) &&
           t.text == text;
  }
  bool accept(const char *text) {
    if (!is(text))
      return false;
    take();
    return true;
  }
  void expect(const char *text) {
    if (!accept(text))
      failNext(std::string("expected '") + text + "'");
  }
  std::string word(const char *what);
  uint64_t integer(const char *what);
  /// The line of the token taken last.
  unsigned line() const { return tokens[position ? position - 1 : 0].line; }
  [[noreturn]] void fail(const std::string &what) const {
    throw ParseError(line(), what);
  }
  /// About the token to come.
  [[noreturn]] void failNext(const std::string &what) const {
    throw ParseError(peek().line, what + " before '" + peek().text + "'");
  }

private:
  const std::vector<Token> &tokens;
  size_t position = 0;
};

/// Bits of a type name such as `.b32` or `.f16x2`; 1 for `.pred`.
unsigned typeBits(TokenCursor &, const std::string &type);

/// `[.align n] .type name [ '[' n ']' ] [ = initialiser ]`, up to the `;`.
struct Declaration {
  std::string name;
  uint64_t alignment = 1, bytes = 0;
  bool isUnsized = false;
  std::vector<uint8_t> initial;
};
Declaration parseDeclaration(TokenCursor &);

inline uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Dynamic shared memory has a place of its own, whatever the static size.
constexpr uint64_t DynamicSharedBase = SharedBase + 0x800000;

using Variables = std::map<std::string, Variable>;

/// Parses `{ ... }` of an entry; the cursor stands on the brace.
void parseBody(TokenCursor &, Kernel &, const Variables &moduleVariables);

} // namespace ptx

#endif

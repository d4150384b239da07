// Words of a rule in short text.
#ifndef ALTGRAD_DIALECT_FRONTEND_RULELEXER_H
#define ALTGRAD_DIALECT_FRONTEND_RULELEXER_H

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

namespace altgrad {

struct RuleToken {
  enum Kind { Name, Number, Sign, NewLine, End } kind = End;
  llvm::StringRef text;
  bool is(llvm::StringRef word) const { return kind != NewLine && kind != End && text == word; }
};

/// Splits a text. Lines end statements, but not within parentheses or behind a sign that wants another operand.
class RuleLexer {
public:
  explicit RuleLexer(llvm::StringRef text) : rest(text), end(text.take_back(0)) {}
  RuleToken next(bool linesEnd);
  /// What follows the last token: its first character that is no blank of the line.
  char peek() const { return rest.ltrim(" \t\r").empty() ? '\0' : rest.ltrim(" \t\r").front(); }
  bool peekIs(llvm::StringRef text) const { return rest.ltrim(" \t\r").starts_with(text); }
  /// Everything up to a comma, a closing parenthesis or a blank, as one word.
  RuleToken nextWord();
  /// Nothing follows any more.
  void stop() { rest = end; }

private:
  RuleToken take(RuleToken::Kind kind, size_t size);
  llvm::StringRef rest, end;
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_RULELEXER_H

// Text ==> words, numbers and signs.
#include "dialect/frontend/RuleLexer.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

using namespace altgrad;
using llvm::StringRef;

static constexpr StringRef longSigns[] = {"<=", ">=", "==", "!=", "**", "+=", "-=", "*=", "/=", "&&", "||"};

static bool isNameCharacter(char c) { return llvm::isAlnum(c) || c == '_'; }

RuleToken RuleLexer::take(RuleToken::Kind kind, size_t size) {
  RuleToken token{kind, rest.take_front(size)};
  rest = rest.drop_front(size);
  return token;
}

// "1e-3": a sign belongs to a number behind its e.
static size_t findNumberEnd(StringRef text) {
  size_t at = 0;
  while (at < text.size() && (isNameCharacter(text[at]) || text[at] == '.' ||
                              ((text[at] == '-' || text[at] == '+') && at && (text[at - 1] | 32) == 'e')))
    ++at;
  return at;
}

RuleToken RuleLexer::next(bool linesEnd) {
  StringRef line;
  while (true) {
    rest = rest.ltrim(" \t\r");
    if (rest.starts_with("//"))
      rest = rest.drop_front(std::min(rest.find('\n'), rest.size()));
    if (!rest.starts_with("\n"))
      break;
    line = line.empty() ? rest.take_front(1) : line;
    rest = rest.drop_front();
  }
  if (!line.empty() && linesEnd)
    return {RuleToken::NewLine, line};
  if (rest.empty())
    return {RuleToken::End, end};
  if (llvm::isAlpha(rest[0]) || rest[0] == '_')
    return take(RuleToken::Name, rest.take_while(isNameCharacter).size());
  if (llvm::isDigit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && llvm::isDigit(rest[1])))
    return take(RuleToken::Number, findNumberEnd(rest));
  for (StringRef sign : longSigns)
    if (rest.starts_with(sign))
      return take(RuleToken::Sign, 2);
  return take(RuleToken::Sign, std::min<size_t>(llvm::getNumBytesForUTF8(rest[0]), rest.size()));
}

RuleToken RuleLexer::nextWord() {
  rest = rest.ltrim();
  return take(RuleToken::Name, std::min(rest.find_first_of(",) \t\r\n"), rest.size()));
}

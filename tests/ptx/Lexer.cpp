// The lexer: words keep their dots, so that an opcode with its modifiers is one
// token.
#include "Lexer.h"
#include "Program.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

using namespace ptx;

namespace {

class Scanner {
public:
  explicit Scanner(const std::string &text) : text(text) {}

  std::vector<Token> run() {
    while (skipBlanks()) {
      char c = peek();
      if (isWordStart(c))
        word();
      else if (std::isdigit(static_cast<unsigned char>(c)))
        number();
      else if (c == '"')
        string();
      else if (std::strchr("{}[](),;:<>=+-!|@", c))
        emit(Token::Punctuation, std::string(1, text[position++]));
      else
        fail("unexpected character " + quoted(c));
    }
    emit(Token::End, "end of text");
    return std::move(tokens);
  }

private:
  char peek(size_t ahead = 0) const {
    return position + ahead < text.size() ? text[position + ahead] : '\0';
  }
  [[noreturn]] void fail(const std::string &what) const {
    throw ParseError(line, what);
  }
  static std::string quoted(char c) {
    if (std::isprint(static_cast<unsigned char>(c)))
      return std::string("'") + c + "'";
    return "byte " + std::to_string(static_cast<unsigned char>(c));
  }
  void emit(Token::Kind kind, std::string s, uint64_t value = 0) {
    tokens.push_back({kind, line, std::move(s), value});
  }

  static bool isWordStart(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) || c == '_' ||
           c == '$' || c == '%' || c == '.';
  }
  static bool isWordPart(char c) {
    return isWordStart(c) || std::isdigit(static_cast<unsigned char>(c));
  }

  /// False at the end of the text.
  bool skipBlanks() {
    for (;;) {
      if (position >= text.size())
        return false;
      char c = text[position];
      if (c == '\n') {
        ++line;
        ++position;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++position;
      } else if (c == '/' && peek(1) == '/') {
        while (position < text.size() && text[position] != '\n')
          ++position;
      } else if (c == '/' && peek(1) == '*') {
        size_t end = text.find("*/", position + 2);
        if (end == std::string::npos)
          fail("comment is never closed");
        for (; position < end + 2; ++position)
          line += text[position] == '\n';
      } else {
        return true;
      }
    }
  }

  void word() {
    size_t start = position;
    for (;;) {
      if (isWordPart(peek()))
        ++position;
      else if (peek() == ':' && peek(1) == ':') // L1::no_allocate
        position += 2;
      else
        break;
    }
    emit(Token::Word, text.substr(start, position - start));
  }

  uint64_t digits(int base, size_t start, size_t end) {
    if (start == end)
      fail("number without digits");
    uint64_t value = 0;
    for (size_t i = start; i < end; ++i) {
      char c = text[i];
      int digit = std::isdigit(static_cast<unsigned char>(c)) ? c - '0'
                  : std::isxdigit(static_cast<unsigned char>(c))
                      ? (c | 32) - 'a' + 10
                      : 99;
      if (digit >= base)
        fail("bad digit " + quoted(c) + " in a number");
      if (value > (~uint64_t(0) - unsigned(digit)) / unsigned(base))
        fail("number does not fit 64 bits");
      value = value * unsigned(base) + unsigned(digit);
    }
    return value;
  }

  void number() {
    size_t start = position;
    // Takes too much rather than too little: 12ab is an error, not 12 and ab.
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '.' ||
           ((peek() == '+' || peek() == '-') && isDecimalExponent(start)))
      ++position;
    std::string s = text.substr(start, position - start);
    char second = s.size() > 1 ? char(s[1] | 32) : '\0';
    if (s[0] == '0' && (second == 'f' || second == 'd')) {
      if (s.size() != (second == 'f' ? 10u : 18u))
        fail("'" + s + "' needs " + (second == 'f' ? "8" : "16") +
             " hexadecimal digits");
      emit(second == 'f' ? Token::Float32 : Token::Float64, s,
           digits(16, start + 2, position));
      return;
    }
    if (second != 'x' && s.find_first_of(".eE") != std::string::npos) {
      decimalFloat(s);
      return;
    }
    // LLVM marks unsigned hexadecimal numbers with a U.
    size_t end = position - (s.back() == 'U');
    if (second == 'x')
      emit(Token::Integer, s, digits(16, start + 2, end));
    else if (second == 'b')
      emit(Token::Integer, s, digits(2, start + 2, end));
    else if (s[0] == '0' && end - start > 1)
      emit(Token::Integer, s, digits(8, start + 1, end));
    else
      emit(Token::Integer, s, digits(10, start, end));
  }

  /// True after the `e` of a decimal number, never inside 0x1e.
  bool isDecimalExponent(size_t start) const {
    return position > start && (text[position - 1] | 32) == 'e' &&
           (text[start + 1] | 32) != 'x' && (text[start + 1] | 32) != 'f' &&
           (text[start + 1] | 32) != 'd';
  }

  void decimalFloat(const std::string &s) {
    char *end = nullptr;
    // glibc rounds correctly, and the process never leaves round-to-nearest.
    double d = std::strtod(s.c_str(), &end);
    if (*end)
      fail("malformed number '" + s + "'");
    uint64_t bits;
    std::memcpy(&bits, &d, sizeof bits);
    emit(Token::Float64, s, bits);
  }

  void string() {
    size_t end = text.find_first_of("\"\n", position + 1);
    if (end == std::string::npos || text[end] == '\n')
      fail("string is never closed");
    emit(Token::String, text.substr(position + 1, end - position - 1));
    position = end + 1;
  }

  const std::string &text;
  size_t position = 0;
  unsigned line = 1;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> ptx::tokenize(const std::string &text) {
  return Scanner(text).run();
}

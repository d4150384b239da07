// Limits on a spec, checked before MLIR's parser, which recurses without one.
#include "dialect/frontend/ReadSpec.h"
#include "dialect/frontend/RuleText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad;

static constexpr size_t maxBytes = 1 << 20;
static constexpr int maxDepth = 64;
static constexpr size_t maxNumber = 1000;

namespace {
// Reads a spec once, character by character, as far as its limits are concerned.
class Limits {
public:
  explicit Limits(llvm::StringRef text) : text(text) {}
  std::string check(); // why it is not even parsed; empty if it may be
  unsigned line = 1, column = 1;

private:
  struct Alias {
    size_t size = 0; // with every alias in it written out
    int depth = 0;   // of brackets, counted in the same way
  };
  std::string code(size_t at);
  std::string alias(size_t at);
  void endDefinition(size_t at);
  bool beginsLocation(size_t at) const;

  llvm::StringRef text;
  int depth = 0;
  size_t expanded = 0; // bytes so far, aliases written out
  char last = 0, lastInk = 0;
  bool fresh = true; // nothing stands on this line yet
  bool inWord = false;
  size_t number = 0; // characters of a number so far
  llvm::StringMap<Alias> aliases;
  llvm::StringRef defined; // the alias whose definition this is, or ""
  size_t definedFrom = 0;  // `expanded` where it began
  int definedDepth = 0;    // its deepest bracket
};
} // namespace

static bool isNameCharacter(char c) { return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.' || c == '-'; }

// A definition ends before a word of its own at the start of a line.
void Limits::endDefinition(size_t at) {
  bool more = lastInk == '=' || lastInk == ':' || lastInk == ',' || lastInk == '>';
  if (defined.empty() || depth > 0 || (llvm::isAlpha(text[at]) && more))
    return;
  aliases[defined] = {expanded - definedFrom, definedDepth};
  defined = "";
}

// A diagnostic quotes the line of its place, from whatever file a location names: a text must not choose that file.
// A number or %0 ends where a keyword begins.
bool Limits::beginsLocation(size_t at) const {
  llvm::StringRef name = text.substr(at).take_while(isNameCharacter);
  return name.take_while([](char c) { return c != '-'; }) == "loc" && (!inWord || number) &&
         !llvm::StringRef("%@#!^$").contains(last);
}

// #name or !name: an alias that is defined here, one that is used, or neither.
std::string Limits::alias(size_t at) {
  llvm::StringRef name = text.substr(at, 1 + text.substr(at + 1).take_while(isNameCharacter).size());
  llvm::StringRef rest = text.substr(at + name.size()).ltrim();
  if (depth == 0 && rest.starts_with("=")) {
    endDefinition(at);
    defined = name;
    definedFrom = expanded;
    definedDepth = 0;
    return "";
  }
  auto known = aliases.find(name);
  if (known == aliases.end())
    return fresh && text[at] == '#' && !name.contains('.') && !text.substr(at + 1).starts_with("-")
               ? "a comment begins with //, not with #"
               : "";
  expanded += known->second.size;
  definedDepth = std::max(definedDepth, depth + known->second.depth);
  if (expanded > maxBytes)
    return "spec has more than " + std::to_string(maxBytes) + " bytes with its aliases written out";
  return "";
}

std::string Limits::code(size_t at) {
  char c = text[at];
  if (c == '(' || c == '[' || c == '{' || c == '<')
    definedDepth = std::max(definedDepth, ++depth);
  else if (c == ')' || c == ']' || c == '}' || (c == '>' && last != '-'))
    depth = depth > 0 ? depth - 1 : 0;
  if (fresh && llvm::isAlpha(c))
    endDefinition(at);
  if (beginsLocation(at))
    return "spec contains loc(...); messages name its own lines: leave it out";
  // MLIR's numbers take the square of their length, or more stack than there is.
  bool word = llvm::isAlnum(c) || c == '.' || c == '_';
  bool inNumber = word && (number ? true : llvm::isDigit(c) && !inWord);
  number = inNumber ? number + 1 : 0;
  inWord = word;
  if (number > maxNumber)
    return "number of more than " + std::to_string(maxNumber) + " characters";
  if (c == '#' || c == '!')
    if (std::string why = alias(at); !why.empty())
      return why;
  if (std::max(depth, definedDepth) > maxDepth)
    return "brackets nested deeper than " + std::to_string(maxDepth);
  // MLIR's parser of affine expressions recurses without any bracket.
  if (text.substr(at).starts_with("affine_map") || text.substr(at).starts_with("affine_set"))
    return "spec contains an affine map or set";
  return "";
}

std::string Limits::check() {
  if (text.starts_with("ML\xefR"))
    return "spec is bytecode, expected text";
  bool isShort = isShortText(text); // its parser has limits of its own
  bool quoted = false, comment = false, escaped = false;
  for (size_t i = 0; i < text.size(); ++i, ++expanded, ++column) {
    char c = text[i];
    if (c == '\0')
      return "spec contains a NUL";
    if (c == pageEnd)
      isShort = isShortText(text.substr(i + 1));
    if (c == '\n') { // ends a comment, and no string crosses it
      ++line;
      column = 0;
      fresh = true;
      comment = quoted = escaped = false;
    } else if (c == '\r') { // ends a comment, a string goes on
      comment = false;
    } else if (quoted) {
      quoted = escaped || c != '"';
      escaped = !escaped && c == '\\';
    } else if (!comment && !isShort) {
      comment = c == '/' && last == '/';
      quoted = c == '"';
      if (std::string why = code(i); !why.empty())
        return why;
      if (!llvm::isSpace(c) && c != '/') {
        lastInk = c;
        fresh = false;
      }
    }
    last = c;
  }
  return "";
}

namespace {
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number > 0)
      close(number);
  }
};
} // namespace

// One byte more than may be parsed tells that there is more.
static bool readAtMost(int descriptor, size_t most, std::string &text) {
  text.resize(most);
  size_t size = 0;
  ssize_t got = 1;
  while (got > 0 && size < most) {
    got = read(descriptor, text.data() + size, most - size);
    if (got < 0 && errno == EINTR)
      got = 1;
    else if (got > 0)
      size += got;
  }
  text.resize(size);
  return got >= 0;
}

Spec altgrad::readSpec(llvm::StringRef path) {
  Spec spec;
  std::string name = path.str();
  auto refuse = [&](const std::string &why) { return spec.why = why, spec; };
  bool standard = path == "-";
  // A pipe without a writer must not be waited for.
  Descriptor file{standard ? 0 : open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  struct stat info;
  if (file.number < 0 || fstat(file.number, &info) != 0)
    return refuse("cannot open input file '" + name + "': " + strerror(errno));
  if (!standard && !S_ISREG(info.st_mode))
    return refuse("cannot open input file '" + name +
                  "': " + (S_ISDIR(info.st_mode) ? strerror(EISDIR) : "not a regular file; - reads stdin"));
  if (!readAtMost(file.number, maxBytes + 1, spec.text))
    return refuse("cannot read '" + name + "': " + strerror(errno));
  if (spec.text.size() > maxBytes) {
    spec.line = spec.column = 1;
    return refuse("spec has more than " + std::to_string(maxBytes) + " bytes");
  }
  Limits limits(spec.text);
  spec.why = limits.check();
  spec.line = limits.line;
  spec.column = limits.column;
  return spec;
}

namespace {
struct QuotedFiles : llvm::vfs::ProxyFileSystem {
  using ProxyFileSystem::ProxyFileSystem;

  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine &path) override {
    auto found = status(path);
    if (!found)
      return found.getError();
    if (!found->isRegularFile() || found->getSize() > maxBytes)
      return std::make_error_code(std::errc::invalid_argument);
    return ProxyFileSystem::openFileForRead(path);
  }
};
} // namespace

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> altgrad::quotedFiles() {
  return llvm::makeIntrusiveRefCnt<QuotedFiles>(llvm::vfs::getRealFileSystem());
}

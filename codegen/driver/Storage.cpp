// A word of a storage line ==> a stream, its format, rounding and overflow.
#include "codegen/driver/Storage.h"

using namespace mlir;
using namespace altgrad;

static std::string quote(StringRef text) { return ("'" + text + "'").str(); }

// Sets what `modifier` says, which nothing before it may have said.
static std::string readModifier(StringRef text, StringRef modifier,
                                StorageWord &word) {
  if (modifier == "reference" && !word.reference && !word.round) {
    word.reference = true;
    return "";
  }
  std::optional<Round> round = symbolizeRound(modifier);
  std::optional<OverflowMode> overflow = symbolizeOverflowMode(modifier);
  std::string where = "storage " + quote(text);
  if (!round && !overflow)
    return where + " says " + quote(modifier) +
           "; known are nearest_even, toward_zero and stochastic, saturate and "
           "nonfinite";
  if (round ? word.round.has_value() : word.overflow.has_value())
    return where + " says twice " +
           (round ? "how it rounds"
                  : "what a number beyond its format becomes");
  if (round)
    word.round = round;
  else
    word.overflow = overflow;
  return "";
}

std::string altgrad::readStorageWord(StringRef text, StorageWord &word) {
  auto [stream, rest] = text.split('=');
  SmallVector<StringRef> parts;
  rest.split(parts, ',');
  word.stream = stream.str();
  auto [format, block] = parts[0].split(':');
  word.format = format.str();
  if (parts[0].contains(':'))
    word.block = block.str();
  for (StringRef modifier : ArrayRef<StringRef>(parts).drop_front())
    if (std::string why = readModifier(text, modifier, word); !why.empty())
      return why;
  return "";
}

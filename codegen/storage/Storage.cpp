// A word of a storage line ==> a stream, its format, rounding and overflow.
#include "codegen/storage/Storage.h"

#include "altgrad/format.h"
#include "llvm/ADT/StringSwitch.h"

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
  std::string where = "storage " + quote(text);
  auto rule = llvm::StringSwitch<std::optional<ScaleRule>>(modifier)
                  .Case("rceil", ScaleRule::RCeil)
                  .Case("floor", ScaleRule::Floor)
                  .Case("ceil", ScaleRule::Ceil)
                  .Case("even", ScaleRule::Even)
                  .Default(std::nullopt);
  if (rule && word.scale != "ocp.e8m0")
    return where + " says by which rule a scale is a power of two, and has none in ocp.e8m0";
  if (rule && word.rule)
    return where + " says twice by which rule a scale is chosen";
  if (rule) {
    word.rule = rule;
    return "";
  }
  if (modifier == "delayed" || modifier == "pow2") {
    bool &said = modifier == "delayed" ? word.delayed : word.pow2;
    if (word.stream != "copy" || word.block)
      return where + " says " + quote(modifier) +
             ", which is of the one scale of a copy without blocks";
    if (modifier == "pow2" && !word.delayed)
      return where + " says 'pow2' of a scale; write delayed,pow2";
    if (said)
      return where + " says " + quote(modifier) + " twice";
    said = true;
    return "";
  }
  if (modifier == "both") {
    if (word.stream != "copy" || word.scale != "ocp.e8m0" || word.block != "32")
      return where + " says 'both', which is of a copy in blocks of 32 with scales "
                     "in ocp.e8m0, as copy=mxfp8,both";
    if (word.both)
      return where + " says 'both' twice";
    word.both = true;
    return "";
  }
  std::optional<Round> round = symbolizeRound(modifier);
  std::optional<OverflowMode> overflow = symbolizeOverflowMode(modifier);
  if (!round && !overflow)
    return where + " says " + quote(modifier) +
           "; known are nearest_even, toward_zero and stochastic, saturate and "
           "nonfinite, and of scales rceil, floor, ceil, even, both, delayed and pow2";
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
  StringRef name = parts[0];
  for (const ScaledPreset &preset : scaledPresets)
    if (parts[0] == preset.name)
      name = preset.meaning;
  SmallVector<StringRef> fields;
  name.split(fields, ':');
  word.format = fields[0].str();
  if (fields.size() > 1)
    word.block = fields[1].str();
  if (fields.size() > 2)
    word.scale = name.drop_front(fields[0].size() + fields[1].size() + 2).str();
  for (StringRef modifier : ArrayRef<StringRef>(parts).drop_front())
    if (std::string why = readModifier(text, modifier, word); !why.empty())
      return why;
  return "";
}

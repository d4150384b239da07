// The words of a request ==> what they say: rules with options, sets, and lines of storage.
#include "dialect/frontend/Request.h"

#include "altgrad/format.h"
#include "dialect/SpellCheck.h"
#include "dialect/frontend/RulePath.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace altgrad;

// What may stand behind a comma: rounding, what is beyond a format, scales, codes.
static constexpr StringRef modifiers[] = {"nearest_even", "toward_zero", "stochastic",    "stochastic32", "reference",
                                          "saturate",     "nonfinite",   "keep_positive", "rceil",        "floor",
                                          "ceil",         "even",        "both",          "delayed",      "current",
                                          "bounded",      "pow2",        "softsign",      "sqrt"};

static std::string quote(StringRef text) { return ("'" + text + "'").str(); }

// Sets what `modifier` says of the one scale of a copy; nothing if it is no such word.
static std::optional<std::string> readTensorScale(StringRef modifier, StorageWord &word) {
  auto [name, steps] = modifier.split(':');
  auto kind = llvm::StringSwitch<TensorScale>(name)
                  .Case("delayed", TensorScale::Delayed)
                  .Case("current", TensorScale::Current)
                  .Case("bounded", TensorScale::Bounded)
                  .Default(TensorScale::None);
  bool pow2 = modifier == "pow2", squares = pow2 && word.hasSquareBlock();
  if (kind == TensorScale::None && !pow2)
    return std::nullopt;
  if (word.stream != "copy" || (word.block && !squares))
    return ", which is of the one scale of a copy without blocks; write copy=ocp.e4m3fn,delayed";
  if (squares && word.scale == "ocp.e8m0")
    return " of scales in ocp.e8m0, which are powers of two";
  if (pow2 && word.tensorScale == TensorScale::None && !squares)
    return " of a scale; write delayed,pow2";
  if (pow2 ? word.pow2 : word.tensorScale != TensorScale::None)
    return pow2 || word.tensorScale == kind ? " twice" : " of a scale that is something else already";
  word.pow2 |= pow2;
  if (pow2)
    return "";
  word.tensorScale = kind;
  if (!modifier.contains(':'))
    return "";
  if (kind != TensorScale::Delayed)
    return "; only a delayed scale looks back";
  if (steps.getAsInteger(10, word.history) || !word.history || word.history > 64)
    return "; a delayed scale looks back 1 to 64 steps";
  return "";
}

// Sets what `modifier` says, which nothing before it may have said. Returns why it may not
// say so, or "".
static std::string readModifier(StringRef text, StringRef modifier, StorageWord &word) {
  std::string where = "storage " + quote(text);
  auto set = [&](auto &slot, auto value, StringRef what) {
    return std::exchange(slot, value) ? (where + " says twice " + what + "; leave one out").str() : "";
  };
  if (modifier == "reference" && !word.reference && !word.round) {
    word.reference = true;
    return "";
  }
  if (auto rule = llvm::StringSwitch<std::optional<ScaleRule>>(modifier)
                      .Case("rceil", ScaleRule::RCeil)
                      .Case("floor", ScaleRule::Floor)
                      .Case("ceil", ScaleRule::Ceil)
                      .Case("even", ScaleRule::Even)
                      .Default(std::nullopt)) {
    if (word.scale != "ocp.e8m0")
      return where + " says by which rule a scale is a power of two, and has none in ocp.e8m0; write " + word.stream +
             "=ocp.e4m3fn:32:ocp.e8m0," + modifier.str();
    return set(word.rule, rule, "by which rule a scale is chosen");
  }
  for (Companding bent : {Companding::Softsign, Companding::Sqrt})
    if (modifier == stringifyCompanding(bent))
      return set(word.companding, bent, "how numbers are bent before they are codes");
  if (std::optional<std::string> why = readTensorScale(modifier, word))
    return why->empty() ? "" : where + " says " + quote(modifier) + *why;
  if (modifier == "both" && (word.stream != "copy" || word.scale != "ocp.e8m0" || word.block != "32"))
    return where + " says 'both', which is of a copy in blocks of 32 with scales in ocp.e8m0, as copy=mxfp8,both";
  if (bool *slot = modifier == "both" ? &word.both : modifier == "keep_positive" ? &word.keepPositive : nullptr) {
    bool twice = std::exchange(*slot, true);
    return twice ? where + " says " + quote(modifier) + " twice; leave one out" : "";
  }
  bool longDraw = modifier == "stochastic32";
  std::optional<Round> round = symbolizeRound(longDraw ? "stochastic" : modifier);
  std::optional<OverflowMode> overflow = symbolizeOverflowMode(modifier);
  word.drawBits = longDraw && !word.round ? 32 : word.drawBits;
  if (round)
    return set(word.round, round, "how it rounds");
  if (overflow)
    return set(word.overflow, overflow, "what a number beyond its format becomes");
  return where + " says " + quote(modifier) + describeChoices(modifier, modifiers);
}

// `text` is a part of `line`: "m=ocp.e4m3fn:128,stochastic".
static StorageProblem readWord(StringRef line, StringRef text, StorageWord &word) {
  auto problem = [&](StringRef part, const Twine &why) {
    return StorageProblem{unsigned(part.data() - line.data()) + 1, ("storage " + quote(text) + why).str()};
  };
  auto [stream, rest] = text.split('=');
  if (stream.size() == text.size())
    return problem(text, " has no format; write " + (text.contains(':') ? text.split(':').first : text) +
                             "=bf16, without spaces around =");
  if (stream.empty() || rest.empty())
    return problem(text, stream.empty() ? " names no stream in front of =; write param=bf16"
                                        : " has no format behind =; write " + stream + "=bf16");
  SmallVector<StringRef> parts;
  rest.split(parts, ',');
  word.text = text.str();
  word.column = text.data() - line.data() + 1;
  word.stream = stream.str();
  StringRef name = parts[0];
  for (const ScaledPreset &preset : scaledPresets)
    if (parts[0] == preset.name)
      name = preset.meaning;
  SmallVector<StringRef> fields;
  name.split(fields, ':');
  word.format = fields[0].str();
  if (StringRef(word.format).find_first_of("=;") != StringRef::npos)
    return problem(rest, " has two words; words are separated by spaces");
  if (fields.size() > 1)
    word.block = fields[1].str();
  if (fields.size() > 2)
    word.scale = name.drop_front(fields[0].size() + fields[1].size() + 2).str();
  for (StringRef modifier : ArrayRef<StringRef>(parts).drop_front()) {
    if (modifier.empty() || modifier.contains('='))
      return problem(modifier, " ends in a comma or has two words; words are separated by "
                               "spaces, what is said of one word by commas");
    if (std::string why = readModifier(text, modifier, word); !why.empty())
      return {unsigned(modifier.data() - line.data()) + 1, why};
  }
  return {};
}

StorageProblem altgrad::readStorageLine(StringRef line, SmallVectorImpl<StorageWord> &words) {
  SmallVector<StringRef> texts;
  line.split(texts, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef text : texts)
    if (StorageProblem problem = readWord(line, text, words.emplace_back()); !problem.why.empty())
      return problem;
  return {};
}

ArrayRef<StringRef> altgrad::commonStorageWords() {
  static constexpr StringRef words[] = {"param", "master", "rungs", "grad", "copy", "states"};
  return words;
}

SmallVector<StringRef> altgrad::getStorageWords(RuleOp rule, ArrayRef<StringRef> states) {
  SmallVector<StringRef> words(commonStorageWords().drop_back(states.empty()));
  if (!rule.getByRole(Role::step).empty())
    words.push_back("step");
  words.append(states.begin(), states.end());
  return words;
}

std::string altgrad::unknownFormat(StringRef word) {
  SmallVector<StringRef> scaled;
  for (const ScaledPreset &preset : scaledPresets)
    scaled.push_back(preset.name);
  StringRef meant = closestSpelling(word, scaled);
  std::string text = FormatAttr::unknown(word) + ", and in blocks " + llvm::join(scaled, ", ");
  if (!meant.empty() && !StringRef(text).contains("did you mean"))
    text.insert(text.find("known are"), "did you mean '" + meant.str() + "'? ");
  return text;
}

//===-- Rules and sets ------------------------------------------------------===//

std::string altgrad::describeSource(StringRef what, unsigned set, bool several) {
  return several ? (what + " of set " + Twine(set)).str() : what.str();
}

std::string altgrad::readRule(StringRef spelled, SetRequest &set) {
  StringRef name = spelled, options;
  set.spelled = spelled.str();
  if (spelled.ends_with("}") && spelled.contains('{'))
    std::tie(name, options) = spelled.drop_back().rsplit('{');
  else if (spelled.contains('{') && !isRuleFile(spelled))
    return "rule '" + spelled.str() + "' lacks a closing brace";
  set.rule = name.str();
  SmallVector<StringRef> words;
  options.split(words, ',', -1, /*KeepEmpty=*/false);
  for (StringRef word : words) {
    word = word.trim();
    // The runtime keeps a program by its options in any order.
    for (StringRef other : set.options)
      if (other != word && other.contains('=') && other.split('=').first == word.split('=').first)
        return ("rule '" + name + "' has the options '" + other + "' and '" + word + "'; leave one out").str();
    set.options.push_back(word.str());
  }
  return "";
}

// Where a rule's name ends: a file's may hold spaces and braces before its .mlir.
static size_t endOfRule(StringRef text) {
  size_t end = 0;
  for (size_t at = 0; (at = text.find(".mlir", at)) != StringRef::npos;)
    if (at += 5; at == text.size() || text[at] == ' ' || text[at] == '{')
      end = at;
  return end ? end : std::min(text.find_first_of(" {"), text.size());
}

std::string altgrad::readSet(StringRef text, SetRequest &set) {
  StringRef rest = text.trim(' ');
  if (rest.starts_with("grad=")) {
    set.ruled = false;
    set.storage = rest.str();
    return "";
  }
  if (!rest.consume_front("rule="))
    return ("set '" + text + "' does not begin with rule= or grad=; write rule=" + (rest.empty() ? "adamw" : rest))
        .str();
  size_t end = endOfRule(rest);
  if (rest.substr(end).starts_with("{"))
    end = std::min(rest.find('}', end), rest.size() - 1) + 1;
  set.storage = rest.substr(end).trim(' ').str();
  if (end < rest.size() && rest[end] != ' ')
    return "rule '" + rest.str() + "' goes on behind its closing brace";
  return readRule(rest.take_front(end), set);
}

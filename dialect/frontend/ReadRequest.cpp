// The words of a request ==> what they say: rules with options, sets, and lines of storage.
#include "altgrad/words.h"
#include "dialect/SpellCheck.h"
#include "dialect/frontend/BlockCodec.h"
#include "dialect/frontend/RulePath.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

static std::string quote(StringRef text) { return ("'" + text + "'").str(); }

// Takes what `modifier` says, which nothing before it may have said. Returns why it may not say so, or "".
static std::string readModifier(StringRef modifier, StorageWord &word) {
  const CodecWord *of = findCodecWord(modifier);
  if (!of) {
    llvm::SetVector<StringRef> known;
    for (const CodecRow *codec : llvm::reverse(getCodecs()))
      known.insert_range(llvm::map_range(codec->words, [](const CodecWord &one) -> StringRef { return one.word; }));
    return quote(modifier) + describeChoices(modifier, known.getArrayRef());
  }
  for (StringRef other : word.modifiers)
    if (findCodecWord(other)->says == of->says)
      return "twice " + of->says.str() + "; leave one out";
  word.modifiers.push_back(modifier.str());
  if (auto round = symbolizeRound(modifier == "stochastic32" ? "stochastic" : modifier))
    word.round = round;
  if (auto overflow = symbolizeOverflowMode(modifier))
    word.overflow = overflow;
  return "";
}

using ErrorAt = function_ref<InFlightDiagnostic(unsigned column)>;

// `text` is a part of `line`: "m=ocp.e4m3fn:128,stochastic".
static LogicalResult readWord(StringRef line, StringRef text, StorageWord &word, ErrorAt errorAt) {
  auto problem = [&](StringRef part, const Twine &why) {
    return errorAt(part.data() - line.data() + 1) << "storage " << quote(text) << why;
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
  std::string full = inFull(parts[0]);
  StringRef name = full;
  SmallVector<StringRef> fields;
  name.split(fields, ':');
  word.format = fields[0].str();
  if (StringRef(word.format).find_first_of("=;") != StringRef::npos)
    return problem(rest, " names two streams: separate them by spaces");
  if (fields.size() > 1) {
    word.block = fields[1].str();
    (void)fields[1].getAsInteger(10, word.elements); // 0 of what is no number
    word.side = squareSide(*word.block);
  }
  if (fields.size() > 2)
    word.scale = name.drop_front(fields[0].size() + fields[1].size() + 2).str();
  for (StringRef modifier : ArrayRef<StringRef>(parts).drop_front()) {
    if (modifier.empty() || modifier.contains('='))
      return problem(modifier, " ends in a comma or names two streams: separate streams by "
                               "spaces, and modifiers of one by commas");
    if (std::string why = readModifier(modifier, word); !why.empty())
      return problem(modifier, " says " + why);
  }
  return success();
}

LogicalResult altgrad::readStorageLine(StringRef line, SmallVectorImpl<StorageWord> &words, ErrorAt errorAt) {
  SmallVector<StringRef> texts;
  line.split(texts, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef text : texts)
    if (failed(readWord(line, text, words.emplace_back(), errorAt)))
      return failure();
  return success();
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
static size_t findRuleEnd(StringRef text) {
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
  size_t end = findRuleEnd(rest);
  if (rest.substr(end).starts_with("{"))
    end = std::min(rest.find('}', end), rest.size() - 1) + 1;
  set.storage = rest.substr(end).trim(' ').str();
  if (end < rest.size() && rest[end] != ' ')
    return "rule '" + rest.str() + "' goes on behind its closing brace";
  return readRule(rest.take_front(end), set);
}

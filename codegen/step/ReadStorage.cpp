// What the words of a storage line mean for the streams of one set.
#include "codegen/step/SetWriter.h"
#include "dialect/Nearest.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

static constexpr StringLiteral listing = "altgrad-opt --list-rules=verbose describes all rules";

std::string altgrad::placeOf(StringRef what, unsigned set, bool several) {
  return several ? (what + " of set " + Twine(set)).str() : what.str();
}

void SetWriter::lookAt(StringRef what, unsigned column) {
  place = FileLineColLoc::get(loc.getContext(), placeOf(what, set, several), 1, column);
}

void SetWriter::lookAt(StringRef stream) {
  auto it = columns.find(stream);
  lookAt("storage", it == columns.end() ? 1 : it->second);
}

// What is known of a word, if it makes sense of the stream that it names.
LogicalResult SetWriter::take(StringRef text, const StorageWord &word) {
  bool read = isRuled() && word.stream == "grad";
  bool split = isSplitMaster(word.format);
  if (word.hasModifiers() && (read || split || word.stream == "step"))
    return error() << "storage '" << text << "' says how '" << word.stream
                   << "' is rounded, which is not; leave out what follows the comma";
  if (word.reference && word.stream != "rungs")
    return error() << "storage '" << text
                   << "': only rungs are rounded as the reference does; leave it out";
  if (word.reference && word.drawBits != 16)
    return error() << "storage '" << text
                   << "': the reference draws 16 bits; leave out stochastic32";
  if (!formats.try_emplace(word.stream, word.format).second)
    return error() << "storage names '" << word.stream << "' twice; leave one out";
  columns[word.stream] = word.column;
  if (failed(checkBook(text, word)) || failed(checkCompanding(text, word)) ||
      failed(checkColumns(text, word)) || failed(checkTensorScale(text, word)) ||
      failed(checkKeepPositive(text, word)))
    return failure();
  if (word.hasModifiers() || word.tensorScale != TensorScale::None || word.both ||
      word.squares() || word.keepPositive)
    words[word.stream] = word;
  if (word.squares())
    return takeSquares(text, word);
  return word.block ? takeBlock(text, word) : success();
}

// What words say of formats, one of which may be another stream's.
LogicalResult SetWriter::checkRounding() {
  for (const auto &[stream, word] : words) {
    auto format = FormatAttr::getNamed(loc.getContext(), formatOf(stream));
    lookAt("storage", word.column);
    if ((word.hasModifiers() || word.keepPositive) && format.isF32())
      return error() << "storage '" << word.text
                     << "' says how to round, and f32 needs no rounding; write " << stream
                     << "=f32, or another format";
    if (word.overflow == OverflowMode::NonFinite && stream != "rungs" &&
        !format.getInf() && format.getNan() == Nan::None)
      return error() << "storage '" << word.text << "' says 'nonfinite' of "
                     << formatOf(stream) << ", which has neither an infinity nor a NaN; "
                     << "leave it out or write saturate";
  }
  return success();
}

// Why no stream is called so: what the rule calls it, the option that it needs, or what
// streams there are.
LogicalResult SetWriter::noStream(const StorageWord &word) {
  StringRef name = word.stream;
  InFlightDiagnostic why = error();
  why << "storage '" << word.text << "' names no stream of rule '" << rule.getSymName()
      << "' with these options";
  for (StringRef role : {"param", "grad"})
    if (rule.getName(rule.getByRole(role)[0]) == name)
      return why << "; its " << role << " is called " << role << ": write " << role << "="
                 << word.format;
  for (BlockArgument state : rule.getByRole("state"))
    for (BlockArgument option : rule.getByRole("option"))
      if (StringRef needed = rule.getName(option);
          rule.getName(state) == name &&
          llvm::is_contained(rule.getStoredStates({needed}), state))
        return why << "; '" << name << "' is stored with the option " << needed
                   << ": rule '" << rule.getSymName() << "{" << needed << "}'";
  SmallVector<StringRef> stored;
  for (BlockArgument state : states)
    stored.push_back(rule.getName(state));
  return why << sayKnown(name, storageWordsOf(rule, stored)) << "; " << listing;
}

// A stream of the rule, `states` or `step`, and a format that it may have.
LogicalResult SetWriter::readWord(StorageWord &word) {
  lookAt("storage", word.column);
  StringRef name = word.stream, format = word.format;
  bool state = llvm::any_of(states, [&, name = name](BlockArgument state) {
    return rule.getName(state) == name;
  });
  auto steps = rule.getByRole("step");
  // As `states`, `step` may be said of a rule that has none.
  bool step = !state && (name == "step" ||
                         (!steps.empty() && rule.getName(steps[0]) == name));
  if (step)
    name = word.stream = "step";
  if (!state && !step && !llvm::is_contained(commonStorageWords(), name))
    return noStream(word);
  bool known = name == "master" ? format == "f32" || isSplitMaster(format)
               : step ? format == "i64" || format == "f32"
                    : (name == "states" && format == "param") ||
                          FormatAttr::getNamed(rule.getContext(), format);
  if (known)
    return take(word.text, word);
  return error() << "storage '" << word.text << "': "
                 << (name == "master" ? "a master is f32, bf16+i16 or bf16+i8; write master=f32"
                     : step           ? "a step count is i64 or f32"
                                      : unknownFormat(format));
}

// Of a set without a rule.
LogicalResult SetWriter::readGradientWord(const StorageWord &word) {
  lookAt("storage", word.column);
  if (word.stream != "grad" && word.stream != "copy")
    return error() << "storage '" << word.text
                   << "' of a set without a rule, which has a grad and a copy";
  if (!FormatAttr::getNamed(loc.getContext(), word.format))
    return error() << "storage '" << word.text << "': " << unknownFormat(word.format);
  return take(word.text, word);
}

LogicalResult SetWriter::readWords() {
  SmallVector<StorageWord> line;
  if (StorageProblem problem = readStorageLine(request.storage, line); !problem.why.empty()) {
    lookAt("storage", problem.column);
    return error() << problem.why;
  }
  for (StorageWord &word : line)
    if (failed(isRuled() ? readWord(word) : readGradientWord(word)))
      return failure();
  return checkRounding();
}

LogicalResult SetWriter::read() {
  if (!isRuled())
    return readWords();
  if (failed(checkOptions()) || failed(checkNames()) || failed(readWords()))
    return failure();
  lookAt("master");
  if (splitsMaster() && failed(checkRemainder()))
    return failure();
  lookAt("copy");
  if (wordOf("copy").tensorScale == TensorScale::Bounded && failed(checkBounded()))
    return failure();
  lookAt("rungs");
  return inRungs() ? checkRungs() : success();
}

LogicalResult SetWriter::checkOptions() {
  SmallVector<StringRef> options(request.options.begin(), request.options.end()), known;
  for (BlockArgument argument : rule.getByRole("option"))
    known.push_back(rule.getName(argument));
  for (StringRef option : options) {
    if (llvm::is_contained(known, option))
      continue;
    size_t at = StringRef(request.spelled).rfind('{');
    at = StringRef(request.spelled).find(option, at == StringRef::npos ? 0 : at);
    lookAt("rule", at == StringRef::npos ? 1 : at + 1);
    return error() << "rule '" << rule.getSymName() << "' has no option '" << option << "'"
                   << (known.empty() ? "; it has none" : sayKnown(option, known));
  }
  states = rule.getStoredStates(options);
  return success();
}

// A state's name is a word of the storage line.
LogicalResult SetWriter::checkNames() {
  place = loc;
  bool counts = !rule.getByRole("step").empty();
  for (BlockArgument state : rule.getByRole("state"))
    if (StringRef name = rule.getName(state);
        llvm::is_contained(commonStorageWords(), name) || (counts && name == "step"))
      return error() << "rule '" << rule.getSymName() << "' has a state '"
                     << name
                     << "', which means something else in a storage line; rename it";
  return success();
}

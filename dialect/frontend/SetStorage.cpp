// Which words go with a rule, and with each other.
#include "dialect/frontend/BlockCodec.h"

#include "dialect/Entries.h"
#include "dialect/SpellCheck.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

static constexpr StringLiteral listing = "altgrad-opt --list-rules=verbose describes all rules";

static bool isSplit(const StorageWord &word) { return &getCodec(word) == &splitMaster; }
static bool isCommon(StringRef stream) { return llvm::is_contained(commonStorageWords(), stream); }

SetStorage::SetStorage(MLIRContext &context, const SetRequest &request, RuleOp rule, unsigned set, bool several)
    : request(request), rule(rule), set(set), several(several), options(request.options.begin(), request.options.end()),
      context(context) {}

//===-- Questions -----------------------------------------------------------===//

const StorageWord *SetStorage::find(StringRef stream) const {
  auto *it = llvm::find_if(words, [&](const StorageWord &word) { return word.stream == stream; });
  return it == words.end() ? nullptr : it;
}

const StorageWord &SetStorage::word(StringRef stream) const {
  static const StorageWord nothing;
  const StorageWord *found = find(stream);
  if (!found && !isCommon(stream) && !isInput(stream) && !getOwnGeometry(stream))
    found = find("states");
  return found ? *found : nothing;
}

StringRef SetStorage::formatName(StringRef stream) const {
  StringRef format = word(stream).format;
  return format == "param" ? formatName("param") : format.empty() ? "f32" : format;
}

FormatAttr SetStorage::format(StringRef stream) const { return FormatAttr::getNamed(&context, formatName(stream)); }

BlockAttr SetStorage::getOwnGeometry(StringRef stream) const {
  for (BlockArgument state : rule ? rule.getByRole(Role::state) : SmallVector<BlockArgument>())
    if (rule.getName(state) == stream && rule.getScope(state) >= Scope::Column)
      return BlockAttr::getOfState(&context, rule.getScope(state));
  return {};
}

TensorsType SetStorage::type(StringRef stream) const {
  if (BlockAttr block = getOwnGeometry(stream))
    return TensorsType::get(&context, FormatAttr::getNamed(&context, "f32"), block, /*packed=*/false);
  return tensors(formatName(stream), 1, 1, hasBlocks(stream) && getCodecFacts(format(stream)).sharesBytes);
}

TensorsType SetStorage::tensors(StringRef format, int64_t rows, int64_t columns, bool packed) const {
  return TensorsType::get(&context, FormatAttr::getNamed(&context, format), BlockAttr::get(&context, rows, columns),
                          packed);
}

const CodecRow &SetStorage::codec(StringRef stream) const {
  return getCodec(word(stream == "param" && splitsMaster() ? "master" : stream));
}

bool SetStorage::isInput(StringRef stream) const {
  return rule && llvm::any_of(rule.getByRole(Role::input), [&](auto one) { return rule.getName(one) == stream; });
}

unsigned SetStorage::getStoreIndex(StringRef stream) const {
  if (stream == "param" || stream == "grad")
    return 0;
  if (stream == "copy")
    return 1;
  for (auto [index, state] : llvm::enumerate(rule.getByRole(Role::state)))
    if (rule.getName(state) == stream)
      return 2 + index;
  llvm_unreachable("a stream that is not stored");
}

bool SetStorage::draws() const {
  auto isOnlyRead = [&](StringRef stream) {
    return llvm::any_of(
        states, [&](BlockArgument state) { return rule.getName(state) == stream && !rule.changes(state, options); });
  };
  return drawsRungs() || (rule && rule.draws(options)) ||
         llvm::any_of(words, [&](const StorageWord &word) { return word.stochastic() && !isOnlyRead(word.stream); });
}

bool SetStorage::splitsMaster() const { return isSplit(word("master")); }

//===-- Places --------------------------------------------------------------===//

Location SetStorage::at(StringRef what, unsigned column) const {
  return FileLineColLoc::get(&context, describeSource(what, set, several), 1, column);
}

Location SetStorage::getRuleLocation() const {
  return !rule ? at("storage", 1) : request.spelled.empty() ? rule->getLoc() : at("rule", 1);
}

Location SetStorage::getLocation(StringRef stream) const {
  const StorageWord &word = this->word(stream);
  return word.text.empty() ? getRuleLocation() : at("storage", word.column);
}

InFlightDiagnostic SetStorage::error(StringRef stream) const {
  const StorageWord *word = find(stream);
  return emitError(at("storage", word ? word->column : 1));
}

InFlightDiagnostic SetStorage::error(const StorageWord &word, StringRef modifier) const {
  size_t behind = modifier.empty() ? 0 : word.text.find("," + modifier.str()) + 1;
  InFlightDiagnostic error = emitError(at("storage", word.column + behind));
  error << "storage '" << word.text << "'";
  return error;
}

InFlightDiagnostic SetStorage::refuse(const StorageWord &word, StringRef modifier) const {
  return error(word, modifier) << " says '" << modifier << "', which is of " << findCodecWord(modifier)->of;
}

//===-- Words beside each other ---------------------------------------------===//

LogicalResult SetStorage::check(const StorageWord &word) const {
  StringRef stream = word.stream;
  const CodecRow &codec = getCodec(word);
  bool state = stream == "states" || (!isCommon(stream) && stream != "step");
  for (StringRef modifier : word.modifiers)
    if (!codec.find(modifier) && !plain.find(modifier))
      return refuse(word, modifier);
  for (StringRef modifier : word.modifiers)
    if (unsigned least = 0; modifier.consume_front("min_size")) {
      if (!modifier.consume_front(":") || modifier.getAsInteger(10, least) || !least)
        return error(word) << "; write min_size with the elements from which on a tensor has blocks, as min_size:4096";
      if (!(rule && state) || !word.elements)
        return error(word) << "; min_size is of states with a scale for each block, as m=bnb8:256,min_size:8192";
    }
  if (word.hasModifier("keep_positive") && !(rule && state))
    return error(word) << " says keep_positive of '" << stream << "'; it is for states, as v=bnb8u:256,keep_positive";
  if (word.definesRounding() && ((rule && stream == "grad") || isSplit(word) || stream == "step"))
    return error(word) << " says how '" << stream << "' is rounded, which is not; leave out what follows the comma";
  if (word.hasModifier("reference") && stream != "rungs")
    return error(word) << ": only rungs are rounded as the reference does; leave it out";
  if (word.hasModifier("reference") && word.hasModifier("stochastic32"))
    return error(word) << ": the reference draws 16 bits; leave out stochastic32";
  // A code book's numbers end at 1: what is stored needs a scale, or is scaled by whoever asks for codes alone.
  bool table = getCodecFacts(named(word)).table;
  if (table && !word.block && (rule || stream != "copy"))
    return error(word) << ": the numbers of " << word.format
                       << " end at 1; it is for states with a scale for each block, as m=" << word.format << ":256";
  if (table && word.round.value_or(Round::NearestEven) != Round::NearestEven)
    return error(word) << ": a code book has the nearest number alone";
  if (failed(codec.verify(*this, word)))
    return failure();
  if (!word.definesRounding() && !word.hasModifier("keep_positive"))
    return success();
  FormatAttr format = this->format(stream);
  if (format.isF32())
    return error(word) << " says how to round, and f32 needs no rounding; write " << stream
                       << "=f32, or another format";
  if (word.overflow == OverflowMode::NonFinite && stream != "rungs" && !format.getInf() && format.getNan() == Nan::None)
    return error(word) << " says 'nonfinite' of " << formatName(stream)
                       << ", which has neither an infinity nor a NaN; leave it out or write saturate";
  return success();
}

//===-- Words and streams ---------------------------------------------------===//

// Whether a state is a number of several elements, which is stored as it is.
static bool isOneOfMany(RuleOp rule, BlockArgument state) { return rule.getScope(state) != Scope::Block; }

// Why no stream is called so: what the rule calls it, the option that it needs, or what streams there are.
LogicalResult SetStorage::noStream(const StorageWord &word) const {
  StringRef name = word.stream;
  InFlightDiagnostic why = error(word);
  why << " names no stream of rule '" << rule.getSymName() << "' with these options";
  for (Role role : {Role::param, Role::grad})
    if (StringRef stream = stringifyRole(role); rule.getName(rule.getByRole(role)[0]) == name)
      return why << "; its " << stream << " is called " << stream << ": write " << stream << "=" << word.format;
  for (BlockArgument state : rule.getByRole(Role::state))
    if (isOneOfMany(rule, state) && rule.getName(state) == name)
      return why << "; '" << name << "' is a "
                 << (rule.getScope(state) > Scope::Column
                         ? "square in f32"
                         : ("number per " + stringifyScope(rule.getScope(state))).str())
                 << ": leave it out";
  for (BlockArgument state : rule.getByRole(Role::state))
    for (BlockArgument option : rule.getByRole(Role::option))
      if (StringRef needed = rule.getName(option);
          rule.getName(state) == name && llvm::is_contained(rule.getStoredStates({needed}), state))
        return why << "; '" << name << "' is stored with the option " << needed << ": rule '" << rule.getSymName()
                   << "{" << needed << "}'";
  auto stored = llvm::map_to_vector(states, [&](BlockArgument state) { return rule.getName(state); });
  return why << describeChoices(name, getStorageWords(rule, stored)) << "; " << listing;
}

// A stream of the rule, `states` or `step`, and a format that it may have.
LogicalResult SetStorage::readWord(StorageWord &word) {
  std::string &name = word.stream, &format = word.format;
  if (!rule && name != "grad" && name != "copy")
    return error(word) << " of a set without a rule, which has a grad and a copy";
  bool state = llvm::any_of(states, [&](auto one) { return rule.getName(one) == name && !isOneOfMany(rule, one); });
  auto steps = rule ? rule.getByRole(Role::step) : SmallVector<BlockArgument>();
  // As `states`, `step` may be said of a rule that has none.
  bool called = !steps.empty() && rule.getName(steps[0]) == name && !isCommon(name);
  bool step = !state && (name == "step" || called);
  if (step)
    name = "step";
  if (!state && !step && !isCommon(name) && !isInput(name))
    return noStream(word);
  if (isInput(name) && word.text != name + "=" + format)
    return error(word) << ": '" << name << "' is only read; write " << name << "=" << format;
  if (name == "master" && format != "f32" && !isSplit(word))
    return error(word) << ": a master is f32, bf16+i16 or bf16+i8; write master=f32";
  if (step && format != "i64" && format != "f32")
    return error(word) << ": a step count is i64 or f32";
  bool known = name == "master" || step || (name == "states" && format == "param");
  if (!known && !FormatAttr::getNamed(&context, format))
    return error(word) << ": " << unknownFormat(format);
  return success();
}

LogicalResult SetStorage::checkOptions() {
  auto known =
      llvm::map_to_vector(rule.getByRole(Role::option), [&](BlockArgument option) { return rule.getName(option); });
  bool iterates = !rule.getBody().getOps<OrthogonalizeOp>().empty();
  if (!getEntryRule(rule).empty()) // the others are of its rule
    llvm::erase_if(options, [&](StringRef option) { return !llvm::is_contained(known, option); });
  for (StringRef option : options) {
    if (llvm::is_contained(known, option) || (iterates && readIterationWord(&context, option)))
      continue;
    StringRef spelled = request.spelled;
    size_t brace = spelled.rfind('{'), found = spelled.find(option, brace == StringRef::npos ? 0 : brace);
    return emitError(at("rule", found == StringRef::npos ? 1 : found + 1))
           << "rule '" << rule.getSymName() << "' has no option '" << option << "'"
           << (known.empty() ? "; it has none" : describeChoices(option, known));
  }
  states = rule.getStoredStates(options);
  bool counts = !rule.getByRole(Role::step).empty();
  for (Role role : {Role::state, Role::input})
    for (BlockArgument argument : rule.getByRole(role)) // its name is a word of the line
      if (StringRef name = rule.getName(argument); isCommon(name) || (counts && name == "step"))
        return emitError(rule->getLoc()) << "rule '" << rule.getSymName() << "' has "
                                         << (role == Role::state ? "a " : "an ") << stringifyRole(role) << " '" << name
                                         << "', which means something else in a storage line; rename it";
  return success();
}

LogicalResult SetStorage::read() {
  if (rule && failed(checkOptions()))
    return failure();
  SmallVector<StorageWord> line;
  if (failed(readStorageLine(request.storage, line, [&](unsigned column) { return emitError(at("storage", column)); })))
    return failure();
  for (StorageWord &word : line) {
    if (failed(readWord(word)))
      return failure();
    if (hasWord(word.stream))
      return emitError(at("storage", word.column)) << "storage names '" << word.stream << "' twice; leave one out";
    words.push_back(word);
  }
  if (llvm::any_of(words, [&](const StorageWord &word) { return failed(check(word)); }))
    return failure();
  return inRungs() ? checkRungs() : success();
}

static bool represents(const Format &format, const Format &grid) {
  for (uint32_t code = 0; code <= grid.maxCode(); ++code) {
    uint32_t bits = decodeBits(grid, code);
    if (decodeBits(format, encodeBits(format, bits, Rounding::NearestEven, Overflow::NonFinite)) != bits)
      return false;
  }
  return true;
}

LogicalResult SetStorage::checkRungs() const {
  if (!getCodecFacts(format("rungs")).isSignMagnitude)
    return error(word("rungs"))
           << ": rungs are of formats with a sign, a magnitude and at most 8 bits, such as rungs=ocp.e4m3fn";
  if (word("rungs").overflow)
    return error(word("rungs")) << " says what is beyond the format; rungs end where it does";
  if (hasWord("master"))
    return error(word("rungs")) << " beside a master; the rung is all there is of a parameter, leave the master out";
  if (word("param").definesRounding())
    return error(word("rungs")) << " beside how param is rounded; say that of the rungs";
  if (!represents(format("param").toFormat(), format("rungs").toFormat()))
    return error(word("rungs")) << ": " << formatName("param")
                                << " does not hold all its numbers; store its codes with param=" << formatName("rungs")
                                << ", or the numbers with param=f32";
  return success();
}

// Which words go with a rule, and with each other.
#include "dialect/frontend/SetStorage.h"

#include "dialect/Codecs.h"
#include "dialect/SpellCheck.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

static constexpr StringLiteral listing = "altgrad-opt --list-rules=verbose describes all rules";

/// Whether a master is the parameter and a remainder: "bf16+i16", "bf16+i8".
static bool isSplit(StringRef format) { return format == "bf16+i16" || format == "bf16+i8"; }
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
  if (!found && !isCommon(stream))
    found = find("states");
  return found ? *found : nothing;
}

StringRef SetStorage::formatName(StringRef stream) const {
  StringRef format = word(stream).format;
  return format == "param" ? formatName("param") : format.empty() ? "f32" : format;
}

FormatAttr SetStorage::format(StringRef stream) const { return FormatAttr::getNamed(&context, formatName(stream)); }

TensorsType SetStorage::type(StringRef stream) const {
  return tensors(format(stream), 1, 1, hasBlocks(stream) && getCodecFacts(format(stream)).sharesBytes);
}

TensorsType SetStorage::scaleType(StringRef stream, bool columns) const {
  const StorageWord &word = this->word(stream);
  if (!word.block)
    return {};
  int64_t square = word.hasSquareBlock() ? squareBlock : 1;
  return tensors(FormatAttr::getNamed(&context, word.scale), columns ? columnBlock : square,
                 columns ? 1 : std::max<int64_t>(square, word.elements));
}

unsigned SetStorage::getStore(StringRef stream) const {
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
  return drawsRungs() || llvm::any_of(words, [](const StorageWord &word) { return word.stochastic(); });
}

bool SetStorage::splitsMaster() const { return isSplit(word("master").format); }

TensorsType SetStorage::remainderType() const {
  StringRef half = word("master").format == "bf16+i16" ? "int16" : "int8";
  return tensors(FormatAttr::getNamed(&context, half));
}

//===-- Places --------------------------------------------------------------===//

Location SetStorage::at(StringRef what, unsigned column) const {
  return FileLineColLoc::get(&context, describeSource(what, set, several), 1, column);
}

Location SetStorage::placeOfRule() const {
  return !rule ? at("storage", 1) : request.spelled.empty() ? rule->getLoc() : at("rule", 1);
}

Location SetStorage::place(StringRef stream) const {
  const StorageWord &word = this->word(stream);
  return word.text.empty() ? placeOfRule() : at("storage", word.column);
}

InFlightDiagnostic SetStorage::error(StringRef stream) const {
  const StorageWord *word = find(stream);
  return emitError(at("storage", word ? word->column : 1));
}

InFlightDiagnostic SetStorage::error(const StorageWord &word) const {
  InFlightDiagnostic error = emitError(at("storage", word.column));
  error << "storage '" << word.text << "'";
  return error;
}

//===-- Single words --------------------------------------------------------===//

using EmitError = function_ref<InFlightDiagnostic()>; // an error that names the word

// Blocks that go over rows, as `says` calls them.
static LogicalResult verifyTile(StringRef says, const StorageWord &word, FormatAttr format, EmitError emitError) {
  bool byte = format && format.getBytes() == 1;
  if (!byte || getCodecFacts(format).sharesBytes)
    return emitError() << says << " of codes in " << word.format
                       << (byte ? ", which share bytes" : ", which are wider than a byte");
  if (word.stochastic())
    return emitError() << says << " and 'stochastic'; " << (word.both ? "copies of columns" : "copies in squares")
                       << " are not rounded by draws";
  return success();
}

static LogicalResult verifySquares(const StorageWord &word, FormatAttr format, EmitError emitError) {
  StringRef blocks = " has blocks of 128x128";
  if (word.stream != "copy")
    return emitError() << blocks << ", which are of a copy of the parameter";
  if (failed(verifyTile(blocks, word, format, emitError)))
    return failure();
  if (getCodecFacts(format).table)
    return emitError() << blocks << " of codes in " << word.format << ", a code book's";
  if (word.scale != "f32" && word.scale != "ocp.e8m0")
    return emitError() << blocks << " with scales in '" << word.scale << "'; these are in f32 or ocp.e8m0";
  return success();
}

// `m=ocp.e4m3fn:128`: what stands behind the colon.
static LogicalResult verifyBlock(StorageWord &word, FormatAttr format, EmitError emitError) {
  if (!word.block)
    return success();
  if (word.hasSquareBlock())
    return verifySquares(word, format, emitError);
  StringRef name = word.stream, scale = word.scale;
  if (llvm::is_contained({"param", "grad", "master", "step", "rungs"}, name))
    return emitError() << ": only states and copies have a scale for each block";
  if (StringRef(*word.block).getAsInteger(10, word.elements) || !isBlock(word.elements))
    return emitError() << " has blocks of '" << *word.block << "' elements, expected a power of two from " << minBlock
                       << " to " << maxBlock;
  ArrayRef<StringLiteral> scales = getCodecFacts(format).scales;
  if (scales.empty())
    return emitError() << " scales blocks of " << word.format << "; a scale is for formats of 8 and 16 bits";
  bool levels = scale == "ocp.e4m3fn";
  if (llvm::is_contained(scales, scale) && (!levels || name == "copy"))
    return success();
  if (levels)
    return emitError() << " has scales in ocp.e4m3fn, below one of the tensor; write copy=nvfp4 of a parameter, or "
                       << name << "=ocp.e2m1:16";
  if (getCodecFacts(format).table && (scale == "f16" || scale == "ocp.e8m0"))
    return emitError() << ": the scales of a code book, whose numbers end at 1, are in f32";
  return emitError() << " has scales in '" << scale
                     << "'; scales are in f32, f16 or ocp.e8m0, and of nvfp4 in ocp.e4m3fn";
}

// A code book's numbers end at 1: what is stored needs a scale, or is scaled by
// whoever asks for codes alone.
static LogicalResult verifyBook(const StorageWord &word, FormatAttr format, bool ruled, EmitError emitError) {
  if (!getCodecFacts(format).table)
    return success();
  if (!word.block && (ruled || word.stream != "copy"))
    return emitError() << ": the numbers of " << word.format
                       << " end at 1; it is for states with a scale for each block, as m=" << word.format << ":256";
  if (word.round.value_or(Round::NearestEven) != Round::NearestEven)
    return emitError() << ": a code book has the nearest number alone";
  return success();
}

static LogicalResult verifyCompanding(const StorageWord &word, EmitError emitError) {
  if (!word.companding)
    return success();
  bool root = word.companding == Companding::Sqrt;
  std::string says = (" says " + stringifyCompanding(*word.companding)).str();
  StringRef format = root ? "uint8" : "int8";
  if (word.format != format || !word.block)
    return emitError() << says << ", which is of codes in " << format << " with a scale for each block, as "
                       << (root ? "v=uint8:32:f16,sqrt" : "m=int8:32:f16,softsign");
  if (word.stream == "copy")
    return emitError() << says << " of a copy; it is for states";
  if (word.scale == "ocp.e8m0")
    return emitError() << says << " of scales that are powers of two; they are in f16 or f32";
  if (word.hasModifiers())
    return emitError() << says << " and how codes are rounded, which FlashOptim's are to the nearest, halves up";
  return success();
}

static LogicalResult verifyColumns(const StorageWord &word, FormatAttr format, bool ruled, EmitError emitError) {
  if (!word.both)
    return success();
  if (!ruled)
    return emitError() << " says 'both' of a set without a rule; only the sweep of an update sees columns";
  return verifyTile(" says 'both'", word, format, emitError);
}

static LogicalResult verifyTensorScale(const StorageWord &word, bool ruled, EmitError emitError) {
  if (word.tensorScale == TensorScale::None)
    return success();
  if (word.format == "f32")
    return emitError() << " has a scale, and f32 needs none";
  if (!ruled && word.tensorScale != TensorScale::Current)
    return emitError() << " has a scale by the step before, and gradients have none; write current";
  return success();
}

static LogicalResult verifyPositive(const StorageWord &word, bool ruled, EmitError emitError) {
  bool state = word.stream == "states" || (!isCommon(word.stream) && word.stream != "step");
  if (word.keepPositive && !(ruled && state))
    return emitError() << " says keep_positive of '" << word.stream
                       << "'; it is for states, as v=bnb8u:256,keep_positive";
  return success();
}

static LogicalResult verifyRounding(const StorageWord &word, bool ruled, EmitError emitError) {
  if (word.hasModifiers() && ((ruled && word.stream == "grad") || isSplit(word.format) || word.stream == "step"))
    return emitError() << " says how '" << word.stream
                       << "' is rounded, which is not; leave out what follows the comma";
  if (word.reference && word.stream != "rungs")
    return emitError() << ": only rungs are rounded as the reference does; leave it out";
  if (word.reference && word.drawBits != 16)
    return emitError() << ": the reference draws 16 bits; leave out stochastic32";
  return success();
}

LogicalResult SetStorage::take(StorageWord &word) {
  bool ruled = bool(rule);
  FormatAttr format = FormatAttr::getNamed(&context, word.format);
  auto onWord = [&] { return error(word); };
  if (failed(verifyRounding(word, ruled, onWord)) || failed(verifyBook(word, format, ruled, onWord)) ||
      failed(verifyCompanding(word, onWord)) || failed(verifyColumns(word, format, ruled, onWord)) ||
      failed(verifyTensorScale(word, ruled, onWord)) || failed(verifyPositive(word, ruled, onWord)) ||
      failed(verifyBlock(word, format, onWord)))
    return failure();
  if (says(word.stream))
    return emitError(at("storage", word.column)) << "storage names '" << word.stream << "' twice; leave one out";
  words.push_back(word);
  return success();
}

//===-- Words and streams ---------------------------------------------------===//

// Why no stream is called so: what the rule calls it, the option that it needs, or what
// streams there are.
LogicalResult SetStorage::noStream(const StorageWord &word) const {
  StringRef name = word.stream;
  InFlightDiagnostic why = error(word);
  why << " names no stream of rule '" << rule.getSymName() << "' with these options";
  for (Role role : {Role::param, Role::grad})
    if (StringRef stream = stringifyRole(role); rule.getName(rule.getByRole(role)[0]) == name)
      return why << "; its " << stream << " is called " << stream << ": write " << stream << "=" << word.format;
  for (BlockArgument state : rule.getByRole(Role::state))
    if (rule.isOfUnit(state) && rule.getName(state) == name)
      return why << "; '" << name << "' is one f32 for each unit: leave it out";
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
  bool state = llvm::any_of(states, [&](auto one) { return rule.getName(one) == name && !rule.isOfUnit(one); });
  auto steps = rule.getByRole(Role::step);
  // As `states`, `step` may be said of a rule that has none.
  bool called = !steps.empty() && rule.getName(steps[0]) == name && !isCommon(name);
  bool step = !state && (name == "step" || called);
  if (step)
    name = "step";
  if (!state && !step && !isCommon(name))
    return noStream(word);
  if (name == "master" && format != "f32" && !isSplit(format))
    return error(word) << ": a master is f32, bf16+i16 or bf16+i8; write master=f32";
  if (step && format != "i64" && format != "f32")
    return error(word) << ": a step count is i64 or f32";
  bool known = name == "master" || step || (name == "states" && format == "param");
  if (!known && !FormatAttr::getNamed(&context, format))
    return error(word) << ": " << unknownFormat(format);
  return take(word);
}

// Of a set without a rule.
LogicalResult SetStorage::readGradientWord(StorageWord &word) {
  if (word.stream != "grad" && word.stream != "copy")
    return error(word) << " of a set without a rule, which has a grad and a copy";
  if (!FormatAttr::getNamed(&context, word.format))
    return error(word) << ": " << unknownFormat(word.format);
  return take(word);
}

LogicalResult SetStorage::checkOptions() {
  auto known =
      llvm::map_to_vector(rule.getByRole(Role::option), [&](BlockArgument option) { return rule.getName(option); });
  bool iterates = !rule.getBody().getOps<OrthogonalizeOp>().empty();
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
  for (BlockArgument state : rule.getByRole(Role::state)) // a state's name is a word of the line
    if (StringRef name = rule.getName(state); isCommon(name) || (counts && name == "step"))
      return emitError(rule->getLoc()) << "rule '" << rule.getSymName() << "' has a state '" << name
                                       << "', which means something else in a storage line; rename it";
  return success();
}

LogicalResult SetStorage::read() {
  if (rule && failed(checkOptions()))
    return failure();
  SmallVector<StorageWord> line;
  if (StorageProblem problem = readStorageLine(request.storage, line); !problem.why.empty())
    return emitError(at("storage", problem.column)) << problem.why;
  for (StorageWord &word : line)
    if (failed(rule ? readWord(word) : readGradientWord(word)))
      return failure();
  if (failed(checkRounding()))
    return failure();
  if (!rule)
    return success();
  bool bounded = word("copy").tensorScale == TensorScale::Bounded;
  return failure((splitsMaster() && failed(checkRemainder())) || (bounded && failed(checkBounded())) ||
                 (inRungs() && failed(checkRungs())));
}

//===-- Words beside each other ---------------------------------------------===//

// What words say of formats, one of which may be another stream's.
LogicalResult SetStorage::checkRounding() const {
  for (const StorageWord &word : words) {
    if (word.stream == "step" || !(word.hasModifiers() || word.keepPositive))
      continue;
    FormatAttr format = this->format(word.stream);
    if (format.isF32())
      return error(word) << " says how to round, and f32 needs no rounding; write " << word.stream
                         << "=f32, or another format";
    if (word.overflow == OverflowMode::NonFinite && word.stream != "rungs" && !format.getInf() &&
        format.getNan() == Nan::None)
      return error(word) << " says 'nonfinite' of " << formatName(word.stream)
                         << ", which has neither an infinity nor a NaN; leave it out or write saturate";
  }
  return success();
}

// The parameter is the upper half of its master, and rounded as that is split.
LogicalResult SetStorage::checkRemainder() const {
  if (formatName("param") != "bf16")
    return error(word("master")) << " of a parameter in " << formatName("param")
                                 << "; the upper half of an f32 is a bf16";
  if (word("param").hasModifiers())
    return error(word("master")) << " says how 'param' is rounded, and so does its own word";
  return success();
}

// A rule says that it moves a parameter as Adam or as AdamW does, with whatever gradient: {altgrad.step_bound =
// "adam"}.
LogicalResult SetStorage::checkBounded() {
  auto bound = rule->getAttrOfType<StringAttr>("altgrad.step_bound");
  shrinks = bound && bound.getValue() == "adamw";
  SmallVector<StringRef> wanted{"lr", "beta1", "beta2"};
  if (shrinks)
    wanted.push_back("decay");
  auto hypers =
      llvm::map_to_vector(rule.getByRole(Role::hyper), [&](BlockArgument hyper) { return rule.getName(hyper); });
  if (!bound || (!shrinks && bound.getValue() != "adam") || rule.getByRole(Role::step).empty() ||
      !llvm::all_of(wanted, [&](StringRef name) { return llvm::is_contained(hypers, name); }))
    return error(word("copy"))
           << " of rule '" << rule.getSymName()
           << "', whose steps have no bound that is known; adam's and adamw's have one, write delayed or current";
  for (BlockArgument state : states)
    if (StringRef name = rule.getName(state); formatName(name) != "f32")
      return error(word("copy")) << " and state '" << name << "' in " << formatName(name)
                                 << "; the bound is of states in f32";
  StringRef master = word("master").format;
  if (inRungs() || (master != "f32" && master != "bf16+i16" && formatName("param") != "f32"))
    return error(word("copy")) << " of a parameter in " << formatName(inRungs() ? "rungs" : "param")
                               << "; the bound is of parameters or masters in f32";
  return success();
}

static bool holds(const Format &format, const Format &grid) {
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
  if (says("master"))
    return error(word("rungs")) << " beside a master; the rung is all there is of a parameter, leave the master out";
  if (word("param").hasModifiers())
    return error(word("rungs")) << " beside how param is rounded; say that of the rungs";
  if (!holds(format("param").toFormat(), format("rungs").toFormat()))
    return error(word("rungs")) << ": " << formatName("param")
                                << " does not hold all its numbers; store its codes with param=" << formatName("rungs")
                                << ", or the numbers with param=f32";
  return success();
}

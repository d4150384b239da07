// A rule and a line of storage ==> streams, scalars, an update and its writes.
#include "codegen/step/SetWriter.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

StringRef SetWriter::formatOf(StringRef stream) {
  auto it = formats.find(stream);
  bool state = !llvm::is_contained(commonStorageWords(), stream);
  if (it == formats.end() && state && formats.count("states"))
    return formatOf("states");
  StringRef format = it == formats.end() ? "f32" : StringRef(it->second);
  return format == "param" ? formatOf("param") : format;
}

Format SetWriter::codecOf(StringRef stream) {
  return FormatAttr::getNamed(loc.getContext(), formatOf(stream)).toFormat();
}

std::string SetWriter::typeOf(StringRef stream) {
  bool packed = blockOf(stream) > 1 && codecOf(stream).canPack();
  return ("!altgrad.tensors<" + formatOf(stream) + (packed ? " packed>" : ">"))
      .str();
}

// How a stream is rounded: what is said of it, or of all states.
StorageWord SetWriter::wordOf(StringRef stream) {
  bool state = !llvm::is_contained(commonStorageWords(), stream);
  bool named = formats.count(stream) || !state;
  return words.lookup(named ? stream : "states");
}

// Its number among the stores of an element, which no other word changes.
unsigned SetWriter::storeOf(StringRef stream) {
  if (stream == "param" || stream == "grad")
    return 0;
  if (stream == "copy")
    return 1;
  for (auto [index, state] : llvm::enumerate(rule.getByRole("state")))
    if (rule.getName(state) == stream)
      return 2 + index;
  llvm_unreachable("a stream that is not stored");
}

bool SetWriter::draws() {
  return drawsRungs() || llvm::any_of(words, [](const auto &entry) {
    return entry.second.round == Round::Stochastic;
  });
}

//===-- Signature and body
//--------------------------------------------------===//

Named SetWriter::named(StringRef key, bool hasValues) {
  return {text.name((key + suffix()).str(), hasValues), key.str()};
}

void SetWriter::stream(StringRef access, StringRef role, const Named &name,
                       StringRef type) {
  text.argument(access + " " + role + " " + name.declared() + ": " + type +
                ofSet(/*list=*/true));
}

std::string SetWriter::load(const Named &name, StringRef type) {
  text.line("%" + name.name + ".old = dequantize %" + name.name + " : " + type);
  return "%" + name.name + ".old";
}

// `value` goes to `target`, rounded where its format is not f32.
void SetWriter::stored(const Named &target, StringRef value, StringRef stream,
                       bool scaled) {
  std::string type = typeOf(stream), name = "%" + target.name;
  auto format = FormatAttr::getNamed(loc.getContext(), formatOf(stream));
  std::string code = value.str(), draw;
  if (!format.isF32()) {
    StorageWord word = wordOf(stream);
    Round round = word.round.value_or(Round::NearestEven);
    OverflowMode overflow = word.overflow.value_or(
        format.overflowsToInf() && !scaled ? OverflowMode::NonFinite
                                           : OverflowMode::Saturate);
    if (round == Round::Stochastic) {
      text.line(name + ".draw = draw seed(%seed) step(%seed.next) store(" +
                Twine(storeOf(stream)) + ") : i" + Twine(word.drawBits));
      draw = " draw(" + name + ".draw" + (word.drawBits == 16 ? ")" : " : i32)");
    }
    code = name + ".code";
    text.line(code + " = quantize " + value + " round<" +
              stringifyRound(round) + ">" + draw + " overflow<" +
              stringifyOverflowMode(overflow) + "> : " + type);
  }
  text.writes.push_back(code + " to " + name + " : " + type);
}

// The count is the step's own: a rule may have none, and an f32 stops at 2^24.
void altgrad::takeSeed(StepText &text, bool always) {
  text.argument("in random %seed: i64");
  text.argument("inout random %draws: i64");
  text.line("%seed.one = arith.constant 1 : i64");
  text.line("%seed.next = arith.addi %draws, %seed.one : i64");
  (always ? text.always : text.writes).push_back("%seed.next to %draws : i64");
}

void SetWriter::takeGradient(bool changes) {
  grad = isRuled() ? only("grad") : named("grad");
  bool inPlace = changes && !isRuled() && !formats.count("copy");
  stream(inPlace ? "inout" : "in", "grad", grad, typeOf("grad"));
  gradient = unclipped = "%" + grad.name + ".value";
}

void SetWriter::dequantizeGradient() {
  text.line(gradient + " = dequantize %" + grad.name + " : " + typeOf("grad"));
}

void SetWriter::unscaleGradient(StringRef factor) {
  text.line(gradient + ", %" + grad.name + ".finite = unscale %" + grad.name +
            " by " + factor + " : " + typeOf("grad"));
}

std::string SetWriter::takeHypers() {
  SmallVector<std::string> values;
  for (BlockArgument hyper : rule.getByRole("hyper")) {
    Named name = named(rule.getName(hyper), /*hasValues=*/false);
    std::string value;
    if (Attribute number = rule.getDefault(hyper)) {
      llvm::raw_string_ostream out(value);
      out << " = ";
      number.print(out, /*elideType=*/true);
    }
    text.argument("in hyper " + name.declared() + ": f64 per_group" +
                  ofSet(/*list=*/false) + value);
    values.push_back("%" + name.name);
    hypers[name.key] = values.back();
  }
  return llvm::join(values, ", ");
}

void SetWriter::scaleBy(StringRef factor, StringRef word) {
  std::string scaled = ("%" + grad.name + "." + word).str();
  text.line(scaled + " = scale " + gradient + " by " + factor);
  gradient = scaled;
}

void SetWriter::takeNorm(StringRef kind) {
  text.line("%clip.norm" + suffix() + " = norm " + kind + " " + gradient +
            " over tensor");
  Named norm = named("norm");
  text.argument("out norm " + norm.declared() + ": f32 per_tensor" +
                ofSet(/*list=*/false));
  text.always.push_back("%clip.norm" + suffix() + " to %" + norm.name +
                        " : f32");
}

void SetWriter::writeGradient(StringRef condition) {
  size_t before = text.writes.size();
  if (formats.count("copy"))
    writeCopy(gradient);
  else
    stored(grad, gradient, "grad");
  if (!formats.count("copy") && !condition.empty())
    return;
  moveToAlways(before);
}

void SetWriter::moveToAlways(size_t from) {
  text.always.append(text.writes.begin() + from, text.writes.end());
  text.writes.truncate(from);
}

// The number of this step, one more than the last; "" where the rule counts
// none.
std::string SetWriter::countStep() {
  if (rule.getByRole("step").empty())
    return "";
  Named name = only("step");
  bool real = formats.lookup("step") == "f32";
  std::string type = real ? "f32" : "i64", count = "%" + name.name;
  text.argument("inout step " + name.declared() + ": " + type + " per_tensor" +
                ofSet(/*list=*/false));
  text.line(count + ".one = arith.constant " + (real ? "1.0" : "1") + " : " +
            type);
  text.line(count + ".next = arith." + (real ? "addf " : "addi ") + count +
            ", " + count + ".one : " + type);
  if (real)
    text.line(count + ".number = arith.fptosi " + count + ".next : f32 to i64");
  text.writes.push_back(count + ".next to " + count + " : " + type);
  this->count = count + (real ? ".number" : ".next");
  return " step(" + this->count + ")";
}

void SetWriter::update() {
  Named param = only("param"), master;
  bool splits = splitsMaster(), keepsMaster = formats.count("master") && !splits;
  stream(keepsMaster ? "out" : "inout", "param", param, typeOf("param"));
  if (keepsMaster) {
    master = named("master");
    stream("inout", "master", master, typeOf("master"));
  }
  std::string old = splits        ? takeRemainder(param)
                    : keepsMaster ? load(master, typeOf("master"))
                                  : load(param, typeOf("param"));
  std::string updated = "%" + param.name + (inRungs() ? ".change" : ".new");
  std::string operand = inRungs() ? loadRung(param, old) : old;
  before = old, after = updated;
  if (!clippedOver.empty())
    clipToParameter();
  SmallVector<std::string> operands, results{updated};
  SmallVector<Named> stateNames;
  llvm::StringMap<Named> scales;
  for (BlockArgument state : states) {
    Named name = stateNames.emplace_back(named(rule.getName(state)));
    stream("inout", "state", name, typeOf(name.key));
    bool blocked = blockOf(name.key) > 1;
    if (blocked)
      scales[name.key] = takeScales("inout", name.key);
    operands.push_back(blocked ? loadBlocks(name, scales[name.key])
                               : load(name, typeOf(name.key)));
    results.push_back("%" + name.name + ".new");
  }
  std::string hypers = takeHypers(), step = countStep();
  std::string options = request.options.empty()
                            ? ""
                            : " {" + llvm::join(request.options, ", ") + "}";
  text.line(llvm::join(results, ", ") + " = update @" + rule.getSymName() +
            options + " param(" + operand + ") grad(" + gradient + ") state(" +
            llvm::join(operands, ", ") + ") hyper(" + hypers + ")" + step +
            (inRungs() ? " value(" + old + ")" : ""));
  code = "%" + param.name + ".code";
  if (inRungs())
    after = updated = storeRung(param, updated);
  else if (splits)
    storeParts(param);
  else
    stored(param, updated, "param");
  if (keepsMaster)
    stored(master, updated, "master");
  if (formats.count("copy"))
    writeCopy(updated);
  for (const Named &state : stateNames)
    if (blockOf(state.key) > 1)
      storeBlocks(state, scales[state.key], "%" + state.name + ".new");
    else
      stored(state, keptList(state), state.key);
}

//===-- The step
//------------------------------------------------------------===//

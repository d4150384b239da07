// Rules and lines of storage ==> the text of a step.
#include "codegen/driver/GenerateStep.h"

#include "altgrad/bundle.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace altgrad;

namespace {
// What all sets of a step write to.
struct StepText {
  std::string signature, body;
  SmallVector<std::string> writes, always; // of the commit
  std::string condition;                   // of `writes`; "": none
  llvm::StringSet<> names;

  // A name that no other argument has: names of a rule may be any.
  std::string name(StringRef wanted) {
    std::string name = wanted.str();
    while (!names.insert(name).second)
      name += "_";
    return name;
  }
  void argument(const Twine &text) {
    signature += (signature.empty() ? "" : ",\n    ") + text.str();
  }
  void line(const Twine &text) { body += "  " + text.str() + "\n"; }
};

// An argument of the step: its name there, and what the rule calls it.
struct Named {
  std::string name, key;
  std::string declared() const {
    return "%" + name + (name == key ? "" : " as " + key);
  }
};

// One set: its part of the signature, its update and its writes.
class SetWriter {
public:
  SetWriter(const SetRequest &request, RuleOp rule, unsigned set, bool several,
            StepText &text)
      : request(request), rule(rule), set(set), several(several), text(text) {}
  LogicalResult read();
  void takeGradient();
  void dequantizeGradient();
  void unscaleGradient(StringRef factor);
  void update();

  std::string gradient; // the value that the update takes
  Named grad;

private:
  LogicalResult readWord(StringRef word);
  LogicalResult checkNames();
  std::string typeOf(StringRef stream);
  Named named(StringRef key);
  Named only(StringRef role) {
    return named(rule.getName(rule.getByRole(role)[0]));
  }
  std::string ofSet(bool list) {
    return several && (!list || set) ? " set " + std::to_string(set) : "";
  }
  void stream(StringRef access, StringRef role, const Named &name,
              StringRef type);
  std::string load(const Named &name, StringRef type);
  void stored(const Named &target, StringRef value, StringRef type);
  std::string countStep();
  std::string takeHypers();
  InFlightDiagnostic error() { return emitError(rule.getLoc()); }

  const SetRequest &request;
  RuleOp rule;
  unsigned set;
  bool several;
  StepText &text;
  llvm::StringMap<std::string> formats;
  SmallVector<BlockArgument> states;
};
} // namespace

static constexpr StringLiteral storageWords[] = {"param", "grad", "master",
                                                 "copy", "states"};

//===-- Storage
//-------------------------------------------------------------===//

// A word of a storage line: a stream, `states` or `step`, and a format.
LogicalResult SetWriter::readWord(StringRef word) {
  auto [name, format] = word.split('=');
  bool state = llvm::any_of(states, [&, name = name](BlockArgument state) {
    return rule.getName(state) == name;
  });
  auto steps = rule.getByRole("step");
  bool step = !state && !steps.empty() &&
              (name == "step" || rule.getName(steps[0]) == name);
  if (step)
    name = "step";
  if (!state && !step && !llvm::is_contained(storageWords, name))
    return error() << "storage '" << word << "' names no stream of rule '"
                   << rule.getSymName() << "' with these options";
  bool known = step ? format == "i64" || format == "f32"
                    : (name == "states" && format == "param") ||
                          FormatAttr::getNamed(rule.getContext(), format);
  if (!known)
    return error() << "storage '" << word << "' has an unknown format";
  if (!formats.try_emplace(name, format.str()).second)
    return error() << "storage names '" << name << "' twice";
  return success();
}

LogicalResult SetWriter::read() {
  SmallVector<StringRef> options(request.options.begin(),
                                 request.options.end());
  for (StringRef option : options)
    if (llvm::none_of(rule.getByRole("option"), [&](BlockArgument argument) {
          return rule.getName(argument) == option;
        }))
      return error() << "rule '" << rule.getSymName() << "' has no option '"
                     << option << "'";
  states = rule.getStoredStates(options);
  if (failed(checkNames()))
    return failure();
  SmallVector<StringRef> words;
  StringRef(request.storage).split(words, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef word : words)
    if (failed(readWord(word)))
      return failure();
  if (formats.count("master") && formats["master"] != "f32")
    return error() << "storage 'master=" << formats["master"]
                   << "': a master is f32";
  return success();
}

// A state's name is a word of the storage line.
LogicalResult SetWriter::checkNames() {
  bool counts = !rule.getByRole("step").empty();
  for (BlockArgument state : rule.getByRole("state"))
    if (StringRef name = rule.getName(state);
        llvm::is_contained(storageWords, name) || (counts && name == "step"))
      return error() << "rule '" << rule.getSymName() << "' has a state '"
                     << name
                     << "', which means something else in a storage line";
  return success();
}

std::string SetWriter::typeOf(StringRef stream) {
  auto it = formats.find(stream);
  bool state = !llvm::is_contained(storageWords, stream);
  if (it == formats.end() && state && formats.count("states"))
    return typeOf("states");
  std::string format = it == formats.end() ? "f32" : it->second;
  return format == "param" ? typeOf("param")
                           : "!altgrad.tensors<" + format + ">";
}

//===-- Signature and body
//--------------------------------------------------===//

Named SetWriter::named(StringRef key) {
  std::string suffix = set ? "_" + std::to_string(set) : "";
  return {text.name((key + suffix).str()), key.str()};
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
void SetWriter::stored(const Named &target, StringRef value, StringRef type) {
  StringRef format = type.drop_front(StringRef("!altgrad.tensors<").size());
  std::string name = "%" + target.name, code = value.str();
  if (format != "f32>") {
    code = name + ".code";
    text.line(code + " = quantize " + value + " round<nearest_even> overflow<" +
              (format.starts_with("ocp.") ? "saturate" : "nonfinite") +
              "> : " + type);
  }
  text.writes.push_back(code + " to " + name + " : " + type.str());
}

void SetWriter::takeGradient() {
  grad = only("grad");
  stream("in", "grad", grad, typeOf("grad"));
  gradient = "%" + grad.name + ".value";
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
    Named name = named(rule.getName(hyper));
    std::string value;
    if (Attribute number = rule.getDefault(hyper)) {
      llvm::raw_string_ostream out(value);
      out << " = ";
      number.print(out, /*elideType=*/true);
    }
    text.argument("in hyper " + name.declared() + ": f64 per_group" +
                  ofSet(/*list=*/false) + value);
    values.push_back("%" + name.name);
  }
  return llvm::join(values, ", ");
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
  return " step(" + count + (real ? ".number)" : ".next)");
}

void SetWriter::update() {
  Named param = only("param"), master;
  bool keepsMaster = formats.count("master");
  stream(keepsMaster ? "out" : "inout", "param", param, typeOf("param"));
  if (keepsMaster) {
    master = named("master");
    stream("inout", "master", master, typeOf("master"));
  }
  std::string old = keepsMaster ? load(master, typeOf("master"))
                                : load(param, typeOf("param"));
  std::string updated = "%" + param.name + ".new";
  SmallVector<std::string> operands, results{updated};
  SmallVector<Named> stateNames;
  for (BlockArgument state : states) {
    Named name = stateNames.emplace_back(named(rule.getName(state)));
    stream("inout", "state", name, typeOf(name.key));
    operands.push_back(load(name, typeOf(name.key)));
    results.push_back("%" + name.name + ".new");
  }
  std::string hypers = takeHypers(), step = countStep();
  std::string options = request.options.empty()
                            ? ""
                            : " {" + llvm::join(request.options, ", ") + "}";
  text.line(llvm::join(results, ", ") + " = update @" + rule.getSymName() +
            options + " param(" + old + ") grad(" + gradient + ") state(" +
            llvm::join(operands, ", ") + ") hyper(" + hypers + ")" + step);
  stored(param, updated, typeOf("param"));
  if (keepsMaster)
    stored(master, updated, typeOf("master"));
  if (formats.count("copy")) {
    Named copy = named("copy");
    stream("out", "copy", copy, typeOf("copy"));
    stored(copy, updated, typeOf("copy"));
  }
  for (const Named &state : stateNames)
    stored(state, "%" + state.name + ".new", typeOf(state.key));
}

//===-- The step
//------------------------------------------------------------===//

// torch's protocol: the scale to divide by, and whether to skip.
static void takeScaler(StepText &text, MutableArrayRef<SetWriter> sets) {
  text.argument("in scale %grad_scale: f32");
  text.argument("in flag %found_inf: f32");
  text.line("%scale.scale64 = arith.extf %grad_scale : f32 to f64");
  text.line("%scale.one64 = arith.constant 1.0 : f64");
  text.line("%scale.inverse64 = arith.divf %scale.one64, %scale.scale64 : f64");
  text.line("%scale.inverse = arith.truncf %scale.inverse64 : f64 to f32");
  text.line("%skip.none = arith.constant 0.0 : f32");
  text.line("%skip.not = arith.cmpf oeq, %found_inf, %skip.none : f32");
  for (SetWriter &set : sets)
    set.unscaleGradient("%scale.inverse");
  text.condition = "%skip.not";
}

// A check of our own: skip where a gradient is not finite, and say so.
static void takeInverseScale(StepText &text, MutableArrayRef<SetWriter> sets) {
  text.argument("in inv_scale %inv_scale: f32");
  text.argument("out flag %found_inf: f32");
  for (auto [index, set] : llvm::enumerate(sets)) {
    set.unscaleGradient("%inv_scale");
    std::string finite = "%" + set.grad.name + ".finite";
    if (index) {
      std::string all = "%skip.not" + std::to_string(index);
      text.line(all + " = arith.andi " + text.condition + ", " + finite +
                " : i1");
      finite = all;
    }
    text.condition = finite;
  }
  text.line("%skip.none = arith.constant 0.0 : f32");
  text.line("%skip.some = arith.constant 1.0 : f32");
  text.line("%skip.found = arith.select " + text.condition +
            ", %skip.none, %skip.some : f32");
  text.always.push_back("%skip.found to %found_inf : f32");
}

static void clip(StepText &text, MutableArrayRef<SetWriter> sets) {
  text.argument("in max_norm %max_norm: f32");
  text.argument("out norm %norm: f32");
  SmallVector<std::string> given, clipped;
  for (SetWriter &set : sets) {
    given.push_back(set.gradient);
    set.gradient = "%" + set.grad.name + ".clipped";
    clipped.push_back(set.gradient);
  }
  text.line(llvm::join(clipped, ", ") + ", %clip.norm = clip_by_global_norm " +
            llvm::join(given, ", ") + " to %max_norm");
  text.always.push_back("%clip.norm to %norm : f32");
}

static std::string commitOf(const StepText &text) {
  SmallVector<std::string> always(text.always);
  if (text.condition.empty())
    llvm::append_range(always, text.writes);
  std::string commit = "  commit ";
  if (!always.empty())
    commit += "always\n      " + llvm::join(always, ",\n      ");
  if (!text.condition.empty())
    commit += "\n      if " + text.condition + "\n      " +
              llvm::join(text.writes, ",\n      ");
  return commit + "\n";
}

std::string altgrad::readSet(StringRef text, SetRequest &set) {
  StringRef rest = text.trim(' ');
  if (!rest.consume_front("rule="))
    return ("set '" + text + "' does not begin with rule=").str();
  size_t end = std::min(rest.find_first_of(" {"), rest.size());
  set.rule = rest.substr(0, end).str();
  rest = rest.substr(end);
  if (rest.consume_front("{")) {
    auto [options, behind] = rest.split('}');
    if (!rest.contains('}') || (!behind.empty() && behind[0] != ' '))
      return "rule '" + set.rule + "{" + rest.str() + "' lacks a closing brace";
    SmallVector<StringRef> words;
    options.split(words, ',', -1, /*KeepEmpty=*/false);
    for (StringRef word : words)
      set.options.push_back(word.trim().str());
    rest = behind;
  }
  set.storage = rest.trim(' ').str();
  return "";
}

FailureOr<std::string> altgrad::generateStep(const StepRequest &request,
                                             ArrayRef<RuleOp> rules) {
  StepText text;
  for (StringRef name :
       {"grad_scale", "found_inf", "inv_scale", "max_norm", "norm"})
    text.name(name);
  std::vector<SetWriter> sets;
  SmallVector<StringRef> names;
  bool several = rules.size() > 1;
  for (auto [index, set] : llvm::enumerate(request.sets)) {
    RuleOp rule = rules[index];
    sets.emplace_back(set, rule, index, several, text);
    if (failed(sets.back().read()))
      return failure();
    if (!llvm::is_contained(names, rule.getSymName()))
      names.push_back(rule.getSymName());
  }
  for (SetWriter &set : sets)
    set.takeGradient();
  if (request.scaler)
    takeScaler(text, sets);
  else if (request.unscale)
    takeInverseScale(text, sets);
  else
    llvm::for_each(sets, [](SetWriter &set) { set.dequantizeGradient(); });
  if (request.clip)
    clip(text, sets);
  for (SetWriter &set : sets)
    set.update();
  return "altgrad.step @" + llvm::join(names, "_") + "_step(\n    " +
         text.signature + ") {\n" + text.body + commitOf(text) + "}\n";
}

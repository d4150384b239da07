// A rule and a line of storage ==> the text of a step.
#include "codegen/emit/Emit.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace altgrad;

namespace {
class StepWriter {
public:
  StepWriter(const StepRequest &request, RuleOp rule)
      : request(request), rule(rule), signatureText(signature),
        bodyText(body) {}
  FailureOr<std::string> write();

private:
  LogicalResult readStorage();
  LogicalResult checkNames();
  std::string formatOf(StringRef stream);
  void argument(const Twine &text);
  void stored(StringRef name, StringRef value);
  std::string gradient();
  void commits(bool conditional);

  InFlightDiagnostic error() { return emitError(rule.getLoc()); }
  StringRef nameOf(StringRef role) {
    return rule.getName(rule.getByRole(role)[0]);
  }

  const StepRequest &request;
  RuleOp rule;
  llvm::StringMap<std::string> formats;
  SmallVector<BlockArgument> states;
  std::string signature, body;
  llvm::raw_string_ostream signatureText, bodyText;
  SmallVector<std::string> writes, always;
  std::string condition;
};
} // namespace

static bool isFormat(MLIRContext *context, StringRef name) {
  return static_cast<bool>(FormatAttr::getNamed(context, name));
}

// "param=bf16 m=f32": words of a stream and a format.
LogicalResult StepWriter::readStorage() {
  SmallVector<StringRef> options(request.options.begin(),
                                 request.options.end());
  for (StringRef option : options)
    if (llvm::none_of(rule.getByRole("option"), [&](BlockArgument argument) {
          return rule.getName(argument) == option;
        }))
      return error() << "rule '" << rule.getSymName() << "' has no option '"
                     << option << "'";
  states = rule.getStoredStates(options);
  SmallVector<StringRef> words;
  StringRef(request.storage).split(words, ' ', -1, /*KeepEmpty=*/false);
  for (StringRef word : words) {
    StringRef name = word.split('=').first, format = word.split('=').second;
    auto steps = rule.getByRole("step");
    bool step = !steps.empty() && rule.getName(steps[0]) == name;
    bool known = name == "param" || name == "grad" || name == "master" ||
                 name == "copy" ||
                 llvm::any_of(states, [&](BlockArgument state) {
                   return rule.getName(state) == name;
                 });
    if (!known && !step)
      return error() << "storage '" << word << "' names no stream of rule '"
                     << rule.getSymName() << "' with these options";
    if (step ? format != "i64" && format != "f32"
             : !isFormat(rule.getContext(), format))
      return error() << "storage '" << word << "' has an unknown format";
    if (!formats.try_emplace(name, format.str()).second)
      return error() << "storage names '" << name << "' twice";
  }
  if (formats.count("master") && formats["master"] != "f32")
    return error() << "storage 'master=" << formats["master"]
                   << "': a master is f32";
  return success();
}

LogicalResult StepWriter::checkNames() {
  for (StringAttr name : rule.getNames().getAsRange<StringAttr>())
    for (StringRef taken : {"param", "grad", "master", "copy", "max_norm", "norm", "inv_scale",
                            "grad_scale", "found_inf"})
      if (name == taken)
        return error() << "rule '" << rule.getSymName() << "' has a value '"
                       << taken << "', a name that a generated step needs";
  return success();
}

std::string StepWriter::formatOf(StringRef stream) {
  auto it = formats.find(stream);
  return it == formats.end() ? "f32" : it->second;
}

void StepWriter::argument(const Twine &text) {
  if (!signature.empty())
    signatureText << ",\n    ";
  signatureText << text;
}

// `%value` goes to the stream `name`, rounded where its format is not f32.
void StepWriter::stored(StringRef name, StringRef value) {
  std::string format =
      name == nameOf("param") ? formatOf("param") : formatOf(name);
  std::string type = "!altgrad.tensors<" + format + ">";
  if (format == "f32") {
    writes.push_back(("%" + value + " to %" + name + " : " + type).str());
    return;
  }
  StringRef overflow = StringRef(format).starts_with("ocp.") ? "saturate"
                                                             : "nonfinite";
  bodyText << "  %" << name << ".code = quantize %" << value
           << " round<nearest_even> overflow<" << overflow << "> : " << type
           << "\n";
  writes.push_back(("%" + name + ".code to %" + name + " : " + type).str());
}

// The gradient as the rule sees it: unscaled, then clipped.
std::string StepWriter::gradient() {
  StringRef name = nameOf("grad");
  std::string type = "!altgrad.tensors<" + formatOf("grad") + ">";
  argument("in %" + name + ": " + type);
  std::string value = (name + ".value").str();
  if (request.scaler) {
    argument("in %grad_scale: f32");
    argument("in %found_inf: f32");
    bodyText << "  %scale.scale64 = arith.extf %grad_scale : f32 to f64\n"
             << "  %scale.one64 = arith.constant 1.0 : f64\n"
             << "  %scale.inverse64 = arith.divf %scale.one64, %scale.scale64 : f64\n"
             << "  %scale.inverse = arith.truncf %scale.inverse64 : f64 to f32\n"
             << "  %skip.none = arith.constant 0.0 : f32\n"
             << "  %skip.not = arith.cmpf oeq, %found_inf, %skip.none : f32\n"
             << "  %" << value << ", %skip.unused = unscale %" << name
             << " by %scale.inverse : " << type << "\n";
    condition = "skip.not";
  } else if (request.unscale) {
    argument("in %inv_scale: f32");
    argument("out %found_inf: f32");
    bodyText << "  %" << value << ", %skip.not = unscale %" << name
             << " by %inv_scale : " << type << "\n"
             << "  %skip.none = arith.constant 0.0 : f32\n"
             << "  %skip.some = arith.constant 1.0 : f32\n"
             << "  %skip.found = arith.select %skip.not, %skip.none, %skip.some : f32\n";
    always.push_back("%skip.found to %found_inf : f32");
    condition = "skip.not";
  } else {
    bodyText << "  %" << value << " = dequantize %" << name << " : " << type
             << "\n";
  }
  if (request.clip) {
    argument("in %max_norm: f32");
    argument("out %norm: f32");
    bodyText << "  %" << name << ".clipped, %clip.norm = clip_by_global_norm %"
             << value << " to %max_norm\n";
    always.push_back("%clip.norm to %norm : f32");
    value = (name + ".clipped").str();
  }
  return value;
}

FailureOr<std::string> StepWriter::write() {
  if (failed(readStorage()) || failed(checkNames()))
    return failure();
  std::string gradientValue = gradient();
  StringRef param = nameOf("param");
  bool master = formats.count("master");
  std::string source = master ? "master" : param.str();
  std::string paramType = "!altgrad.tensors<" + formatOf("param") + ">";
  argument((master ? "out %" : "inout %") + param + ": " + paramType);
  if (master)
    argument("inout %master: !altgrad.tensors<f32>");
  bodyText << "  %" << param << ".old = dequantize %" << source << " : "
           << (master ? "!altgrad.tensors<f32>" : paramType) << "\n";
  std::string stateOperands, results = ("%" + param + ".new").str();
  for (BlockArgument state : states) {
    StringRef name = rule.getName(state);
    std::string type = "!altgrad.tensors<" + formatOf(name) + ">";
    argument("inout %" + name + ": " + type);
    bodyText << "  %" << name << ".old = dequantize %" << name << " : " << type
             << "\n";
    stateOperands += (stateOperands.empty() ? "%" : ", %") + name.str() +
                     ".old";
    results += ", %" + name.str() + ".new";
  }
  std::string hypers;
  for (BlockArgument hyper : rule.getByRole("hyper")) {
    StringRef name = rule.getName(hyper);
    argument("in %" + name + ": f64 per_group");
    hypers += (hypers.empty() ? "%" : ", %") + name.str();
  }
  std::string step;
  for (BlockArgument count : rule.getByRole("step")) {
    StringRef name = rule.getName(count);
    bool real = formats.lookup(name) == "f32";
    std::string type = real ? "f32" : "i64";
    argument("inout %" + name + ": " + type + " per_tensor");
    bodyText << "  %step.one = arith.constant " << (real ? "1.0" : "1") << " : "
             << type << "\n  %step.next = arith." << (real ? "addf" : "addi")
             << " %" << name << ", %step.one : " << type << "\n";
    if (real)
      bodyText << "  %step.number = arith.fptosi %step.next : f32 to i64\n";
    step = real ? " step(%step.number)" : " step(%step.next)";
    writes.push_back(("%step.next to %" + name + " : " + type).str());
  }
  bodyText << "  " << results << " = update @" << rule.getSymName();
  if (!request.options.empty())
    bodyText << " {" << llvm::join(request.options, ", ") << "}";
  bodyText << " param(%" << param << ".old) grad(%" << gradientValue
           << ") state(" << stateOperands << ") hyper(" << hypers << ")" << step
           << "\n";
  stored(param, (param + ".new").str());
  if (master)
    writes.push_back("%" + param.str() +
                     ".new to %master : !altgrad.tensors<f32>");
  if (formats.count("copy")) {
    argument("out %copy: !altgrad.tensors<" + formatOf("copy") + ">");
    stored("copy", (param + ".new").str());
  }
  for (BlockArgument state : states)
    stored(rule.getName(state), (rule.getName(state) + ".new").str());
  std::string commit = "  commit ";
  if (condition.empty())
    llvm::append_range(always, writes);
  if (!always.empty())
    commit += "always\n      " + llvm::join(always, ",\n      ");
  if (!condition.empty())
    commit += "\n      if %" + condition + "\n      " +
              llvm::join(writes, ",\n      ");
  return "altgrad.step @" + rule.getSymName().str() + "_step(\n    " + signature +
         ") {\n" + body + commit + "\n}\n";
}

FailureOr<std::string> altgrad::generateStep(const StepRequest &request,
                                             RuleOp rule) {
  return StepWriter(request, rule).write();
}

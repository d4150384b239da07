// Sets of tensors ==> the text of a step that updates all of them.
#include "codegen/step/AdaptiveClip.h"
#include "codegen/step/LossScaler.h"

#include "passes/RulePath.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

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

// How many steps there were, and how many of them were clipped, to `bound`.
static void countSteps(StepText &text, StringRef bound) {
  text.argument("inout statistic %steps: i64");
  text.line("%steps.one = arith.constant 1 : i64");
  text.line("%steps.next = arith.addi %steps, %steps.one : i64");
  text.always.push_back("%steps.next to %steps : i64");
  if (bound.empty())
    return;
  text.argument("inout statistic %clipped_steps: i64");
  text.line("%clip.more = arith.addi %clipped_steps, %steps.one : i64");
  text.line("%clip.over = arith.cmpf ogt, %clip.norm, " + bound + " : f32");
  text.line("%clip.count = arith.select %clip.over, %clip.more, "
            "%clipped_steps : i64");
  // A skipped step is none, whatever its norm.
  text.writes.push_back("%clip.count to %clipped_steps : i64");
}

// The factor that clips to one norm: at most 1, and 1 unless `finite`.
static std::string coefficientFor(StepText &text, StringRef suffix,
                                  StringRef finite) {
  std::string most = ("%clip.most" + suffix).str();
  text.line(most + " = clip_coefficient %clip.norm" + suffix + " to %max_norm");
  if (finite.empty())
    return most;
  std::string kept = ("%clip.kept" + suffix).str(), one = kept + ".one";
  text.line(one + " = arith.constant 1.0 : f32");
  text.line(kept + " = arith.select " + finite + ", " + most + ", " + one +
            " : f32");
  return kept;
}

// A norm of any kind, of all or of each tensor, by which lists are clipped or
// not. Returns the factor that is common to all tensors, "" where there is
// none.
static std::string takeNorms(StepText &text, MutableArrayRef<SetWriter> sets,
                             const StepRequest &request, StringRef finite) {
  StringRef kind = stringifyNormKind(request.norm.value_or(NormKind::L2));
  if (request.clip)
    text.argument("in max_norm %max_norm: f32");
  if (request.perTensor) {
    for (SetWriter &set : sets) {
      set.takeNorm(kind);
      if (request.clip)
        set.scaleBy(coefficientFor(text, set.suffix(), finite));
    }
    return "";
  }
  takeGlobalNorm(text, sets, kind);
  if (!request.clip)
    return "";
  std::string factor = coefficientFor(text, "", finite);
  for (SetWriter &set : sets)
    set.scaleBy(factor);
  return factor;
}

// torch.nn.utils.clip_grad_value_: a NaN stays one.
static void clipValue(StepText &text, MutableArrayRef<SetWriter> sets) {
  text.argument("in max_norm %clip_value: f32");
  text.line("%clip.least = arith.negf %clip_value : f32");
  for (SetWriter &set : sets) {
    std::string name = "%" + set.grad.name;
    text.line(name + ".element = element " + set.gradient);
    text.line(name + ".raised = arith.maximumf " + name +
              ".element, %clip.least : f32");
    text.line(name + ".bounded = arith.minimumf " + name +
              ".raised, %clip_value : f32");
    set.gradient = name + ".clipped";
    text.line(set.gradient + " = collect " + name +
              ".bounded : f32 to !altgrad.reals");
  }
}

// Sets without a rule: nothing is skipped, and a gradient that is not finite
// leaves all of them unclipped. Where every gradient would be multiplied by 1,
// none is written.
static void changeGradients(StepText &text, MutableArrayRef<SetWriter> sets,
                            const StepRequest &request) {
  std::string finite, factor;
  if (request.unscale) {
    takeInverseScale(text, sets);
    finite = std::exchange(text.condition, "");
    factor = "%inv_scale";
  } else {
    llvm::for_each(sets, [](SetWriter &set) { set.dequantizeGradient(); });
  }
  if (request.clip || request.norm) {
    std::string clip = takeNorms(text, sets, request, finite);
    if (request.clip && !clip.empty() && !factor.empty())
      text.line("%change.factor = arith.mulf " + factor + ", " + clip +
                " : f32");
    factor = !request.clip    ? factor
             : factor.empty() ? clip
             : clip.empty()   ? ""
                              : "%change.factor";
  }
  if (request.clipValue)
    clipValue(text, sets), factor = "";
  if (!request.changes())
    return;
  if (!factor.empty()) {
    text.line("%change.not = arith.constant 1.0 : f32");
    text.line("%change.some = arith.cmpf une, " + factor +
              ", %change.not : f32");
  }
  for (SetWriter &set : sets)
    set.writeGradient(factor.empty() ? "" : "%change.some");
  text.condition = text.writes.empty() ? "" : "%change.some";
}

static void updateParameters(StepText &text, MutableArrayRef<SetWriter> sets,
                             const StepRequest &request) {
  if (request.lossScaler)
    takeLossScaler(text, sets, *request.lossScaler);
  else if (request.scaler)
    takeScaler(text, sets);
  else if (request.unscale)
    takeInverseScale(text, sets);
  else
    llvm::for_each(sets, [](SetWriter &set) { set.dequantizeGradient(); });
  if (request.asTorch)
    roundAsTorch(text, sets, request);
  else if (request.adapts())
    clipAdaptively(text, sets, request);
  else if (request.clip && !request.norm && !request.perTensor)
    clip(text, sets);
  else if (request.clip || request.norm)
    takeNorms(text, sets, request, "");
  if (request.clipValue)
    clipValue(text, sets);
  for (SetWriter &set : sets)
    set.update();
  if (request.statistics) {
    bool counts =
        request.clip && !request.clipsToParameters() && !request.perTensor;
    countSteps(text, !counts            ? ""
                     : request.adapts() ? "%clip.bound"
                                        : "%max_norm");
    llvm::for_each(sets, [](SetWriter &set) { set.measure(); });
  }
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
  for (StringRef word : words)
    set.options.push_back(word.trim().str());
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
    return ("set '" + text + "' does not begin with rule= or grad=; write rule=" +
            (rest.empty() ? "adamw" : rest))
        .str();
  size_t end = endOfRule(rest);
  if (rest.substr(end).starts_with("{"))
    end = std::min(rest.find('}', end), rest.size() - 1) + 1;
  set.storage = rest.substr(end).trim(' ').str();
  if (end < rest.size() && rest[end] != ' ')
    return "rule '" + rest.str() + "' goes on behind its closing brace";
  return readRule(rest.take_front(end), set);
}

// What --quantize alone writes.
static LogicalResult checkCopies(const StepRequest &request, SetWriter &set,
                                 Location loc) {
  bool copied = set.isRuled() || !request.quantize.empty();
  if (!copied && set.copiesToBook())
    return emitError(loc) << "a copy of a gradient in a code book, whose numbers end at 1; "
                             "say --quantize with its format, or give the copy blocks, as "
                             "copy=bnb8:256";
  if (copied || (!set.hasColumns() && !set.hasSquares()))
    return success();
  return emitError(loc) << "a copy in blocks of 128x128 of a gradient, which only "
                           "--quantize writes";
}

// torch rounds to types that overflow to an infinity.
static LogicalResult checkProfile(StringRef format, Location loc) {
  if (FormatAttr::getNamed(loc.getContext(), format).getInf())
    return success();
  return emitError(loc) << "--profile=torch beside gradients in " << format
                        << ", which has no infinity; torch's are in f32, bf16 or f16";
}

FailureOr<std::string> altgrad::generateStep(const StepRequest &request,
                                             ArrayRef<RuleOp> rules,
                                             MLIRContext &context) {
  StepText text;
  if (request.sets.empty()) {
    takeLossScale(text, *request.lossScaler);
    return "altgrad.step @update_loss_scale(\n    " + text.signature + ") {\n" +
           text.body + commitOf(text) + "}\n";
  }
  for (StringRef name : {"inv_scale", "max_norm", "clip_value", "steps",
                         "clipped_steps", "seed", "draws"})
    text.name(name);
  if (request.clip == Clip::Percentile && !request.perTensor)
    text.name("norm_history");
  if (request.quantize.empty())
    nameScaler(text);
  if (!request.perTensor)
    text.name("norm");
  std::vector<SetWriter> sets;
  SmallVector<StringRef> names;
  bool several = rules.size() > 1;
  for (auto [index, set] : llvm::enumerate(request.sets)) {
    RuleOp rule = rules[index];
    Location place =
        FileLineColLoc::get(&context, placeOf("storage", index, several), 1, 1);
    Location loc = rule ? rule.getLoc() : place;
    sets.emplace_back(set, rule, loc, index, several, text);
    if (failed(sets.back().read()) ||
        failed(checkCopies(request, sets.back(), place)) ||
        (request.asTorch && failed(checkProfile(sets.back().gradientFormat(), place))))
      return failure();
    StringRef name = rule ? rule.getSymName() : "gradients";
    if (!llvm::is_contained(names, name))
      names.push_back(name);
  }
  for (SetWriter &set : sets)
    set.takeGradient(request.changes());
  if (llvm::any_of(sets, [](SetWriter &set) { return set.draws(); }))
    takeSeed(text, /*always=*/!sets[0].isRuled());
  if (!request.quantize.empty()) {
    if (request.scales.empty())
      text.argument("in scale %grad_scale: f32");
    for (SetWriter &set : sets)
      if (failed(set.quantizeTo(request.quantize, request.scales)))
        return failure();
  } else if (!sets[0].isRuled())
    changeGradients(text, sets, request);
  else
    updateParameters(text, sets, request);
  return "altgrad.step @" + llvm::join(names, "_") + "_step(\n    " +
         text.signature + ") {\n" + text.body + commitOf(text) + "}\n";
}

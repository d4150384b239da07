// Sets of tensors ==> the text of a step that updates all of them.
#include "codegen/driver/LossScaler.h"

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

// How many steps there were, and how many of them were clipped.
static void countSteps(StepText &text, bool clipped) {
  text.argument("inout statistic %steps: i64");
  text.line("%steps.one = arith.constant 1 : i64");
  text.line("%steps.next = arith.addi %steps, %steps.one : i64");
  text.always.push_back("%steps.next to %steps : i64");
  if (!clipped)
    return;
  text.argument("inout statistic %clipped_steps: i64");
  text.line("%clip.more = arith.addi %clipped_steps, %steps.one : i64");
  text.line("%clip.over = arith.cmpf ogt, %clip.norm, %max_norm : f32");
  text.line("%clip.count = arith.select %clip.over, %clip.more, "
            "%clipped_steps : i64");
  // A skipped step is none, whatever its norm.
  text.writes.push_back("%clip.count to %clipped_steps : i64");
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
  if (!rest.consume_front("rule="))
    return ("set '" + text + "' does not begin with rule=").str();
  size_t end = endOfRule(rest);
  if (rest.substr(end).starts_with("{"))
    end = std::min(rest.find('}', end), rest.size() - 1) + 1;
  set.storage = rest.substr(end).trim(' ').str();
  if (end < rest.size() && rest[end] != ' ')
    return "rule '" + rest.str() + "' goes on behind its closing brace";
  return readRule(rest.take_front(end), set);
}

FailureOr<std::string> altgrad::generateStep(const StepRequest &request,
                                             ArrayRef<RuleOp> rules) {
  StepText text;
  if (request.sets.empty()) {
    takeLossScale(text, *request.lossScaler);
    return "altgrad.step @update_loss_scale(\n    " + text.signature + ") {\n" +
           text.body + commitOf(text) + "}\n";
  }
  for (StringRef name : {"inv_scale", "max_norm", "norm", "steps", "clipped_steps"})
    text.name(name);
  nameScaler(text);
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
  if (request.lossScaler)
    takeLossScaler(text, sets, *request.lossScaler);
  else if (request.scaler)
    takeScaler(text, sets);
  else if (request.unscale)
    takeInverseScale(text, sets);
  else
    llvm::for_each(sets, [](SetWriter &set) { set.dequantizeGradient(); });
  if (request.clip)
    clip(text, sets);
  for (SetWriter &set : sets)
    set.update();
  if (request.statistics) {
    countSteps(text, request.clip);
    llvm::for_each(sets, [](SetWriter &set) { set.measure(); });
  }
  return "altgrad.step @" + llvm::join(names, "_") + "_step(\n    " +
         text.signature + ") {\n" + text.body + commitOf(text) + "}\n";
}

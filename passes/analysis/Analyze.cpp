// Every update of a step, its scalars, and the report.
#include "passes/analysis/Analyze.h"

#include "dialect/Codecs.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using namespace altgrad;

// A few seconds.
static constexpr size_t mostCost = 100000;

std::string altgrad::digits(double number) {
  std::string text;
  double size = std::fabs(number);
  llvm::raw_string_ostream(text) << llvm::format(size >= 1000 && size < 1e7 ? "%.0f" : "%.3g", number);
  return text;
}

double altgrad::bisect(double low, double high, int times, function_ref<bool(double)> isLow) {
  while (times-- > 0) {
    double middle = (low + high) / 2;
    (isLow(middle) ? low : high) = middle;
  }
  return high;
}

// Whether a number of steps that stands still at `step` makes a difference.
static bool changesUpdate(const StoredUpdate &update, int64_t step) {
  Point now = update.steady(1), later = now;
  now.step = step, later.step = 4 * step;
  return update.apply(now, /*exact=*/false) != update.apply(later, /*exact=*/false);
}

static void checkCount(StepOp step, ArrayRef<StoredUpdate> updates, Findings &findings) {
  for (BlockArgument argument : step.getBody().getArguments()) {
    if (step.getRole(argument) != Role::step || !argument.getType().isF32())
      continue;
    float last = 1;
    while (last + 1 != last)
      last *= 2;
    if (llvm::any_of(updates, [&](const StoredUpdate &update) { return changesUpdate(update, int64_t(last)); }))
      findings.list.push_back({argument.getLoc(),
                               "the count '" + step.getName(argument).str() + "' in f32 stands still at " +
                                   std::to_string(int64_t(last)) + ", where updates still depend on it",
                               "storage=\"step=i64\" goes on"});
  }
}

// Gradients with their formats.
static auto getGradients(StepOp step) {
  SmallVector<std::pair<BlockArgument, FormatAttr>> gradients;
  for (BlockArgument argument : step.getBody().getArguments())
    if (auto tensors = dyn_cast<TensorsType>(argument.getType()); tensors && step.getRole(argument) == Role::grad)
      gradients.emplace_back(argument, tensors.getFormat());
  return gradients;
}

// A gradient that a loss scale makes larger than its format.
static void checkLossScale(StepOp step, double scale, Findings &findings) {
  auto scales = [&](BlockArgument argument) {
    return llvm::is_contained({Role::scale, Role::inv_scale, Role::scaler}, step.getRole(argument));
  };
  if (llvm::none_of(step.getBody().getArguments(), scales))
    return;
  for (auto [argument, format] : getGradients(step)) {
    double most = getCodecFacts(format).most;
    if (most / scale < 0.5)
      findings.list.push_back({argument.getLoc(),
                               "gradients '" + step.getName(argument).str() + "' in " + format.getKnownName().str() +
                                   " hold " + digits(most) + " at the most: under a loss scale of " + digits(scale) +
                                   " those over " + digits(most / scale) + " do not fit",
                               "begin with a loss scale of " + digits(std::exp2(std::floor(std::log2(most)))) +
                                   " or less, or keep gradients in bf16"});
  }
}

// A gradient whose format has no negative numbers.
static void checkSigns(StepOp step, Findings &findings) {
  for (auto [argument, format] : getGradients(step)) {
    CodecFacts codec = getCodecFacts(format);
    if (codec.negative)
      continue;
    findings.list.push_back({argument.getLoc(),
                             "gradients '" + step.getName(argument).str() + "' in " + format.getKnownName().str() +
                                 " are never negative" + (codec.zero ? "" : " and never 0") + ": the format has no " +
                                 (codec.zero ? "sign" : "sign and no zero"),
                             "storage=\"grad=bf16\" has both"});
  }
}

std::string altgrad::readValues(ArrayRef<std::string> words, llvm::StringMap<double> &values) {
  for (StringRef word : words) {
    auto [key, number] = word.split('=');
    double value;
    if (word.empty()) // --analyze alone
      continue;
    if (number.getAsDouble(value) || !std::isfinite(value))
      return "--analyze says '" + word.str() + "', expected a hyper-parameter and a number: lr=1e-4";
    if (!values.try_emplace(key, value).second)
      return "--analyze says '" + key.str() + "' twice";
  }
  return "";
}

llvm::Error altgrad::verifyValues(StepOp step, const llvm::StringMap<double> &hypers) {
  SmallVector<StringRef> known{"loss_scale"};
  for (BlockArgument argument : step.getBody().getArguments())
    if (step.getRole(argument) == Role::hyper && !llvm::is_contained(known, step.getKey(argument)))
      known.push_back(step.getKey(argument));
  for (const auto &entry : hypers)
    if (!llvm::is_contained(known, entry.first()))
      return llvm::createStringError("--analyze gives '" + entry.first() + "' a value; there are " +
                                     llvm::join(known, ", "));
  if (auto scale = hypers.find("loss_scale"); scale != hypers.end() && !(scale->second > 0))
    return llvm::createStringError("--analyze gives a loss_scale of " + digits(scale->second) +
                                   ", which is not positive");
  return llvm::Error::success();
}

// What nothing is said of, or silence would look like praise.
static void checkPaths(const StoredUpdate &update, Findings &findings) {
  SmallVector<double> results = update.apply(update.steady(1), /*exact=*/true);
  for (unsigned index = 0; index <= update.stateCount(); ++index)
    if (std::isnan(results[index]))
      findings.list.push_back({update.getLocation(index),
                               "'" + update.getName(index).str() +
                                   "' is not looked at: the rule makes no number of it for a weight of 1 and a "
                                   "steady gradient of 1",
                               "--analyze=NAME=VALUE gives a hyper-parameter another value"});
  for (unsigned index = 0; index <= update.stateCount(); ++index)
    if (std::string format = update.getFormat(index); !format.empty() && std::isnan(update.roundTrip(index, 0)))
      findings.list.push_back({update.getLocation(index),
                               "'" + update.getName(index).str() + "' in " + format +
                                   " is not looked at: between the rule and memory stands an "
                                   "operation that the analysis does not know",
                               "--print-step shows a generated step"});
}

FailureOr<Findings> altgrad::analyze(StepOp step, llvm::function_ref<RuleOp(UpdateOp)> rules,
                                     const llvm::StringMap<double> &hypers) {
  Findings findings;
  std::vector<StoredUpdate> updates;
  for (auto update : step.getBody().getOps<UpdateOp>()) {
    RuleOp rule = rules(update);
    if (!rule || failed(verifyUpdate(update, rule)))
      return failure();
    updates.emplace_back(step, update, rule, hypers);
    if (failed(updates.back().read()))
      return failure();
    if (updates.back().cost() > mostCost)
      return emitError(update.getLoc()) << "rule '" << rule.getSymName()
                                        << "' is too long to be analyzed: operations times squared "
                                           "states are "
                                        << updates.back().cost() << ", at most " << mostCost;
    checkPaths(updates.back(), findings);
    checkParameter(updates.back(), findings);
    checkStates(updates.back(), findings);
    checkDivisions(updates.back(), findings);
  }
  checkCount(step, updates, findings);
  checkSigns(step, findings);
  // The scale that torch's GradScaler begins with.
  auto scale = hypers.find("loss_scale");
  checkLossScale(step, scale == hypers.end() ? 65536 : scale->second, findings);
  return findings;
}

bool altgrad::hasLimits(StepOp step) {
  bool narrow = false;
  for (BlockArgument argument : step.getBody().getArguments()) {
    Role role = step.getRole(argument);
    if (role == Role::hyper && !step.getDefault(argument))
      return false; // what is lost depends on what is not known
    auto tensors = dyn_cast<TensorsType>(argument.getType());
    narrow |= tensors && (role == Role::param || role == Role::state) && !tensors.getFormat().isF32();
  }
  return narrow;
}

static std::string getText(Location loc) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto file = loc->findInstanceOf<FileLineColLoc>())
    out << file.getFilename().getValue() << ":" << file.getLine() << ":" << file.getColumn();
  else
    out << loc;
  return text;
}

std::string altgrad::writeFindings(StepOp step, ArrayRef<Finding> findings) {
  std::string text;
  for (const Finding &finding : findings) {
    std::string loc = getText(finding.loc);
    text += loc + ": warning: " + finding.what + "\n" + loc + ": note: " + finding.remedy + "\n";
  }
  std::string number =
      findings.empty() ? "nothing" : std::to_string(findings.size()) + (findings.size() == 1 ? " thing" : " things");
  return text + "step " + step.getSymName().str() + ": " + number + " found\n";
}

llvm::json::Array altgrad::writeLimits(ArrayRef<Limit> limits) {
  llvm::json::Array written;
  for (const Limit &limit : limits) {
    bool any = limit.hyper.empty();
    llvm::json::Value null = nullptr;
    written.push_back(llvm::json::Object{{"set", limit.set},
                                         {"stream", limit.stream},
                                         {"hyper", any ? null : llvm::json::Value(limit.hyper)},
                                         {"above", limit.above},
                                         {"below", limit.below},
                                         {"text", limit.text}});
  }
  return written;
}

// Lists for --list-targets and --list-rules=verbose.
#include "codegen/driver/Driver.h"

#include "dialect/Entries.h"
#include "dialect/Target.h"
#include "dialect/frontend/FriendlyDiagnostics.h"
#include "dialect/frontend/ReadSpec.h"
#include "dialect/frontend/Request.h"
#include "dialect/frontend/RulePath.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace altgrad;

std::string altgrad::listTargets() {
  std::string text;
  for (const Target &target : getTargets())
    text += target.name.str() + (target.isPtx() ? " (PTX " + target.ptx.str() + ")" : "") + "\n";
  return text;
}

//===-- Rules ---------------------------------------------------------------===//

// The first comment of the file that a rule was read from.
static std::string getSummary(RuleOp rule) {
  auto loc = dyn_cast<FileLineColLoc>(rule.getLoc());
  Spec spec = loc ? readSpec(loc.getFilename()) : Spec();
  StringRef line = StringRef(spec.text).ltrim().split('\n').first;
  return line.consume_front("//") ? line.trim().str() : "";
}

// "m v; with amsgrad: vmax": those that are stored without options, then what single
// options add.
static std::string getStates(RuleOp rule) {
  auto stored = [&](ArrayRef<StringRef> options) {
    SmallVector<StringRef> names;
    for (BlockArgument state : rule.getStoredStates(options))
      names.push_back(rule.getName(state));
    return names;
  };
  SmallVector<StringRef> always = stored({});
  std::string text = always.empty() ? "none" : llvm::join(always, " ");
  for (BlockArgument option : rule.getByRole(Role::option)) {
    SmallVector<StringRef> more = stored({rule.getName(option)});
    llvm::erase_if(more, [&](StringRef name) { return llvm::is_contained(always, name); });
    if (!more.empty())
      text += ("; with " + rule.getName(option) + ": ").str() + llvm::join(more, " ");
  }
  return text;
}

// With their defaults, but for false.
static std::string getArguments(RuleOp rule, Role role) {
  std::string text;
  for (BlockArgument argument : rule.getByRole(role)) {
    text += (text.empty() ? "" : " ") + rule.getName(argument).str();
    Attribute value = rule.getDefault(argument);
    if (auto number = dyn_cast_or_null<FloatAttr>(value))
      text += llvm::formatv("={0:R}", llvm::format("%g", number.getValueAsDouble())).str();
    else if (auto flag = dyn_cast_or_null<BoolAttr>(value); flag && flag.getValue())
      text += "=true";
  }
  return text;
}

static std::string describe(RuleOp rule, StringRef name) {
  std::string text;
  llvm::raw_string_ostream out(text);
  auto line = [&](StringRef word, const std::string &value) {
    if (!value.empty())
      out << llvm::formatv("  {0,-8} {1}\n", word, value);
  };
  out << llvm::formatv("{0,-14} {1}\n", name, getSummary(rule));
  line("states", getStates(rule));
  line("hypers", getArguments(rule, Role::hyper));
  line("options", getArguments(rule, Role::option));
  if (auto entries = rule->getAttrOfType<ArrayAttr>(entriesAttr))
    line("entries", llvm::join(entries.getAsValueRange<StringAttr>(), " "));
  SmallVector<StringRef> states;
  for (BlockArgument state : rule.getByRole(Role::state))
    states.push_back(rule.getName(state));
  line("storage", llvm::join(getStorageWords(rule, states), " "));
  return text;
}

LogicalResult altgrad::describeRules(StringRef path, std::string &text) {
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
  FriendlyDiagnostics words(&context);
  LogicalResult result = success();
  for (const std::string &name : listRules(path)) {
    OwningOpRef<RuleOp> rule = findRule(name, path, UnknownLoc::get(&context));
    if (rule)
      text += describe(*rule, name);
    else
      result = failure();
  }
  return result;
}

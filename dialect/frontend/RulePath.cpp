// Reading rules from the installation, from the rule path and from files.
#include "dialect/frontend/RulePath.h"

#include "dialect/Entries.h"
#include "dialect/SpellCheck.h"
#include "dialect/frontend/ReadSpec.h"
#include "dialect/frontend/RuleText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace altgrad;

static std::vector<std::string> allFolders(StringRef path) {
  static int anchor;
  std::string self = llvm::sys::fs::getMainExecutable(nullptr, &anchor);
  std::vector<std::string> folders;
  if (!self.empty())
    folders = stockFolders(llvm::sys::path::parent_path(self).str());
  addRulePath(folders, path);
  return folders;
}

static OwningOpRef<ModuleOp> readModule(StringRef file, Location loc) {
  Spec spec = readSpec(file);
  if (spec.why.empty())
    return parseText(spec.text, file, loc.getContext());
  if (spec.line)
    loc = FileLineColLoc::get(loc.getContext(), file, spec.line, spec.column);
  emitError(loc) << spec.why;
  return {};
}

RuleOp altgrad::findEntry(ModuleOp module, RuleOp rule, StringRef entry, Location loc) {
  if (entry.empty())
    return rule;
  SmallVector<StringRef> known;
  for (auto other : module.getOps<RuleOp>())
    if (getEntryRule(other) == rule.getSymName()) {
      known.push_back(getEntryName(other));
      if (known.back() == entry)
        return other;
    }
  emitError(loc) << "rule '" << rule.getSymName() << "' has no entry '" << entry << "'"
                 << (known.empty() ? "; it has none" : describeChoices(entry, known));
  return {};
}

OwningOpRef<RuleOp> altgrad::getOnlyRule(ModuleOp module, StringRef file, Location loc, StringRef entry) {
  SmallVector<RuleOp> rules(module.getOps<RuleOp>());
  llvm::erase_if(rules, [](RuleOp rule) { return !getEntryRule(rule).empty(); });
  if (rules.size() == 1) {
    RuleOp found = findEntry(module, rules[0], entry, loc);
    return found ? OwningOpRef<RuleOp>(found.clone()) : OwningOpRef<RuleOp>();
  }
  InFlightDiagnostic error = emitError(loc);
  error << "'" << file << "' holds " << rules.size() << " rules, expected 1";
  for (auto [index, rule] : llvm::enumerate(rules))
    error << (index ? ", " : ": ") << rule.getSymName();
  if (rules.empty())
    error << "; a rule begins rule name(param w, grad g, lr = 1e-3)";
  return {};
}

OwningOpRef<RuleOp> altgrad::readRuleFile(StringRef file, Location loc, StringRef entry) {
  std::vector<std::string> stock = listRules("");
  if (StringRef stem = llvm::sys::path::stem(file); !llvm::sys::fs::exists(file) && llvm::is_contained(stock, stem)) {
    emitError(loc) << "there is no file '" << file << "'; the stock rule is written " << stem;
    return {};
  }
  OwningOpRef<ModuleOp> module = readModule(file, loc);
  return module ? getOnlyRule(*module, file, loc, entry) : OwningOpRef<RuleOp>();
}

OwningOpRef<RuleOp> altgrad::findRule(StringRef name, StringRef path, Location loc, StringRef entry) {
  std::vector<std::string> folders;
  if (!name.empty() && !name.contains('/')) // no way out of the folders
    folders = allFolders(path);
  for (const std::string &folder : folders) {
    const std::string file = ruleFile(folder, name);
    if (!llvm::sys::fs::exists(file))
      continue;
    OwningOpRef<ModuleOp> module = readModule(file, loc);
    if (!module)
      return {};
    RuleOp rule = module->lookupSymbol<RuleOp>(name);
    if (!rule) {
      emitError(loc) << "'" << file << "' holds no rule '" << name << "'";
      return {};
    }
    if (rule = findEntry(*module, rule, entry, loc); rule)
      rule->remove();
    return rule;
  }
  std::vector<std::string> found = listRules(path);
  if (!isIdentifier(name)) {
    emitError(loc) << "unknown rule '" << name << "'; a rule is a name, with its options in "
                   << "braces, as adam{amsgrad}, or a file; names are " << llvm::join(found, ", ");
    return {};
  }
  SmallVector<StringRef> known(found.begin(), found.end());
  emitError(loc) << "unknown rule '" << name << "'" << describeChoices(name, known)
                 << "; a file is written with its folder or ending: ./" << name << ".mlir, or lies as " << name
                 << ".mlir in a folder of --rule-path";
  return {};
}

std::vector<std::string> altgrad::listRules(StringRef path) {
  std::vector<std::string> names;
  for (const std::string &folder : allFolders(path)) {
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
      if (llvm::sys::path::extension(it->path()) == ruleEnding && llvm::sys::fs::is_regular_file(it->path()))
        names.push_back(llvm::sys::path::stem(it->path()).str());
  }
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

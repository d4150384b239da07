// Reading rules from the folders of the rule path.
#include "passes/RulePath.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace altgrad;

OwningOpRef<RuleOp> altgrad::findRule(StringRef name, StringRef path,
                                      Location loc) {
  SmallVector<StringRef> folders;
  path.split(folders, ':', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (name.empty() || name.contains('/'))
    folders.clear(); // no way out of the path
  for (StringRef folder : folders) {
    SmallString<128> file(folder);
    llvm::sys::path::append(file, name + ".mlir");
    if (!llvm::sys::fs::is_regular_file(file))
      continue;
    OwningOpRef<ModuleOp> module =
        parseSourceFile<ModuleOp>(file, ParserConfig(loc.getContext()));
    if (!module)
      return {};
    RuleOp rule = module->lookupSymbol<RuleOp>(name);
    if (!rule) {
      emitError(loc) << "'" << file << "' holds no rule '" << name << "'";
      return {};
    }
    rule->remove();
    return rule;
  }
  emitError(loc) << "unknown rule '" << name << "': not in the module, and no '"
                 << name << ".mlir' on the rule path '" << path << "'";
  return {};
}

std::vector<std::string> altgrad::listRules(StringRef path) {
  std::vector<std::string> names;
  SmallVector<StringRef> folders;
  path.split(folders, ':', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef folder : folders) {
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(folder, error), end;
         it != end && !error; it.increment(error))
      if (llvm::sys::path::extension(it->path()) == ".mlir" &&
          llvm::sys::fs::is_regular_file(it->path()))
        names.push_back(llvm::sys::path::stem(it->path()).str());
  }
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

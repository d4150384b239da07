// One text ==> one module, whichever form it has.
#include "dialect/frontend/RuleText.h"

#include "dialect/frontend/RuleParser.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

bool altgrad::isShortText(StringRef text) {
  RuleLexer lexer(text);
  RuleToken first = lexer.next(/*linesEnd=*/false);
  return first.kind == RuleToken::Name && (first.text == "rule" || first.text == "entry");
}

static OwningOpRef<ModuleOp> parsePage(llvm::SourceMgr &sources, MLIRContext *context) {
  const llvm::MemoryBuffer *main = sources.getMemoryBuffer(sources.getMainFileID());
  if (!isShortText(main->getBuffer()))
    return parseSourceFile<ModuleOp>(sources, ParserConfig(context));
  OwningOpRef<ModuleOp> module = ModuleOp::create(FileLineColLoc::get(context, main->getBufferIdentifier(), 1, 1));
  return succeeded(RuleParser(sources, *module).parse()) ? std::move(module) : OwningOpRef<ModuleOp>();
}

// Pages may have different forms. Empty lines stand for those before, so that places are those of the text.
OwningOpRef<ModuleOp> altgrad::parseText(llvm::SourceMgr &sources, MLIRContext *context) {
  const llvm::MemoryBuffer *main = sources.getMemoryBuffer(sources.getMainFileID());
  if (!main->getBuffer().contains(pageEnd))
    return parsePage(sources, context);
  OwningOpRef<ModuleOp> module;
  size_t lines = 0;
  for (StringRef page : llvm::split(main->getBuffer(), pageEnd)) {
    llvm::SourceMgr alone;
    alone.AddNewSourceBuffer(
        llvm::MemoryBuffer::getMemBufferCopy(std::string(lines, '\n') + page.str(), main->getBufferIdentifier()), {});
    OwningOpRef<ModuleOp> found = parsePage(alone, context);
    if (!found)
      return {};
    lines += page.count('\n');
    if (module)
      module->getBody()->getOperations().splice(module->getBody()->end(), found->getBody()->getOperations());
    else
      module = std::move(found);
  }
  return module;
}

OwningOpRef<ModuleOp> altgrad::parseText(StringRef text, StringRef name, MLIRContext *context) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name), {});
  return parseText(sources, context);
}

std::string altgrad::printRules(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (RuleOp rule : module.getOps<RuleOp>()) {
    out << (text.empty() ? "" : "\n");
    rule->print(out, OpPrintingFlags().printNameLocAsPrefix());
    out << "\n";
  }
  return text;
}

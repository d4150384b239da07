// Operations under the names that they had one release ago.
#include "dialect/Dialect.h"

using namespace mlir;
using namespace altgrad;

static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> renamed[] = {
    {"altgrad.descend", "altgrad.apply_step"},    {"altgrad.either", "altgrad.select_by_aspect"},
    {"altgrad.keep", "altgrad.workspace_store"},  {"altgrad.move", "altgrad.advance_code"},
    {"altgrad.recall", "altgrad.workspace_load"}, {"altgrad.resize", "altgrad.match_norm"},
    {"altgrad.sound", "altgrad.products_finite"},
};

static StringRef getPresentName(StringRef name) {
  for (auto [before, now] : renamed)
    if (before == name)
      return now;
  return "";
}

static ParseResult parseRenamed(OpAsmParser &parser, OperationState &result) {
  StringRef before = result.name.getStringRef(), now = getPresentName(before);
  emitWarning(result.location) << "'" << before << "' is '" << now
                               << "' now; write that, since the next release does not read the old name";
  auto operation = *RegisteredOperationName::lookup(now, parser.getContext());
  result.name = operation;
  return operation.getParseAssemblyFn()(parser, result);
}

std::optional<Dialect::ParseOpHook> AltgradDialect::getParseOperationHook(StringRef name) const {
  return getPresentName(name).empty() ? std::nullopt : std::optional<ParseOpHook>(parseRenamed);
}

// Entries of a rule: further steps over its parameters and states.
#ifndef ALTGRAD_DIALECT_ENTRIES_H
#define ALTGRAD_DIALECT_ENTRIES_H

#include "dialect/Dialect.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace altgrad {

/// An entry is a rule called `rule_entry` that says `{altgrad.entry_of = "rule"}`; its rule says `{altgrad.entries =
/// ["entry"]}`. In both, a state that is read and yielded unchanged is stored, and only read. The step of an entry is
/// the number of the last step, and it counts none.
inline constexpr llvm::StringLiteral entryOfAttr = "altgrad.entry_of", entriesAttr = "altgrad.entries";

/// The name of the rule of which this is an entry; "" where it is none.
inline llvm::StringRef getEntryRule(RuleOp rule) {
  auto of = rule->getAttrOfType<mlir::StringAttr>(entryOfAttr);
  return of ? of.getValue() : llvm::StringRef();
}

/// Its name without that of its rule.
inline llvm::StringRef getEntryName(RuleOp entry) {
  return entry.getSymName().drop_front(std::min(entry.getSymName().size(), getEntryRule(entry).size() + 1));
}

} // namespace altgrad

#endif // ALTGRAD_DIALECT_ENTRIES_H

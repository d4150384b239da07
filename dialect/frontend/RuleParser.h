// Parses rules in short text: signature, lines, expressions.
#ifndef ALTGRAD_DIALECT_FRONTEND_RULEPARSER_H
#define ALTGRAD_DIALECT_FRONTEND_RULEPARSER_H

#include "dialect/Entries.h"
#include "dialect/frontend/RuleLexer.h"
#include "dialect/frontend/RuleTerms.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/SourceMgr.h"

namespace altgrad {

/// Words that are no names.
inline bool isKeyword(llvm::StringRef word) {
  return llvm::is_contained({"rule", "if", "else", "and", "or", "not", "over", "true", "false"}, word);
}
inline constexpr llvm::StringLiteral noTypes = "types are not written in the short form: leave : and the type out";
inline constexpr llvm::StringLiteral noPercent = "names have no % in the short form: leave it out";

/// The first error ends the text: what follows it sees the end, and says nothing.
class RuleParser {
public:
  RuleParser(llvm::SourceMgr &sources, mlir::ModuleOp module);
  /// Fails after an error.
  mlir::LogicalResult parse();

private:
  struct Known { // a name
    Term term;
    bool isNew = false;  // assigned in a line
    RuleToken name = {}; // where that is, or where the argument stands
  };
  // One rule; its arguments: RuleSignature.cpp.
  void parseRule();
  void begin(const RuleToken &at, const llvm::Twine &name);
  void parseBody();
  bool beginsRule() { return token.is("rule") && !lexer.peekIs("="); }
  bool beginsEntry() { return token.is("entry") && !lexer.peekIs("="); }
  void parseSignature();
  void addArgument(Role role, Scope scope, const RuleToken &name, mlir::TypedAttr fallback);
  // Its entries: RuleEntries.cpp.
  void parseEntries();
  bool isEntry() { return !getEntryRule(rule).empty(); }
  void parseEntry(RuleOp of);
  void copyArguments(RuleOp of);
  void dropUnused();
  struct Kind { // of an argument
    Role role = Role::none;
    Scope scope = Scope::Step;
  };
  static std::optional<Kind> findKind(llvm::StringRef word);
  Kind parseKind(Kind before);
  bool parseArgument(Kind kind);
  mlir::TypedAttr parseDefault(Kind kind);
  void shareHypers();
  void parseLine();
  void finish();
  bool failKept(const RuleToken &name);
  mlir::Value getResult(mlir::BlockArgument argument);
  // Expressions, the loosest first.
  void enter(); // one level of nesting
  Term parseChoice();
  Term parseOr();
  Term parseAnd();
  Term parseNot();
  Term parseComparison();
  Term parseSum();
  Term parseProduct();
  Term parseUnary();
  Term parsePower();
  Term parseAtom();
  Term parseNumber();
  Term parseName();
  // Calls: RuleCalls.cpp.
  static bool isCall(llvm::StringRef name);
  Term parseCall();
  llvm::SmallVector<Term> parseOperands(llvm::StringRef usage);
  Term parseReduction(const RuleToken &name);
  BlockAttr parseOver();
  Term reduce(llvm::StringRef name, Term x, BlockAttr over);
  RuleToken parseWord();
  Term parseRandom(const RuleToken &name);
  Term parseMatrixCall(const RuleToken &name);
  Term parseOrthogonalize(const RuleToken &name, const RuleToken &opening, Term x);
  Term parseProductCall(const RuleToken &name, const RuleToken &opening, Term left);

  void advance(bool linesEnd = true);
  bool take(llvm::StringRef sign);
  /// The same, or an error.
  bool expect(llvm::StringRef sign, const llvm::Twine &words);
  bool open();
  bool close(const RuleToken &opening);
  mlir::Location getLocation(llvm::StringRef text);
  void place(const RuleToken &at);
  /// Only the first error is said. False.
  bool fail(llvm::StringRef text, const llvm::Twine &words);
  bool fail(const llvm::Twine &words) { return fail(token.text, words); }
  std::string describe(const RuleToken &token) const;
  void failAtom();

  llvm::SourceMgr &sources;
  mlir::ModuleOp module;
  RuleLexer lexer;
  RuleToken token;
  unsigned parentheses = 0, depth = 0;
  bool bad = false;

  RuleOp rule;
  llvm::SmallVector<mlir::Attribute> signature;
  llvm::StringMap<Known> names;
  llvm::SmallVector<RuleToken> places; // of the rule's arguments
  llvm::StringMap<RuleToken> kept;     // states to which neither the rule nor an entry has given a new value yet
  llvm::StringRef placed; // of the operation that is made
  std::optional<RuleTerms> terms;
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_RULEPARSER_H

// Entries below a rule in short text: further steps over its arguments, each a rule of its own.
#include "dialect/frontend/RuleParser.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace altgrad;

void RuleParser::parseEntries() {
  RuleOp of = rule;
  SmallVector<Attribute> entries;
  while (!bad && beginsEntry()) {
    parseEntry(of);
    if (!bad)
      entries.push_back(terms->builder.getStringAttr(getEntryName(rule)));
  }
  if (!entries.empty())
    of->setAttr(entriesAttr, terms->builder.getArrayAttr(entries));
  rule = of;
}

// It has all arguments of the rule, and numbers of its own. What no line reads is left out.
void RuleParser::parseEntry(RuleOp of) {
  RuleToken at = token;
  advance();
  RuleToken name = token;
  if (name.kind != RuleToken::Name || isKeyword(name.text))
    return void(fail("an entry has a name: write entry eval, or entry climb(rho = 0.05)"));
  const std::string symbol = (of.getSymName() + "_" + name.text).str();
  if (module.lookupSymbol(symbol))
    return void(fail(name.text, "there is another " + symbol + ": rename the entry"));
  advance();
  begin(at, symbol);
  rule->setAttr(entryOfAttr, terms->builder.getStringAttr(of.getSymName()));
  copyArguments(of);
  if (token.is("("))
    parseSignature();
  parseBody();
  if (bad)
    return;
  YieldOp yield = rule.getYield();
  auto changes = [&](BlockArgument state) { return rule.changes(state, {}); };
  if (yield.getParam() == rule.getByRole(Role::param)[0] && llvm::none_of(rule.getByRole(Role::state), changes))
    return void(fail(name.text, "entry " + name.text +
                                    " changes nothing: write a line that gives the parameter or a "
                                    "state of the rule a new value"));
  dropUnused();
}

void RuleParser::copyArguments(RuleOp of) {
  for (auto [argument, place] : llvm::zip(of.getSignature().getAsRange<ArgumentAttr>(), places))
    addArgument(argument.getRole(), argument.getScope(), place, argument.getFallback());
  rule.setSignatureAttr(of.getSignatureAttr());
}

// So that a step of it has the memory and the numbers that it needs: a state that stays as it is, and that nothing
// reads, is no state of it.
void RuleParser::dropUnused() {
  YieldOp yield = rule.getYield();
  Block &body = rule.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body.without_terminator())))
    if (op.use_empty())
      op.erase();
  llvm::BitVector unused(body.getNumArguments());
  SmallVector<Value> states;
  for (auto [state, value] : llvm::zip(rule.getByRole(Role::state), yield.getStates()))
    if (value == state && state.hasOneUse())
      unused.set(state.getArgNumber());
    else
      states.push_back(value);
  YieldOp::create(terms->builder, yield.getLoc(), yield.getParam(), states);
  yield.erase();
  for (BlockArgument argument : body.getArguments())
    if (!llvm::is_contained({Role::param, Role::grad, Role::state}, rule.getRole(argument)) && argument.use_empty())
      unused.set(argument.getArgNumber());
  SmallVector<Attribute> left;
  for (auto [index, argument] : llvm::enumerate(rule.getSignature()))
    if (!unused.test(index))
      left.push_back(argument);
  body.eraseArguments(unused);
  rule.setSignatureAttr(terms->builder.getArrayAttr(left));
}

// update ==> the body of its rule, with its options decided.
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Parser/Parser.h"
#include "passes/RulePath.h"

namespace altgrad {
#define GEN_PASS_DEF_INLINERULESPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

// The operand that a select yields when its condition is a known constant.
static Value decided(arith::SelectOp select, IRMapping &map) {
  auto constant =
      map.lookup(select.getCondition()).getDefiningOp<arith::ConstantOp>();
  auto boolean = constant ? dyn_cast<BoolAttr>(constant.getValue()) : nullptr;
  if (!boolean)
    return {};
  return map.lookup(boolean.getValue() ? select.getTrueValue()
                                       : select.getFalseValue());
}

// The constant that a logical operation on constants gives, or null.
static Attribute foldLogic(Operation &op, IRMapping &map) {
  if (!isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    return {};
  SmallVector<Attribute> operands;
  for (Value operand : op.getOperands()) {
    auto constant = map.lookup(operand).getDefiningOp<arith::ConstantOp>();
    operands.push_back(constant ? Attribute(constant.getValue()) : Attribute());
  }
  SmallVector<OpFoldResult> folded;
  if (!operands[0] || !operands[1] || failed(op.fold(operands, folded)) ||
      folded.empty())
    return {};
  return dyn_cast_or_null<Attribute>(folded[0]);
}

static void mapArguments(RuleOp rule, UpdateOp update, OpBuilder &builder,
                         IRMapping &map) {
  Location loc = update.getLoc();
  auto element = [&](Value list) -> Value {
    return ElementOp::create(builder, loc, list);
  };
  map.map(rule.getByRole("param")[0], element(update.getParam()));
  map.map(rule.getByRole("grad")[0], element(update.getGrad()));
  for (auto [argument, value] :
       llvm::zip(rule.getByRole("hyper"), update.getHypers()))
    map.map(argument, value);
  for (BlockArgument argument : rule.getByRole("step"))
    map.map(argument, update.getStep());

  SmallVector<StringRef> options;
  for (auto option : update.getOptions().getAsRange<StringAttr>())
    options.push_back(option.getValue());
  for (BlockArgument argument : rule.getByRole("option")) {
    bool on = llvm::is_contained(options, rule.getName(argument)) ||
              cast<BoolAttr>(rule.getDefault(argument)).getValue();
    map.map(argument, arith::ConstantOp::create(builder, loc,
                                                builder.getBoolAttr(on)));
  }
  auto stored = rule.getStoredStates(options);
  unsigned next = 0;
  for (BlockArgument argument : rule.getByRole("state")) {
    if (llvm::is_contained(stored, argument))
      map.map(argument, element(update.getStates()[next++]));
    else // no live operation uses it once the options are decided
      map.map(argument, arith::ConstantOp::create(
                            builder, loc, builder.getF32FloatAttr(0.0f)));
  }
}

static void inlineRule(UpdateOp update, RuleOp rule) {
  OpBuilder builder(update);
  IRMapping map;
  SmallVector<Operation *> added;
  mapArguments(rule, update, builder, map);
  for (Operation &op : rule.getBody().front().without_terminator()) {
    if (auto select = dyn_cast<arith::SelectOp>(op))
      if (Value value = decided(select, map)) {
        map.map(select.getResult(), value);
        continue;
      }
    if (Attribute value = foldLogic(op, map)) {
      map.map(op.getResult(0),
              arith::ConstantOp::create(builder, op.getLoc(),
                                        cast<TypedAttr>(value)));
      continue;
    }
    added.push_back(builder.clone(op, map));
  }

  SmallVector<StringRef> options;
  for (auto option : update.getOptions().getAsRange<StringAttr>())
    options.push_back(option.getValue());
  auto stored = rule.getStoredStates(options);
  SmallVector<Value> results;
  auto collect = [&](Value element) {
    results.push_back(CollectOp::create(
        builder, update.getLoc(), RealsType::get(builder.getContext()),
        map.lookup(element), /*factor=*/Value()));
  };
  collect(rule.getYield().getParam());
  for (auto [state, value] :
       llvm::zip(rule.getByRole("state"), rule.getYield().getStates()))
    if (llvm::is_contained(stored, state))
      collect(value);
  update.replaceAllUsesWith(results);
  update.erase();
  // What only an untaken choice used.
  for (Operation *op : llvm::reverse(added))
    if (op->use_empty())
      op->erase();
}

namespace {
struct InlineRules : altgrad::impl::InlineRulesPassBase<InlineRules> {
  using InlineRulesPassBase::InlineRulesPassBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<UpdateOp> updates;
    getOperation().walk([&](UpdateOp update) { updates.push_back(update); });
    for (UpdateOp update : updates) {
      Operation *found = symbols.lookup(update.getRule());
      auto rule = dyn_cast_or_null<RuleOp>(found);
      if (!found) {
        OwningOpRef<RuleOp> read = findRule(update.getRule(), rulePath,
                                            update->getLoc());
        if (!read)
          return signalPassFailure();
        rule = read.release();
        symbols.insert(rule, getOperation().getBody()->begin());
      }
      if (!rule || failed(verifyUpdate(update, rule)))
        return signalPassFailure();
      inlineRule(update, rule);
    }
    if (!updates.empty())
      for (RuleOp rule :
           llvm::make_early_inc_range(getOperation().getOps<RuleOp>()))
        rule.erase();
  }
};
} // namespace

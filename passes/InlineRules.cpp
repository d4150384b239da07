// update ==> the body of its rule, with its options decided.
#include "passes/Passes.h"

#include "dialect/Variance.h"
#include "dialect/frontend/RulePath.h"
#include "mlir/IR/IRMapping.h"

namespace altgrad {
#define GEN_PASS_DEF_INLINERULESPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

static SmallVector<StringRef> getOptions(UpdateOp update) {
  return llvm::to_vector(update.getOptions().getAsValueRange<StringAttr>());
}

static void mapArguments(RuleOp rule, UpdateOp update, OpBuilder &builder, IRMapping &map) {
  Location loc = update.getLoc();
  auto element = [&](Value list) -> Value { return ElementOp::create(builder, loc, list); };
  Value param = element(update.getParam());
  map.map(rule.getByRole(Role::param)[0], param);
  for (BlockArgument argument : rule.getByRole(Role::value))
    map.map(argument, update.getValue() ? element(update.getValue()) : param);
  map.map(rule.getByRole(Role::grad)[0], element(update.getGrad()));
  for (auto [argument, value] : llvm::zip(rule.getByRole(Role::hyper), update.getHypers()))
    map.map(argument, value);
  for (BlockArgument argument : rule.getByRole(Role::step))
    map.map(argument, update.getStep());

  auto stored = rule.getStoredStates(getOptions(update));
  unsigned next = 0, ofUnits = 0;
  for (BlockArgument argument : rule.getByRole(Role::state)) {
    if (!llvm::is_contained(stored, argument))
      // no live operation uses it once the options are decided
      map.map(argument, arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0.0f)));
    else if (rule.isOfUnit(argument))
      map.map(argument, update.getUnitStates()[ofUnits++]);
    else
      map.map(argument, element(update.getStates()[next++]));
  }
}

// A state that is not stored has no content to read.
static LogicalResult checkUnstored(UpdateOp update, RuleOp rule, IRMapping &map) {
  auto stored = rule.getStoredStates(getOptions(update));
  for (BlockArgument state : rule.getByRole(Role::state)) {
    if (llvm::is_contained(stored, state))
      continue;
    if (!map.lookup(state).use_empty())
      return update.emitOpError() << "applies rule '" << rule.getSymName() << "', which reads state '"
                                  << rule.getName(state) << "' but never changes it with these options";
    map.lookup(state).getDefiningOp()->erase();
  }
  return success();
}

// What `updated` adds to `old`: a sum with it says so before it is rounded.
static Value readChange(OpBuilder &builder, Location loc, Value updated, Value old) {
  if (auto sum = updated.getDefiningOp<arith::AddFOp>()) {
    if (sum.getLhs() == old)
      return sum.getRhs();
    if (sum.getRhs() == old)
      return sum.getLhs();
  }
  if (auto difference = updated.getDefiningOp<arith::SubFOp>())
    if (difference.getLhs() == old)
      return arith::NegFOp::create(builder, loc, difference.getRhs());
  return arith::SubFOp::create(builder, loc, updated, old);
}

// Words among the options that are about a rule's iterations.
static void changeIteration(Operation *op, UpdateOp update) {
  if (!isa<OrthogonalizeOp, ScaleByShapeOp, ApplyStepOp>(op))
    return;
  for (StringRef option : getOptions(update))
    if (auto changed = readIterationWord(update.getContext(), option))
      if (llvm::is_contained(op->getName().getAttributeNames(), changed->getName()))
        op->setAttr(changed->getName(), changed->getValue());
}

static LogicalResult inlineRule(UpdateOp update, RuleOp rule) {
  OpBuilder builder(update);
  IRMapping map;
  SmallVector<Operation *> added;
  mapArguments(rule, update, builder, map);
  DenseMap<Value, bool> known = rule.decide(getOptions(update));
  auto decide = [&](Value value) { // in the order of the text: same bytes out
    auto constant = arith::ConstantOp::create(builder, update.getLoc(), builder.getBoolAttr(known.lookup(value)));
    map.map(value, constant);
    added.push_back(constant);
  };
  for (BlockArgument option : rule.getByRole(Role::option))
    decide(option);
  for (Operation &op : rule.getBody().front().without_terminator()) {
    if (op.getNumResults() && known.count(op.getResult(0))) {
      decide(op.getResult(0));
      continue;
    }
    if (auto select = dyn_cast<arith::SelectOp>(op))
      if (auto it = known.find(select.getCondition()); it != known.end()) {
        map.map(select.getResult(), map.lookup(it->second ? select.getTrueValue() : select.getFalseValue()));
        continue;
      }
    added.push_back(builder.clone(op, map));
    changeIteration(added.back(), update);
  }
  auto stored = rule.getStoredStates(getOptions(update));
  SmallVector<Value> results;
  auto collect = [&](Value element) {
    results.push_back(CollectOp::create(builder, update.getLoc(), RealsType::get(builder.getContext()), element,
                                        /*factor=*/Value()));
  };
  Value updated = map.lookup(rule.getYield().getParam());
  Value old = map.lookup(rule.getByRole(Role::param)[0]);
  collect(update.getValue() ? readChange(builder, update.getLoc(), updated, old) : updated);
  SmallVector<Value> ofUnits;
  for (auto [state, value] : llvm::zip(rule.getByRole(Role::state), rule.getYield().getStates()))
    if (llvm::is_contained(stored, state) && rule.isOfUnit(state))
      ofUnits.push_back(map.lookup(value));
    else if (llvm::is_contained(stored, state))
      collect(map.lookup(value));
  llvm::append_range(results, ofUnits);
  update.replaceAllUsesWith(results);
  // What only an untaken choice used.
  for (Operation *op : llvm::reverse(added))
    if (op->use_empty())
      op->erase();
  if (failed(checkUnstored(update, rule, map)))
    return failure();
  update.erase();
  return success();
}

// Before the rule is copied: many copies of a long one would fill the memory.
static LogicalResult countRule(UpdateOp update, RuleOp rule, size_t &length) {
  length += rule.getBody().front().getOperations().size();
  if (length > maxOperations)
    return update.emitOpError() << "applies rule '" << rule.getSymName() << "', and the step's rules have " << length
                                << " operations in all, at most " << maxOperations;
  return success();
}

// The largest magnitude of a run whose elements are the same is theirs. A step takes it for the scale of a state or a
// copy, and only the rule's arithmetic says that this does not differ.
static void dropUniformMaxima(StepOp step) {
  std::optional<Variances> variances(step);
  for (auto reduce : llvm::make_early_inc_range(step.getBody().getOps<ReduceOp>())) {
    if (reduce.getReduction() != Reduction::AbsMax || !variances->of(reduce.getValue()).covers(reduce.getOver()))
      continue;
    OpBuilder builder(reduce);
    reduce.replaceAllUsesWith(math::AbsFOp::create(builder, reduce.getLoc(), reduce.getValue()).getResult());
    reduce.erase();
    variances.emplace(step); // another maximum may be of this one
  }
}

namespace {
struct InlineRules : altgrad::impl::InlineRulesPassBase<InlineRules> {
  using InlineRulesPassBase::InlineRulesPassBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<UpdateOp> updates;
    getOperation().walk([&](UpdateOp update) { updates.push_back(update); });
    DenseMap<Operation *, size_t> lengths; // of steps, with the rules so far
    for (UpdateOp update : updates) {
      Operation *found = symbols.lookup(update.getRule());
      auto rule = dyn_cast_or_null<RuleOp>(found);
      if (!found) {
        OwningOpRef<RuleOp> read = findRule(update.getRule(), rulePath, update->getLoc());
        if (!read)
          return signalPassFailure();
        rule = read.release();
        symbols.insert(rule, getOperation().getBody()->begin());
      }
      if (!rule || failed(verifyUpdate(update, rule)) ||
          failed(countRule(update, rule, lengths[update->getParentOp()])) || failed(inlineRule(update, rule)))
        return signalPassFailure();
    }
    for (auto step : getOperation().getOps<StepOp>())
      dropUniformMaxima(step);
    if (!updates.empty())
      for (RuleOp rule : llvm::make_early_inc_range(getOperation().getOps<RuleOp>()))
        rule.erase();
  }
};
} // namespace

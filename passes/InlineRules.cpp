// update ==> the body of its rule, with its options decided.
#include "passes/Passes.h"

#include "dialect/RowSets.h"
#include "dialect/Variance.h"
#include "dialect/WalkBack.h"
#include "dialect/frontend/RulePath.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include <limits>

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
  for (auto [argument, list] : llvm::zip(rule.getByRole(Role::input), update.getInputs()))
    map.map(argument, element(list));
  for (auto [argument, value] : llvm::zip(rule.getByRole(Role::hyper), update.getHypers()))
    map.map(argument, value);
  for (BlockArgument argument : rule.getByRole(Role::step))
    map.map(argument, update.getStep());

  auto stored = rule.getStoredStates(getOptions(update));
  unsigned next = 0, scalar = 0;
  for (BlockArgument argument : rule.getByRole(Role::state)) {
    if (!llvm::is_contained(stored, argument))
      // no live operation uses it once the options are decided
      map.map(argument, arith::ConstantOp::create(builder, loc, builder.getZeroAttr(argument.getType())));
    else if (rule.isScalarState(argument))
      map.map(argument, update.getScalarStates()[scalar++]);
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
                                  << rule.getName(state)
                                  << "' but never changes it with these options; what is only read is an input";
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

namespace {
// What a rule reduces over the step is of all tensors that it is applied to, but each application has a reduction of
// its own set. Notes these, and adds them up once all rules are inlined.
class StepReductions {
public:
  // What became of a reduction of a rule in one application.
  void add(ReduceOp reduce, Operation *share) { shares[reduce].push_back(share); }
  // The set's own in the order of the sets, as norms have them.
  void combine(StepOp step);

private:
  llvm::MapVector<Operation *, SmallVector<Operation *>> shares; // by the reduction of the rule
};
} // namespace

static Value combine(OpBuilder &builder, Location loc, Reduction how, Value one, Value other) {
  switch (how) {
  case Reduction::Max:
  case Reduction::AbsMax:
    return arith::MaximumFOp::create(builder, loc, one, other);
  case Reduction::And:
    return arith::AndIOp::create(builder, loc, one, other);
  default:
    return arith::AddFOp::create(builder, loc, one, other);
  }
}

void StepReductions::combine(StepOp step) {
  for (auto &[reduce, own] : shares) {
    if (own.size() == 1)
      continue;
    OpBuilder builder(own.back()->getContext());
    builder.setInsertionPointAfter(own.back());
    Value all = own[0]->getResult(0);
    DenseSet<Operation *> sums;
    for (Operation *share : llvm::drop_begin(own)) {
      all = ::combine(builder, share->getLoc(), cast<ReduceOp>(reduce).getReduction(), all, share->getResult(0));
      sums.insert(all.getDefiningOp());
    }
    for (Operation *share : own)
      share->getResult(0).replaceUsesWithIf(all, [&](OpOperand &use) { return !sums.contains(use.getOwner()); });
  }
  if (!shares.empty())
    sortTopologically(&step.getBody().front()); // who reads a sum follows all of its shares
}

namespace {
// Operations in place of one of a rule, in order.
struct Expansion {
  OpBuilder &builder;
  Location loc;
  IntegerAttr set = {}; // of the rule's tensors, where there are several
  StringAttr sum = {};  // of a reduction over the step that other devices' shares join
  SmallVector<Operation *> made = {};

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return made.emplace_back(Op::create(builder, loc, std::forward<Args>(args)...))->getResult(0);
  }
  Value number(float value) { return make<arith::ConstantOp>(builder.getF32FloatAttr(value)); }
  Value across(Value x, bool units, Reduction kind) {
    return make<AcrossOp>(x.getType(), x, units, kind == Reduction::Max, units ? IntegerAttr() : set);
  }
  Value allReduce(Value share) { return sum ? make<AllReduceOp>(share, sum) : share; }
};
} // namespace

// Which flags are true, and which are not, are numbers: their sum is a count, and their largest is 0 where all are.
static bool isReductionExpanded(ReduceOp reduce, Scope of) {
  return of != Scope::Block || (isBoolean(reduce.getReduction()) && (reduce.isOverBlock() || reduce.isOverColumn()));
}

static Value selectOrNeutral(Expansion &to, Value condition, Value x, Reduction kind) {
  Value none = to.number(kind == Reduction::Max ? -std::numeric_limits<float>::infinity() : 0);
  return to.make<arith::SelectOp>(condition, x, none);
}

// In a tensor's first row each column counts once.
static Value reduceColumns(Expansion &to, Value x, Reduction kind, Scope over) {
  Value index = to.make<IndexOp>(to.builder.getI64Type());
  Value columns = to.make<DimOp>(to.builder.getI64Type(), Dimension::Columns);
  Value isFirst = to.make<arith::CmpIOp>(arith::CmpIPredicate::slt, index, columns);
  return to.make<ReduceOp>(kind, selectOrNeutral(to, isFirst, x, kind), over);
}

// Of slices on several ranks, which all know a number of their tensor.
static Value countOnce(Expansion &to, Value x, Reduction kind) {
  return selectOrNeutral(to, to.make<HasFirstOp>(to.builder.getI1Type()), x, kind);
}

// `x` is the operand in the step: one for each element, column, unit or tensor.
static void expandReduction(Expansion &to, ReduceOp reduce, Value x, Scope of) {
  const Reduction given = reduce.getReduction();
  const bool isAll = given == Reduction::And;
  const Reduction kind =
      isAll || given == Reduction::Max || given == Reduction::AbsMax ? Reduction::Max : Reduction::Add;
  if (isBoolean(given))
    x = to.make<arith::SelectOp>(x, to.number(!isAll), to.number(isAll));
  else if (given == Reduction::SumSq)
    x = to.make<arith::MulFOp>(x, x);
  else if (given == Reduction::AbsMax)
    x = to.make<math::AbsFOp>(x);
  const bool isOverStep = reduce.getScope() == Scope::Step;
  if (of == Scope::Column)
    x = reduceColumns(to, x, kind, isOverStep ? Scope::Step : Scope::Tensor);
  else if (of == Scope::Block)
    x = to.make<ReduceOp>(kind, x, reduce.getOver());
  if (of == Scope::Unit)
    x = to.across(x, /*units=*/true, kind);
  if (isOverStep && of != Scope::Column)
    x = to.across(to.sum ? countOnce(to, x, kind) : x, /*units=*/false, kind);
  x = to.allReduce(x);
  if (isAll)
    to.make<arith::CmpFOp>(arith::CmpFPredicate::OLE, x, to.number(0));
}

// A number from 0 to 1, or the normal one that two of them make.
static void drawRandom(Expansion &to, RandomOp random, UpdateOp update) {
  auto uniform = [&](int64_t which) {
    Value bits = to.make<DrawOp>(to.builder.getI32Type(), update.getSeed(), update.getDraws(),
                                 RandomOp::firstStore + 2 * random.getKey() + which);
    return to.make<UniformOp>(to.builder.getF32Type(), bits);
  };
  Value first = uniform(0);
  if (random.getDistribution() == Distribution::Uniform)
    return;
  Value rest = to.make<arith::SubFOp>(to.number(1), first);
  Value squared = to.make<arith::MulFOp>(to.number(-2), to.make<math::LogOp>(rest));
  Value radius = to.make<math::SqrtOp>(squared);
  Value angle = to.make<arith::MulFOp>(to.number(6.283185307179586f), uniform(1));
  to.make<arith::MulFOp>(radius, to.make<math::CosOp>(angle));
}

static LogicalResult inlineRule(UpdateOp update, RuleOp rule, StepReductions &reductions, bool exchange) {
  OpBuilder builder(update);
  IRMapping map;
  SmallVector<Operation *> added;
  SmallVector<std::pair<ReduceOp, Operation *>> ofStep;
  mapArguments(rule, update, builder, map);
  DenseMap<Value, bool> known = rule.decide(getOptions(update));
  auto decide = [&](Value value) { // in the order of the text: same bytes out
    auto constant = arith::ConstantOp::create(builder, update.getLoc(), builder.getBoolAttr(known.lookup(value)));
    map.map(value, constant);
    added.push_back(constant);
  };
  for (BlockArgument option : rule.getByRole(Role::option))
    decide(option);
  Variances variances(rule);
  auto step = update->getParentOfType<StepOp>();
  IntegerAttr set;
  if (step.getSetCount() > 1)
    set = builder.getI64IntegerAttr(RowSets(step).of(update.getParam()).value_or(0));
  unsigned sums = 0; // over the step, in the order of the text: a name is the same in all programs
  for (Operation &op : rule.getBody().front().without_terminator()) {
    auto reduce = dyn_cast<ReduceOp>(op);
    StringAttr sum;
    if (reduce && reduce.getScope() == Scope::Step && exchange)
      sum = builder.getStringAttr(rule.getSymName() + "." + Twine(sums++));
    if (op.getNumResults() && known.count(op.getResult(0))) {
      decide(op.getResult(0));
      continue;
    }
    if (auto select = dyn_cast<arith::SelectOp>(op))
      if (auto it = known.find(select.getCondition()); it != known.end()) {
        map.map(select.getResult(), map.lookup(it->second ? select.getTrueValue() : select.getFalseValue()));
        continue;
      }
    auto random = dyn_cast<RandomOp>(op);
    Expansion expansion{builder, op.getLoc(), set, sum};
    Scope of = reduce ? getReducedScope(reduce, variances).value_or(Scope::Block) : Scope::Block;
    if (random && update.getSeed())
      drawRandom(expansion, random, update);
    else if (reduce && isReductionExpanded(reduce, of))
      expandReduction(expansion, reduce, map.lookup(reduce.getValue()), of);
    else
      changeIteration(expansion.made.emplace_back(builder.clone(op, map)), update);
    if (reduce && !isReductionExpanded(reduce, of))
      expansion.allReduce(expansion.made.back()->getResult(0));
    llvm::append_range(added, expansion.made);
    map.map(op.getResults(), added.back()->getResults());
    if (reduce && reduce.getScope() == Scope::Step)
      ofStep.emplace_back(reduce, added.back());
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
  SmallVector<Value> scalars;
  for (auto [state, value] : llvm::zip(rule.getByRole(Role::state), rule.getYield().getStates()))
    if (llvm::is_contained(stored, state) && rule.isScalarState(state))
      scalars.push_back(map.lookup(value));
    else if (llvm::is_contained(stored, state))
      collect(map.lookup(value));
  llvm::append_range(results, scalars);
  // A number of the step is written by one application, and has the shares of all.
  DenseSet<Value> needed;
  walkBack(results, [&](Value value) { return needed.insert(value).second; });
  DenseSet<Operation *> shares;
  for (auto [reduce, share] : ofStep)
    if (needed.contains(share->getResult(0))) {
      reductions.add(reduce, share);
      shares.insert(share);
    }
  update.replaceAllUsesWith(results);
  // What only an untaken choice used.
  for (Operation *op : llvm::reverse(added))
    if (op->use_empty() && !shares.contains(op))
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
    llvm::MapVector<Operation *, StepReductions> reductions;
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
          failed(countRule(update, rule, lengths[update->getParentOp()])) ||
          failed(inlineRule(update, rule, reductions[update->getParentOp()], exchange)))
        return signalPassFailure();
    }
    for (auto step : getOperation().getOps<StepOp>()) {
      reductions[step].combine(step);
      dropUniformMaxima(step);
    }
    if (!updates.empty())
      for (RuleOp rule : llvm::make_early_inc_range(getOperation().getOps<RuleOp>()))
        rule.erase();
  }
};
} // namespace

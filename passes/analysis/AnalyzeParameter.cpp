// Weights that no longer move, and denominators that nothing is added to.
#include "passes/analysis/Analyze.h"

#include "dialect/Variance.h"
#include "dialect/WalkBack.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

using namespace mlir;
using namespace altgrad;

// The least that a weight of 1 must fall to be stored as another number.
static double leastMove(const StoredUpdate &update) {
  return bisect(0, 1, 60, [&](double middle) { return update.isUnchanged(0, 1, 1 - middle); });
}

static double moved(const StoredUpdate &update, double grad) {
  return update.apply(update.steady(grad), /*exact=*/true)[0] - 1;
}

// The hyper-parameters that updates are proportional to.
static SmallVector<BlockArgument> getRates(const StoredUpdate &update) {
  SmallVector<BlockArgument> rates;
  double once = moved(update, 1);
  for (BlockArgument hyper : update.hyperArguments()) {
    StoredUpdate other = update;
    other.setHyper(hyper, 2 * update.hyper(hyper));
    double twice = moved(other, 1);
    if (once != 0 && std::fabs(twice / once - 2) < 1e-6)
      rates.push_back(hyper);
  }
  return rates;
}

static std::string described(const StoredUpdate &update) {
  std::optional<Round> round = update.getRounding(0);
  return "'" + update.getName(0).str() + "' in " + update.getFormat(0) +
         (round ? ", rounded " + stringifyRound(*round).str() : "");
}

static std::string remedyFor(const StoredUpdate &update) {
  return update.getFormat(0) == "f32" ? "no format is wider; choose larger numbers"
                                      : "storage=\"param=" + update.getFormat(0) +
                                            ",stochastic\" moves it on average, \"param=" + update.getFormat(0) +
                                            " master=f32\" keeps what is too small";
}

// A gradient of 0 leaves the decay alone to move a weight.
static void checkDecay(const StoredUpdate &update, double least, Findings &findings) {
  double decay = moved(update, 0);
  double stored = update.apply(update.steady(0), /*exact=*/false)[0];
  if (decay == 0 || !std::isfinite(decay) || !std::isfinite(stored) || !update.isUnchanged(0, 1, stored))
    return;
  findings.list.push_back({update.getLocation(0),
                           described(update) + ": the decay of " + digits(std::fabs(decay)) +
                               " in a step rounds to nothing; a weight of 1 moves by " + digits(least) +
                               " or not at all",
                           remedyFor(update)});
}

// A rule that takes the size of gradients out of an update.
static bool isNormalized(const StoredUpdate &update) {
  return std::fabs(moved(update, 1000) / moved(update, 1) - 1) < 0.01;
}

static void checkRates(const StoredUpdate &update, double least, Findings &findings) {
  double step = std::fabs(moved(update, 1));
  double stored = update.apply(update.steady(1), /*exact=*/false)[0];
  if (!std::isfinite(step) || step == 0)
    return;
  bool lost = update.isUnchanged(0, 1, stored);
  bool draws = update.getRounding(0) == Round::Stochastic;
  bool always = update.getFormat(0) != "f32" && !draws && isNormalized(update);
  if (!lost && !always)
    return;
  for (BlockArgument rate : getRates(update)) {
    RuleOp rule = update.getRule();
    std::string name = rule.getName(rate).str(), key = update.getKey(rate);
    double value = update.hyper(rate), bound = value * least / step;
    if (always && !key.empty())
      findings.limits.push_back({update.set(), update.getKey(0), key, 0, bound,
                                 described(update) + ": a weight of 1 does not move where " + key + " is below " +
                                     digits(bound) + "; " + remedyFor(update)});
    if (lost)
      findings.list.push_back({update.getLocation(0),
                               described(update) + ": " + name + " = " + digits(value) + " makes an update of " +
                                   digits(step) +
                                   " of a steady gradient of 1, and a weight of 1 does not move; "
                                   "the smallest " +
                                   name + " that moves it is " + digits(bound),
                               remedyFor(update)});
  }
}

void altgrad::checkParameter(const StoredUpdate &update, Findings &findings) {
  if (update.roundTrip(0, 1) != 1)
    return; // the format has no 1, or how it is stored is not known
  double least = leastMove(update);
  checkRates(update, least, findings);
  checkDecay(update, least, findings);
}

//===-- Denominators -------------------------------------------------------===//

namespace {
// A sum or a maximum in a denominator: of an element and of what is the same for all.
struct Guarded {
  Operation *op;
  Value element, guard;
};
} // namespace

// Walks from a divisor through what only scales it and takes roots.
static void findGuards(Value value, const Variances &variances, llvm::SetVector<Operation *> &seen,
                       SmallVectorImpl<Guarded> &found) {
  Operation *op = value.getDefiningOp();
  if (!op || !variances.isElement(value) || !seen.insert(op))
    return;
  if (isa<math::SqrtOp, math::AbsFOp>(op))
    return findGuards(op->getOperand(0), variances, seen, found);
  if (isa<arith::SelectOp>(op)) {
    findGuards(op->getOperand(1), variances, seen, found);
    return findGuards(op->getOperand(2), variances, seen, found);
  }
  bool guards = isa<arith::AddFOp, arith::MaximumFOp>(op);
  if (!guards && !isa<arith::MulFOp, arith::DivFOp>(op))
    return;
  for (unsigned i : {0, 1}) {
    Value element = op->getOperand(i), other = op->getOperand(1 - i);
    if (!variances.isElement(element) || variances.isElement(other))
      continue;
    if (guards)
      found.push_back({op, element, other});
    findGuards(element, variances, seen, found);
  }
}

// The least but 0 that `value` is when each state holds its least number.
static double getLeast(const StoredUpdate &update, Value value, Point &point) {
  point = update.steady(0);
  for (unsigned state = 0; state < update.stateCount(); ++state) {
    if (update.getBlock(state + 1) > 1)
      return 0; // whatever its scale makes of it
    double high = bisect(-160, 0, 24, [&](double power) { return update.isUnchanged(state + 1, 0, std::exp2(power)); });
    point.states[state] = update.roundTrip(state + 1, std::exp2(high), 0, 0xffff);
  }
  return update.valueAt(value, point, /*exact=*/false).value_or(0);
}

static std::string getHypers(Value value, RuleOp rule) {
  std::string names;
  walkBack(value, [&](Value needed) {
    if (auto argument = dyn_cast<BlockArgument>(needed))
      names += (names.empty() ? "" : ", ") + rule.getName(argument).str();
    return true;
  });
  return names.empty() ? "what is added" : names;
}

static void checkGuard(const StoredUpdate &update, const Guarded &guarded, Findings &findings) {
  Point point = update.steady(1);
  double wanted = update.valueAt(guarded.guard, point, true).value_or(0);
  double got = update.valueAt(guarded.guard, point, false).value_or(0);
  std::string name = getHypers(guarded.guard, update.getRule());
  if (wanted > 0 && got == 0) {
    findings.list.push_back({guarded.op->getLoc(),
                             name + " = " + digits(wanted) + " is 0 in f32, in which a denominator takes it",
                             "the least that f32 holds is 1.4e-45"});
    return;
  }
  double least = getLeast(update, guarded.element, point);
  if (!(got > 0) || !(least > got) || !std::isfinite(least))
    return;
  std::string formats;
  for (unsigned state = 0; state < update.stateCount(); ++state) {
    Point without = point;
    without.states[state] = 0;
    if (update.valueAt(guarded.element, without, /*exact=*/false) != least)
      formats +=
          (formats.empty() ? "'" : ", '") + update.getName(state + 1).str() + "' in " + update.getFormat(state + 1);
  }
  if (formats.empty()) // no state stands behind it, so no format makes it 0
    return;
  findings.list.push_back({guarded.op->getLoc(),
                           name + " = " + digits(got) + " is added to what is 0 or at least " + digits(least) +
                               ", with " + formats + ": an update that divides by " + name + " alone is up to " +
                               digits(least / got) + " times the largest other",
                           "a larger " + name + " bounds it, as does a format of more range"});
}

void altgrad::checkDivisions(const StoredUpdate &update, Findings &findings) {
  RuleOp rule = update.getRule();
  Variances variances(rule);
  llvm::SetVector<Operation *> seen;
  SmallVector<Guarded> found;
  for (auto divide : rule.getBody().getOps<arith::DivFOp>())
    findGuards(divide.getRhs(), variances, seen, found);
  for (const Guarded &guarded : found)
    checkGuard(update, guarded, findings);
}

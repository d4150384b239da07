// States that stand still, vanish, or have no room for what a rule gives them.
#include "passes/analysis/Analyze.h"

#include <cmath>

using namespace mlir;
using namespace altgrad;

static constexpr char widest[] = "no format is wider; choose other numbers";
// No gradient is smaller.
static constexpr double leastGradient = 0x1p-100;

namespace {
// One state of an update: what the rule makes of it, and what is read back.
class StateCheck {
public:
  StateCheck(const StoredUpdate &update, unsigned state, Findings &findings)
      : update(update), state(state), index(state + 1), name(update.getName(index).str()),
        format(update.getFormat(index)), block(update.getBlock(index)), findings(findings) {}
  void run();

private:
  double next(double before, double grad, bool exact) const;
  double kept(double number, uint32_t draw = 0) const { return update.kept(index, number, block > 1 ? top : 0, draw); }
  bool stays(double before, double number) const { return update.stays(index, before, number, block > 1 ? top : 0); }
  SmallVector<double> numbers() const;
  double beyond(double number) const;
  void average(double share);
  void sum();
  void beginning();
  void vanishing();
  double vanishesBelow() const;
  double moveAt(double grad, double now, std::optional<double> held = {}) const;
  void unscaled();
  // `always`: formats alone say so, or these and other values of a hyper-parameter.
  void report(const std::string &what, const std::string &remedy, bool always = true) {
    findings.list.push_back({update.getLocation(index), what, remedy});
    if (always && narrow())
      warn(what, remedy);
  }
  void warn(const std::string &what, const std::string &remedy) {
    findings.limits.push_back({update.set(), update.getKey(index), "", 0, 0, what + "; " + remedy});
  }
  // What a block's scale gives room for depends on what else is in the block.
  bool narrow() const { return block == 1 && format != "f32"; }
  bool limited(double share, ArrayRef<double> held);
  std::string place() const { return "state '" + name + "' in " + format; }
  // What helps, as it is written on the command line.
  std::string lasting() const {
    if (format == "f32")
      return widest;
    std::string kept = "\"" + name + "=f32\" keeps it";
    // Which have the nearest number alone.
    if (update.isNearestOnly(index) || !update.getCompanding(index).empty())
      return "storage=" + kept;
    return "storage=\"" + word(format, ",stochastic", keepsPositive()) + "\" keeps the change on average, " + kept;
  }
  std::string wider() const {
    if (format == "f32")
      return widest;
    StringRef format = this->format;
    return "storage=" + more();
  }
  std::string more() const {
    bool half = StringRef(format).starts_with("bf16");
    return "\"" + name + (half ? "=f32" : "=bf16,stochastic") + "\" has room for it";
  }

  // What leaves no 0 behind a number above it.
  std::string positive() const {
    bool draws = update.getRounding(index) == Round::Stochastic;
    return "storage=\"" + word(format, draws ? ",stochastic" : "", true) + "\" stores no positive number as 0";
  }
  bool keepsPositive() const { return update.kept(index, 0, 1) == 0 && update.kept(index, 0x1p-145, 1) > 0x1p-144; }
  std::string word(StringRef format, StringRef rounding, bool positive) const {
    StringRef bent = update.getCompanding(index);
    return (name + "=" + format + (bent.empty() ? rounding : ",") + bent + (positive ? ",keep_positive" : "")).str();
  }

  const StoredUpdate &update;
  unsigned state, index;
  std::string name, format;
  unsigned block;
  double top = 1; // the largest of its block, where there are blocks
  Findings &findings;
};
} // namespace

double StateCheck::next(double before, double grad, bool exact) const {
  Point point = update.steady(grad);
  point.states[state] = before;
  return update.apply(point, exact)[index];
}

// What the format holds of a binade, of one in which it holds most.
SmallVector<double> StateCheck::numbers() const {
  SmallVector<double> most;
  for (double base : {1.0, 0.5, 0.25, 0.125, 4.0, 16.0, 64.0}) {
    if (block > 1 && base > top / 2)
      continue;
    SmallVector<double> held;
    for (int part = 0; part < 128; ++part) {
      double number = kept(kept(base * (1 + part / 128.0)));
      bool inside = number >= base * 0.9999 && number < base * 1.9999;
      if (inside && kept(number) == number && (held.empty() || number > held.back()))
        held.push_back(number);
    }
    if (held.size() > most.size())
      most = held;
    if (most.size() == 128)
      break;
  }
  return most;
}

// The least that is stored as more than `number`.
double StateCheck::beyond(double number) const {
  return halve(number, number * 2, 60, [&](double middle) { return !(kept(middle, /*draw=*/0) > number); });
}

// The share from which on no number falls, if it is the value of a hyper-parameter.
bool StateCheck::limited(double share, ArrayRef<double> held) {
  double bound = 0;
  for (double number : {held.front(), held.back()})
    bound = std::max(bound, halve(0, 1, 40, [&](double part) { return !stays(number, part * number); }));
  for (BlockArgument hyper : update.hyperArguments()) {
    std::string key = update.getKey(hyper);
    if (key.empty() || std::fabs(update.hyper(hyper) - share) > 1e-12)
      continue;
    if (bound < 1 - 1e-6)
      findings.limits.push_back({update.set(), update.getKey(index), key, bound, 1,
                                 place() + " stands still where 1 - " + key + " is below " + digits(1 - bound) +
                                     ": no number falls under gradients of 0; " + lasting()});
    return true;
  }
  return false;
}

// state <- share * state + (1 - share) * x
void StateCheck::average(double share) {
  SmallVector<double> held = numbers();
  if (held.empty())
    return;
  bool known = !narrow() || limited(share, held);
  Point point = update.steady(0);
  unsigned still = llvm::count_if(held, [&](double number) {
    point.states[state] = number;
    return stays(number, update.apply(point, /*exact=*/false)[index]);
  });
  std::optional<Round> round = update.getRounding(index);
  bool draws = round == Round::Stochastic;
  double grows = draws ? 1 : 1 + (beyond(held[0]) / held[0] - 1) / (1 - share);
  if (!still && grows < 2)
    return;
  std::string what = place() + " is an average that replaces " + digits(1 - share) +
                     " of itself in each step; rounded " + (round ? stringifyRound(*round).str() : "to f32");
  bool all = still == held.size();
  if (still)
    what +=
        (all ? std::string(", no number")
             : ", only " + std::to_string(held.size() - still) + " of " + std::to_string(held.size()) + " numbers") +
        (block > 1 ? " beside a larger one in its block" : "") + (all ? " falls" : " fall") + " under gradients of 0";
  if (grows > 1.01)
    what += (still ? ", and" : ",") + std::string(" it grows only where what it averages is over ") + digits(grows) +
            " times as large";
  report(what, lasting(), /*always=*/!known);
}

// state <- state + x
void StateCheck::sum() {
  SmallVector<double> held = numbers();
  if (held.empty() || update.getRounding(index) == Round::Stochastic)
    return;
  double times = held[0] / (beyond(held[0]) - held[0]);
  if (times < 100000)
    report(place() + " is a sum, and stands still once it is over " + digits(times) + " times what a step adds",
           lasting());
}

// What a state is before the first step, and what sign it may have.
void StateCheck::beginning() {
  if (double zero = update.kept(index, 0); zero != 0)
    report(place() + " begins as " + digits(zero) + ": the format has no zero", wider());
  double down = next(0, /*grad=*/-1, /*exact=*/true);
  if (down < 0 && !(update.kept(index, -1) < 0) && !(update.kept(index, -1000) < 0))
    report(place() + " is to become " + digits(down) + " under a gradient of -1: the format has no negative numbers",
           wider());
  double still = next(0, /*grad=*/0, /*exact=*/true);
  if (still != 0 && std::isfinite(still) && stays(0, still))
    report(place() + " has no room for the " + digits(still) + " that the rule adds under a gradient of 0", wider());
}

// The gradient below which a state that is 0 remains 0.
double StateCheck::vanishesBelow() const {
  auto vanishes = [&](double power) {
    double grown = next(0, std::exp2(power), /*exact=*/true);
    return grown == 0 || std::isnan(grown) || stays(0, grown);
  };
  // The greatest power that vanishes is the least that does not of the negated ones.
  return vanishes(40) || !vanishes(-149)
             ? 0
             : std::exp2(-halve(-40, 149, 24, [&](double power) { return !vanishes(-power); }));
}

// How far a parameter moves by what a steady gradient has left behind, when it is
// `now`; `held`: with this state at that.
double StateCheck::moveAt(double grad, double now, std::optional<double> held) const {
  Point point = update.steady(grad), rest = update.steady(0);
  point.grad = now;
  if (held)
    point.states[state] = *held;
  return std::fabs(update.apply(point, /*exact=*/true)[0] - update.apply(rest, /*exact=*/true)[0]);
}

void StateCheck::vanishing() {
  double grad = vanishesBelow();
  if (grad < leastGradient)
    return;
  grad *= 0.999;
  std::string what = place() + " stays 0 under gradients below " + digits(grad);
  if (block > 1)
    what += " of the block's largest";
  double wanted = moveAt(grad, 0), moved = moveAt(grad, 0, 0.0);
  if (wanted > 0 && moved > 2 * wanted) {
    what += ", and what divides by it moves a parameter by up to " + digits(moved) + " where " + digits(wanted) +
            " is meant";
    std::string remedy = format == "f32" ? std::string(widest) : positive() + ", " + more();
    report(what, remedy, /*always=*/false);
    if (format != "f32") // in a block, beside whatever is in it
      warn(what, remedy);
    return;
  }
  wanted = moveAt(grad, grad), moved = moveAt(grad, grad, 0.0);
  double usual = moveAt(1, 1);
  if (block == 1 && wanted > usual / 1000 && moved < wanted / 2)
    report(what + ", which move a parameter by " + digits(moved) + " where " + digits(wanted) + " is meant", wider());
}

// A block whose numbers are all below what the least scale has room for: whether an update
// is another one then. The largest gradient for which it is, all of the block's being alike.
void StateCheck::unscaled() {
  if (block == 1)
    return;
  double wanted = 0, moved = 0, usual = moveAt(1, 1);
  auto held = [&](double number) { return update.kept(index, number, std::fabs(number)); };
  auto differs = [&](double power) {
    double grad = std::exp2(power), grown = next(0, grad, /*exact=*/true);
    wanted = moveAt(grad, grad);
    // One that is stored as 0 begins anew in every step.
    moved = moveAt(grad, grad, held(grown) == 0 ? 0 : held(update.steady(grad).states[state]));
    return wanted > usual / 1000 && (moved > 2 * wanted || moved < wanted / 2);
  };
  double power = 0;
  // Until updates no longer matter.
  while (!differs(power))
    if ((power -= 4) < -80 || wanted <= usual / 1000)
      return;
  double low = -halve(-power - 4, -power, 10, [&](double other) { return !differs(-other); });
  differs(low);
  std::string what = place() + " is lost in a block whose gradients are all below " + digits(std::exp2(low)) +
                     ", for which the least scale in " + update.getScaleFormat(index) +
                     " is too large: a parameter moves by " + digits(moved) + " where " + digits(wanted) + " is meant";
  StringRef plain = StringRef(format).rsplit(':').first;
  std::string remedy = update.getScaleFormat(index) == "f32"
                           ? wider()
                           : "storage=\"" + word(plain, "", keepsPositive()) + "\" has scales in f32";
  report(what, remedy, /*always=*/false);
  // Where steps are merely shorter below 1e-7, with torchao's 1e-12, nobody is warned.
  if (moved > wanted || update.getScaleFormat(index) != "f32")
    warn(what, remedy);
}

void StateCheck::run() {
  if (std::isnan(update.kept(index, 0)))
    return; // how it is stored is not known
  top = 1;
  if (block > 1)
    if (double steady = update.steady(1).states[state]; std::isfinite(steady) && steady != 0)
      top = std::fabs(steady);
  beginning();
  // Around twice what a gradient of 1 makes of it: what keeps a maximum is itself there.
  Point point = update.steady(1);
  double middle = 2 * std::fabs(point.states[state]);
  if (!(middle > 0))
    middle = 1;
  double at = next(middle, 1, true), lower = next(middle * 0.75, 1, true), upper = next(middle * 1.5, 1, true);
  double share = (upper - lower) / (middle * 0.75);
  bool linear = std::fabs((at - lower) / (middle * 0.25) - share) < 1e-6;
  if (linear && share > 0 && share < 1 - 1e-13)
    average(share);
  else if (linear && std::fabs(share - 1) < 1e-13 && at != middle)
    sum();
  vanishing();
  unscaled();
}

void altgrad::checkStates(const StoredUpdate &update, Findings &findings) {
  for (unsigned state = 0; state < update.stateCount(); ++state)
    StateCheck(update, state, findings).run();
}

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
  double roundTrip(double number, uint32_t draw = 0) const {
    return update.roundTrip(index, number, block > 1 ? top : 0, draw);
  }
  bool isUnchanged(double before, double number) const {
    return update.isUnchanged(index, before, number, block > 1 ? top : 0);
  }
  SmallVector<double> sampleNumbers() const;
  double findNextNumber(double number) const;
  void checkAverage(double share);
  void checkSum();
  void checkInitialValue();
  void checkVanishing();
  double vanishesBelow() const;
  double getParameterMove(double grad, double now, std::optional<double> held = {}) const;
  void checkLeastScale();
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
  bool addLimit(double share, ArrayRef<double> held);
  std::string describeState() const { return "state '" + name + "' in " + format; }
  // What helps, as it is written on the command line.
  std::string suggestLasting() const {
    if (format == "f32")
      return widest;
    std::string asF32 = "\"" + name + "=f32\" keeps it";
    // Which have the nearest number alone.
    if (update.isNearestOnly(index) || !update.getCompanding(index).empty())
      return "storage=" + asF32;
    return "storage=\"" + formatWord(format, ",stochastic", preservesPositive()) + "\" keeps the change on average, " +
           asF32;
  }
  std::string suggestWider() const {
    if (format == "f32")
      return widest;
    StringRef format = this->format;
    return "storage=" + suggestRoom();
  }
  std::string suggestRoom() const {
    bool half = StringRef(format).starts_with("bf16");
    return "\"" + name + (half ? "=f32" : "=bf16,stochastic") + "\" has room for it";
  }

  // What leaves no 0 behind a number above it.
  std::string suggestPositive() const {
    bool draws = update.getRounding(index) == Round::Stochastic;
    return "storage=\"" + formatWord(format, draws ? ",stochastic" : "", true) + "\" stores no positive number as 0";
  }
  bool preservesPositive() const {
    return update.roundTrip(index, 0, 1) == 0 && update.roundTrip(index, 0x1p-145, 1) > 0x1p-144;
  }
  std::string formatWord(StringRef format, StringRef rounding, bool positive) const {
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
SmallVector<double> StateCheck::sampleNumbers() const {
  SmallVector<double> most;
  for (double base : {1.0, 0.5, 0.25, 0.125, 4.0, 16.0, 64.0}) {
    if (block > 1 && base > top / 2)
      continue;
    SmallVector<double> held;
    for (int part = 0; part < 128; ++part) {
      double number = roundTrip(roundTrip(base * (1 + part / 128.0)));
      bool inside = number >= base * 0.9999 && number < base * 1.9999;
      if (inside && roundTrip(number) == number && (held.empty() || number > held.back()))
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
double StateCheck::findNextNumber(double number) const {
  return bisect(number, number * 2, 60, [&](double middle) { return !(roundTrip(middle, /*draw=*/0) > number); });
}

// The share from which on no number falls, if it is the value of a hyper-parameter.
bool StateCheck::addLimit(double share, ArrayRef<double> held) {
  double bound = 0;
  for (double number : {held.front(), held.back()})
    bound = std::max(bound, bisect(0, 1, 40, [&](double part) { return !isUnchanged(number, part * number); }));
  for (BlockArgument hyper : update.hyperArguments()) {
    std::string key = update.getKey(hyper);
    if (key.empty() || std::fabs(update.hyper(hyper) - share) > 1e-12)
      continue;
    if (bound < 1 - 1e-6)
      findings.limits.push_back({update.set(), update.getKey(index), key, bound, 1,
                                 describeState() + " stands still where 1 - " + key + " is below " + digits(1 - bound) +
                                     ": no number falls under gradients of 0; " + suggestLasting()});
    return true;
  }
  return false;
}

// state <- share * state + (1 - share) * x
void StateCheck::checkAverage(double share) {
  SmallVector<double> held = sampleNumbers();
  if (held.empty())
    return;
  bool known = !narrow() || addLimit(share, held);
  Point point = update.steady(0);
  unsigned still = llvm::count_if(held, [&](double number) {
    point.states[state] = number;
    return isUnchanged(number, update.apply(point, /*exact=*/false)[index]);
  });
  std::optional<Round> round = update.getRounding(index);
  bool draws = round == Round::Stochastic;
  double grows = draws ? 1 : 1 + (findNextNumber(held[0]) / held[0] - 1) / (1 - share);
  if (!still && grows < 2)
    return;
  std::string what = describeState() + " is an average that replaces " + digits(1 - share) +
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
  report(what, suggestLasting(), /*always=*/!known);
}

// state <- state + x
void StateCheck::checkSum() {
  SmallVector<double> held = sampleNumbers();
  if (held.empty() || update.getRounding(index) == Round::Stochastic)
    return;
  double times = held[0] / (findNextNumber(held[0]) - held[0]);
  if (times < 100000)
    report(describeState() + " is a sum, and stands still once it is over " + digits(times) + " times what a step adds",
           suggestLasting());
}

// What a state is before the first step, and what sign it may have.
void StateCheck::checkInitialValue() {
  if (double zero = update.roundTrip(index, 0); zero != 0)
    report(describeState() + " begins as " + digits(zero) + ": the format has no zero", suggestWider());
  double down = next(0, /*grad=*/-1, /*exact=*/true);
  if (down < 0 && !(update.roundTrip(index, -1) < 0) && !(update.roundTrip(index, -1000) < 0))
    report(describeState() + " is to become " + digits(down) +
               " under a gradient of -1: the format has no negative numbers",
           suggestWider());
  double still = next(0, /*grad=*/0, /*exact=*/true);
  if (still != 0 && std::isfinite(still) && isUnchanged(0, still))
    report(describeState() + " has no room for the " + digits(still) + " that the rule adds under a gradient of 0",
           suggestWider());
}

// The gradient below which a state that is 0 remains 0.
double StateCheck::vanishesBelow() const {
  auto vanishes = [&](double power) {
    double grown = next(0, std::exp2(power), /*exact=*/true);
    return grown == 0 || std::isnan(grown) || isUnchanged(0, grown);
  };
  // The greatest power that vanishes is the least that does not of the negated ones.
  return vanishes(40) || !vanishes(-149)
             ? 0
             : std::exp2(-bisect(-40, 149, 24, [&](double power) { return !vanishes(-power); }));
}

// How far a parameter moves by what a steady gradient has left behind, when it is
// `now`; `held`: with this state at that.
double StateCheck::getParameterMove(double grad, double now, std::optional<double> held) const {
  Point point = update.steady(grad), rest = update.steady(0);
  point.grad = now;
  if (held)
    point.states[state] = *held;
  return std::fabs(update.apply(point, /*exact=*/true)[0] - update.apply(rest, /*exact=*/true)[0]);
}

void StateCheck::checkVanishing() {
  double grad = vanishesBelow();
  if (grad < leastGradient)
    return;
  grad *= 0.999;
  std::string what = describeState() + " stays 0 under gradients below " + digits(grad);
  if (block > 1)
    what += " of the block's largest";
  double wanted = getParameterMove(grad, 0), moved = getParameterMove(grad, 0, 0.0);
  if (wanted > 0 && moved > 2 * wanted) {
    what += ", and what divides by it moves a parameter by up to " + digits(moved) + " where " + digits(wanted) +
            " is meant";
    std::string remedy = format == "f32" ? std::string(widest) : suggestPositive() + ", " + suggestRoom();
    report(what, remedy, /*always=*/false);
    if (format != "f32") // in a block, beside whatever is in it
      warn(what, remedy);
    return;
  }
  wanted = getParameterMove(grad, grad), moved = getParameterMove(grad, grad, 0.0);
  double usual = getParameterMove(1, 1);
  if (block == 1 && wanted > usual / 1000 && moved < wanted / 2)
    report(what + ", which move a parameter by " + digits(moved) + " where " + digits(wanted) + " is meant",
           suggestWider());
}

// A block whose numbers are all below what the least scale has room for: whether an update
// is another one then. The largest gradient for which it is, all of the block's being alike.
void StateCheck::checkLeastScale() {
  if (block == 1)
    return;
  double wanted = 0, moved = 0, usual = getParameterMove(1, 1);
  auto held = [&](double number) { return update.roundTrip(index, number, std::fabs(number)); };
  auto differs = [&](double power) {
    double grad = std::exp2(power), grown = next(0, grad, /*exact=*/true);
    wanted = getParameterMove(grad, grad);
    // One that is stored as 0 begins anew in every step.
    moved = getParameterMove(grad, grad, held(grown) == 0 ? 0 : held(update.steady(grad).states[state]));
    return wanted > usual / 1000 && (moved > 2 * wanted || moved < wanted / 2);
  };
  double power = 0;
  // Until updates no longer matter.
  while (!differs(power))
    if ((power -= 4) < -80 || wanted <= usual / 1000)
      return;
  double low = -bisect(-power - 4, -power, 10, [&](double other) { return !differs(-other); });
  differs(low);
  std::string what = describeState() + " is lost in a block whose gradients are all below " + digits(std::exp2(low)) +
                     ", for which the least scale in " + update.getScaleFormat(index) +
                     " is too large: a parameter moves by " + digits(moved) + " where " + digits(wanted) + " is meant";
  StringRef plain = StringRef(format).rsplit(':').first;
  std::string remedy = update.getScaleFormat(index) == "f32"
                           ? suggestWider()
                           : "storage=\"" + formatWord(plain, "", preservesPositive()) + "\" has scales in f32";
  report(what, remedy, /*always=*/false);
  // Where steps are merely shorter below 1e-7, with torchao's 1e-12, nobody is warned.
  if (moved > wanted || update.getScaleFormat(index) != "f32")
    warn(what, remedy);
}

void StateCheck::run() {
  if (std::isnan(update.roundTrip(index, 0)))
    return; // how it is stored is not known
  top = 1;
  if (block > 1)
    if (double steady = update.steady(1).states[state]; std::isfinite(steady) && steady != 0)
      top = std::fabs(steady);
  checkInitialValue();
  // Around twice what a gradient of 1 makes of it: what keeps a maximum is itself there.
  Point point = update.steady(1);
  double middle = 2 * std::fabs(point.states[state]);
  if (!(middle > 0))
    middle = 1;
  double at = next(middle, 1, true), lower = next(middle * 0.75, 1, true), upper = next(middle * 1.5, 1, true);
  double share = (upper - lower) / (middle * 0.75);
  bool linear = std::fabs((at - lower) / (middle * 0.25) - share) < 1e-6;
  if (linear && share > 0 && share < 1 - 1e-13)
    checkAverage(share);
  else if (linear && std::fabs(share - 1) < 1e-13 && at != middle)
    checkSum();
  checkVanishing();
  checkLeastScale();
}

void altgrad::checkStates(const StoredUpdate &update, Findings &findings) {
  for (unsigned state = 0; state < update.stateCount(); ++state)
    StateCheck(update, state, findings).run();
}

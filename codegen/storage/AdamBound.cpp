// How far a step of Adam can take a parameter, which follows from its arithmetic alone.
#include "codegen/step/SetWriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

namespace {
// Values of a rule as terms: operations by their names, arguments by theirs, choices
// that the options decide taken.
class Terms {
public:
  Terms(RuleOp rule, ArrayRef<StringRef> options)
      : rule(rule), decided(rule.decide(options)) {}

  /// From now on `value` is called so.
  void call(Value value, StringRef name) { known[value] = name.str(); }
  const std::string &of(Value value) {
    auto it = known.find(value);
    if (it == known.end())
      it = known.try_emplace(value, make(value)).first;
    return it->second;
  }

private:
  std::string make(Value value);

  RuleOp rule;
  DenseMap<Value, bool> decided;
  DenseMap<Value, std::string> known;
};
} // namespace

std::string Terms::make(Value value) {
  // A rule of another kind may have a term that is as long as all its paths.
  constexpr size_t most = 2000;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return rule.getName(argument).str();
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
      double is = number.getValueAsDouble();
      return is == 1 ? "1" : is == 0.5 ? "half" : "?";
    }
  auto choice = dyn_cast<arith::SelectOp>(op);
  if (auto it = choice ? decided.find(choice.getCondition()) : decided.end();
      it != decided.end())
    return of(it->second ? choice.getTrueValue() : choice.getFalseValue());
  std::string term = op->getName().stripDialect().str();
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    term = arith::stringifyCmpFPredicate(compare.getPredicate()).str();
  term += "(";
  for (Value operand : op->getOperands()) {
    term += (term.back() == '(' ? "" : ",") + std::string(of(operand));
    if (term.size() > most)
      return "?";
  }
  return term + ")";
}

// Whether a rule is Adam as templates/adam.mlir and adamw.mlir compute it, with whatever
// gradient; then, whether the parameter is shrunk first.
static std::optional<bool> readAdam(RuleOp rule, ArrayRef<StringRef> options) {
  YieldOp yield = rule.getYield();
  auto states = rule.getByRole("state");
  if (states.size() < 2 || rule.getName(states[0]) != "m" ||
      rule.getName(states[1]) != "v")
    return std::nullopt;
  Terms terms(rule, options);
  Value m = yield.getStates()[0], v = yield.getStates()[1];
  auto square = v.getDefiningOp<math::FmaOp>();
  if (!square)
    return std::nullopt;
  terms.call(square.getB(), "G"); // the gradient, whatever it is made of
  std::string blend = "truncf(subf(1,beta1))";
  std::string near = "olt(" + blend + ",half)";
  if (terms.of(v) != "fma(mulf(truncf(subf(1,beta2)),G),G,mulf(truncf(beta2),v))" ||
      terms.of(m) != "fma(select(" + near + "," + blend + ",subf(" + blend +
                         ",1)),subf(G,m),select(" + near + ",m,G))")
    return std::nullopt;
  terms.call(m, "M");
  terms.call(v, "V");
  auto move = [](StringRef from, StringRef second) {
    return ("addf(" + from +
            ",divf(mulf(truncf(negf(divf(lr,subf(1,fpowi(beta1,t))))),M),addf(divf(sqrt(" +
            second + "),truncf(sqrt(subf(1,fpowi(beta2,t))))),truncf(eps))))")
        .str();
  };
  StringRef param = rule.getName(rule.getByRole("param")[0]);
  std::string shrunk = ("mulf(" + param + ",truncf(subf(1,mulf(lr,decay))))").str();
  for (StringRef second : {"V", "maximumf(vmax,V)"}) {
    if (terms.of(yield.getParam()) == move(param, second))
      return false;
    if (terms.of(yield.getParam()) == move(shrunk, second))
      return true;
  }
  return std::nullopt;
}

LogicalResult SetWriter::checkBounded() {
  SmallVector<StringRef> options(request.options.begin(), request.options.end());
  if (!readAdam(rule, options))
    return error() << "storage 'copy=" << formatOf("copy")
                   << ",bounded' of rule '" << rule.getSymName()
                   << "', whose steps have no bound that is known; adam's and adamw's "
                      "have one, write delayed or current";
  for (BlockArgument state : states)
    if (formatOf(rule.getName(state)) != "f32")
      return error() << "storage 'copy=" << formatOf("copy") << ",bounded' and state '"
                     << rule.getName(state) << "' in " << formatOf(rule.getName(state))
                     << "; the bound is of states in f32";
  StringRef master = formats.count("master") ? StringRef(formats["master"]) : "";
  if (inRungs() || (master != "f32" && master != "bf16+i16" && formatOf("param") != "f32"))
    return error() << "storage 'copy=" << formatOf("copy")
                   << ",bounded' of a parameter in "
                   << formatOf(inRungs() ? "rungs" : "param")
                   << "; the bound is of parameters or masters in f32";
  return success();
}

// |1 - lr decay| times the largest number before, and lr C_t, where by Cauchy and Schwarz
//   C_t = (1 - beta1) / (1 - beta1^t) sqrt((1 - beta2^t) / (1 - beta2) (1 - r^t) / (1 - r)),
// r = beta1^2 / beta2. What is added to both is for the rounding of 2^24 steps.
std::string SetWriter::boundOfLargest(const Named &copy, const Named &newest) {
  std::string name = "%" + copy.name + ".bound.";
  SmallVector<StringRef> options(request.options.begin(), request.options.end());
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value);
    return name + result.str();
  };
  auto of = [&](const Twine &result, StringRef op, const std::string &a,
                const std::string &b) {
    return line(result, "arith." + op + " " + a + ", " + b + " : f64");
  };
  std::string one = line("one", "arith.constant 1.0 : f64");
  // (1 - x^t) and (1 - x).
  auto parts = [&](const std::string &word, const std::string &x) {
    std::string power =
        line(word + ".power", "math.fpowi " + x + ", " + count + " : f64, i64");
    return std::make_pair(of(word + ".sum", "subf", one, power),
                          of(word + ".share", "subf", one, x));
  };
  std::string beta1 = hypers["beta1"], beta2 = hypers["beta2"], lr = hypers["lr"];
  auto [sum1, share1] = parts("first", beta1);
  auto [sum2, share2] = parts("second", beta2);
  std::string r = of("r", "divf", of("square", "mulf", beta1, beta1), beta2);
  auto [sum, share] = parts("both", r);
  std::string under = of("under", "mulf", of("long", "divf", sum2, share2),
                         of("short", "divf", sum, share));
  std::string root = line("root", "math.sqrt " + under + " : f64");
  std::string most = of("most", "mulf", of("rate", "divf", share1, sum1), root);
  std::string slack = line("slack", "arith.constant 1.015625 : f64");
  std::string rate = line("lr", "math.absf " + lr + " : f64");
  std::string move = of("move", "mulf", of("moves", "mulf", rate, most), slack);
  std::string kept = line("before", "arith.extf %" + newest.name + " : f32 to f64");
  if (*readAdam(rule, options)) {
    std::string less = of("less", "subf", one, of("decay", "mulf", lr, hypers["decay"]));
    kept = of("kept", "mulf", kept, line("factor", "math.absf " + less + " : f64"));
  }
  std::string little = line("little", "arith.constant 1.000001 : f64");
  std::string all = of("all", "addf", of("held", "mulf", kept, little), move);
  return line("largest", "arith.truncf " + all + " : f64 to f32");
}

// The sets of coefficients that have a name, and their text.
#include "dialect/Coefficients.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace altgrad;

// Adding one: a row here. Rows and margins are those of the source; `polar_gns` has the source's
// base, which the source itself divides by its safety factor.
static const CoefficientSet sets[] = {
    {"jordan", "K. Jordan, Muon (2024); torch.optim.Muon", StepCount::Any, 1, 1, {{3.4445, -4.7750, 2.0315}}},
    {"polar_dion", "Polar Express in dion", StepCount::All, 1, 1.02,
     {{8.156554524902461, -22.48329292557795, 15.878769915207462},
      {4.042929935166739, -2.808917465908714, 0.5000178451051316},
      {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
      {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
      {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}},
    {"polar_gns", "Polar Express in gram-newton-schulz", StepCount::All, 1.05, 1,
     {{8.28721201814563, -23.595886519098837, 17.300387312530933},
      {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
      {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
      {3.3184196573706015, -2.488488024314874, 0.51004894012372},
      {2.300652019954817, -1.6689039845747493, 0.4188073119525673}}},
    {"polar_emerging", "Polar Express in Emerging-Optimizers and TransformerEngine", StepCount::Some, 1, 1,
     {{8.2051, -22.9019, 16.4607}, {4.0664, -2.8612, .5184}, {3.9096, -2.8234, .5250}, {3.2856, -2.4153, .4853},
      {2.2779, -1.6198, .3985}, {1.8726, -1.2307, .3585}, {1.8564, -1.2132, .3568}, {1.875, -1.25, .375}}},
    {"you", "YOU in gram-newton-schulz", StepCount::All, 1, 1,
     {{4.0848, -6.8946, 2.9270}, {3.9505, -6.3029, 2.6377}, {3.7418, -5.5913, 2.3037}, {2.8769, -3.1427, 1.2046},
      {2.8366, -3.0525, 1.2012}}},
    {"aol", "AOL in gram-newton-schulz", StepCount::All, 1, 1,
     {{4.6051, -9.6552, 5.6769}, {4.7505, -6.0861, 2.1790}, {2.7763, -2.3190, 0.5523}, {2.4231, -2.2861, 0.8193}}},
    {"cans", "CANS", StepCount::All, 1, 1,
     {{8.4703, -25.1081, 18.6293}, {4.1828, -3.1087, .5806}, {3.9619, -2.9541, .5630}, {3.2866, -2.4647, .5074},
      {2.2737, -1.6447, .4162}}},
    {"deepseek_v4", "DeepSeek-V4", StepCount::All, 1, 1,
     {{3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315},
      {3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315},
      {2, -1.5, 0.5}, {2, -1.5, 0.5}}},
    {"cubic5", "arXiv 2606.00371; without a fifth power", StepCount::All, 1, 1,
     {{3.3656576, -3.3420992, 0}, {2.5744352, -1.4957376, 0}, {2.5368962, -1.4312570, 0}, {2.4418906, -1.2764040, 0},
      {2.2230472, -.9630650, 0}}},
};

bool CoefficientSet::allows(int64_t count) const {
  int64_t known = rows.size();
  return count >= 1 && count < 100 &&
         (steps == StepCount::Any || count == known || (steps == StepCount::Some && count < known));
}

std::string CoefficientSet::allowed() const {
  return steps == StepCount::Any    ? "1 to 99 steps"
         : steps == StepCount::Some ? "1 to " + std::to_string(rows.size()) + " steps"
                                : std::to_string(rows.size()) + " steps";
}

Polynomial CoefficientSet::at(int64_t step) const {
  Polynomial row = rows[std::min<size_t>(step, rows.size() - 1)];
  double cube = safety * safety * safety;
  return {row[0] / safety, row[1] / cube, row[2] / (cube * safety * safety)};
}

// Of a thousand singular values up to 1; the derivative of a result is the product of those of the steps behind it.
double CoefficientSet::getErrorGrowth(int64_t count) const {
  double most = 0;
  for (int thousandth = 1; thousandth <= 1000; ++thousandth) {
    SmallVector<double> values{thousandth / 1000.};
    for (int64_t step = 0; step < count; ++step) {
      auto [a, b, c] = at(step);
      double x = values.back();
      values.push_back(x * (a + x * x * (b + x * x * c)));
    }
    double growth = 1;
    for (int64_t step = count - 1; step >= 0; --step) {
      auto [a, b, c] = at(step);
      double x = values[step], square = x * x;
      growth *= a + square * (3 * b + square * 5 * c);
      if (!std::isfinite(growth * x))
        return std::numeric_limits<double>::infinity();
      most = std::max(most, std::abs(growth * x));
    }
  }
  return most;
}

static std::optional<CoefficientSet> written(ArrayAttr rows) {
  CoefficientSet set{"", "", rows.size() == 1 ? StepCount::Any : StepCount::All, 1, 1, {}};
  for (Attribute row : rows) {
    auto numbers = dyn_cast<ArrayAttr>(row);
    if (!numbers || numbers.size() != 3)
      return std::nullopt;
    Polynomial &next = set.rows.emplace_back();
    for (auto [number, to] : llvm::zip(numbers, next)) {
      auto real = dyn_cast<FloatAttr>(number);
      if (!real || !real.getValue().isFinite())
        return std::nullopt;
      to = real.getValueAsDouble();
    }
  }
  return set.rows.empty() ? std::nullopt : std::optional(set);
}

std::optional<CoefficientSet> altgrad::readCoefficients(Attribute attribute) {
  if (auto rows = dyn_cast<ArrayAttr>(attribute))
    return written(rows);
  auto name = dyn_cast<StringAttr>(attribute);
  for (const CoefficientSet &set : sets)
    if (name && set.name == name.getValue())
      return set;
  return std::nullopt;
}

std::string altgrad::coefficientNames() {
  return llvm::join(llvm::map_range(sets, [](const CoefficientSet &set) { return set.name; }), ", ");
}

std::string altgrad::listCoefficients() {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (const CoefficientSet &set : sets) {
    out << llvm::formatv("{0} {1}, margin {2}, {3}:", set.name, set.allowed(), set.margin, set.source);
    for (size_t step = 0; step < set.rows.size(); ++step) {
      auto [a, b, c] = set.at(step);
      out << llvm::format(" (%.17g %.17g %.17g)", a, b, c);
    }
    out << "\n";
  }
  return text;
}

//===-- Text ----------------------------------------------------------------===//

ParseResult altgrad::parseCoefficients(OpAsmParser &parser, Attribute &coefficients) {
  Builder &builder = parser.getBuilder();
  StringRef name;
  if (succeeded(parser.parseOptionalKeyword(&name))) {
    coefficients = builder.getStringAttr(name);
    return success();
  }
  SmallVector<Attribute> rows;
  auto row = [&]() -> ParseResult {
    SmallVector<Attribute> numbers;
    auto number = [&]() -> ParseResult {
      double value;
      if (parser.parseFloat(value))
        return failure();
      numbers.push_back(builder.getF64FloatAttr(value));
      return success();
    };
    if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, number))
      return failure();
    rows.push_back(builder.getArrayAttr(numbers));
    return success();
  };
  if (parser.parseCommaSeparatedList(row))
    return failure();
  coefficients = builder.getArrayAttr(rows);
  return success();
}

void altgrad::printCoefficients(OpAsmPrinter &printer, Operation *, Attribute coefficients) {
  if (auto name = dyn_cast<StringAttr>(coefficients)) {
    printer << name.getValue();
    return;
  }
  llvm::interleaveComma(cast<ArrayAttr>(coefficients).getAsRange<ArrayAttr>(), printer, [&](ArrayAttr row) {
    printer << "[";
    llvm::interleaveComma(row, printer, [&](Attribute number) { printer.printAttributeWithoutType(number); });
    printer << "]";
  });
}

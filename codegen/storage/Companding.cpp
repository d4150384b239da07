// FlashOptim's companding: codes of numbers that are bent first, so that more of them
// are for those that are small beside their block's largest.
#include "codegen/step/SetWriter.h"

using namespace mlir;
using namespace altgrad;

Companding SetWriter::compandingOf(StringRef state) {
  return compandings.lookup(formats.count(state) ? state : "states");
}

LogicalResult SetWriter::checkCompanding(StringRef text, const StorageWord &word) {
  if (word.companding == Companding::None)
    return success();
  bool root = word.companding == Companding::Sqrt;
  StringRef said = root ? "sqrt" : "softsign", format = root ? "uint8" : "int8";
  if (word.format != format || !word.block)
    return error() << "storage '" << text << "' says " << said << ", which is of codes in "
                   << format << " with a scale for each block, as "
                   << (root ? "v=uint8:32:f16,sqrt" : "m=int8:32:f16,softsign");
  if (word.stream == "copy" || word.scale == "ocp.e8m0")
    return error() << "storage '" << text << "' says " << said << " of "
                   << (word.stream == "copy" ? "a copy; it is for states"
                                             : "scales that are powers of two; they "
                                               "are in f16 or f32");
  if (word.hasModifiers())
    return error() << "storage '" << text << "' says " << said
                   << " and how codes are rounded, which FlashOptim's are to the "
                      "nearest, halves up";
  return success();
}

namespace {
// Lines of f32 about one state, whose values begin with its name.
struct Lines {
  StepText &text;
  std::string name;

  std::string operator()(const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
    return name + result.str();
  }
  std::string constant(const Twine &result, float number) {
    return (*this)(result, "arith.constant " + bitsOf(number));
  }
};
} // namespace

// y / (2 - |y|) of y = code / 127 is code / (254 - |code|); a root's square is
// (code / 255)^2. Products of a code and a scale in f16 are exact.
void SetWriter::expand(const Named &state) {
  Lines line{text, "%" + state.name + "."};
  std::string share =
      line("share.old", "arith.mulf " + line.name + "number, " + line.name + "unit");
  if (compandingOf(state.key) == Companding::Sqrt) {
    std::string of = line.constant("255th", 1.0f / 255);
    std::string root = line("root.old", "arith.mulf " + share + ", " + of);
    line("value", "arith.mulf " + root + ", " + root);
    return;
  }
  std::string whole = line.constant("254.old", 254);
  std::string size = line("size.old", "math.absf " + line.name + "number");
  std::string over = line("over.old", "arith.subf " + whole + ", " + size);
  line("value", "arith.divf " + share + ", " + over);
}

// With x = number / scale: 127 * 2x / (1 + |x|) is 254 * number / (scale + |number|), and
// a root's share 255 * root / scale. Then floor(... + 0.5). What is beyond the scale, an
// infinity too, is the largest code, and a NaN 0.
void SetWriter::compress(const Named &state, const std::string &number,
                         StringRef scale) {
  Lines line{text, "%" + state.name + "."};
  bool root = compandingOf(state.key) == Companding::Sqrt;
  std::string within = line("within", "arith.minimumf " + number + ", " + scale);
  std::string over = scale.str();
  if (!root) {
    std::string least = line("lowest", "arith.negf " + scale);
    within = line("bounded", "arith.maximumf " + within + ", " + least);
    over = line("over", "arith.addf " + scale + ", " +
                            line("bounded.size", "math.absf " + within));
  }
  std::string share = line("bent", "arith.divf " + within + ", " + over);
  std::string place =
      line("place", "arith.mulf " + share + ", " + line.constant("codes", root ? 255 : 254));
  std::string up =
      line("up", "arith.addf " + place + ", " + line.constant("half", 0.5));
  // No code is beyond 255.
  StringRef type = "!altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 8, "
                   "bias = -8, inf = false, nan = none>>";
  text.line(line.name + "ups = collect " + up + " : f32 to !altgrad.reals");
  text.line(line.name + "cut = quantize " + line.name +
            "ups round<toward_zero> overflow<saturate> : " + type);
  text.line(line.name + "cuts = dequantize " + line.name + "cut : " + type);
  text.line(line.name + "whole = element " + line.name + "cuts");
  std::string above = line("above", "arith.cmpf ogt, " + line.name + "whole, " + up);
  std::string less = line("less", "arith.subf " + line.name + "whole, " +
                                      line.constant("unit.code", 1));
  line("scaled", "arith.select " + above + ", " + less + ", " + line.name + "whole");
}

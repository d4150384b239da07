// Scales that are powers of two, by the four rules of MX formats.
#include "codegen/driver/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

// The power of two at or below x comes from the codec: toward zero, in a format that
// has nothing but powers of two. Each rule is then that power or the next, times a
// constant: RCEIL of largest / the format's largest (as a product with the rounded
// inverse) the one at or above; FLOOR, CEIL and EVEN of the largest itself, over the
// power of two in the format's. A NaN stays one, 255; an infinity is 254.
std::string SetWriter::powerOfTwo(const Named &scales, StringRef largest,
                                  StringRef state) {
  std::string name = "%" + scales.name + ".", type = typeOfScales(state);
  ScaleRule rule = *ruleOf(state);
  Format known = FormatAttr::getNamed(loc.getContext(), formatOf(state)).toFormat();
  float top = decode(known, known.maxCode());
  float unit = rule == ScaleRule::RCeil ? 1.0f : std::exp2f(-std::ilogb(top));
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
  };
  auto constant = [&](StringRef result, float number) {
    line(result, "arith.constant " + bitsOf(number));
  };
  auto power = [&](const std::string &word, StringRef of) {
    std::string code = name + word;
    text.line(code + ".list = collect " + of + " : f32 to !altgrad.reals");
    text.line(code + " = quantize " + code +
              ".list round<toward_zero> overflow<saturate> : " + type);
    text.line(code + ".back = dequantize " + code + " : " + type);
    text.line(code + ".power = element " + code + ".back");
    return code + ".power";
  };
  std::string x = largest.str();
  if (rule == ScaleRule::RCeil) {
    constant("inverse", 1.0f / top);
    x = name + "share";
    line("share", "arith.mulf " + largest + ", " + name + "inverse");
  }
  std::string below = power("below", x);
  constant("unit", unit);
  line("this", "arith.mulf " + below + ", " + name + "unit");
  std::string chosen = name + "this";
  if (rule != ScaleRule::Floor) {
    constant("twice", 2 * unit);
    line("next", "arith.mulf " + below + ", " + name + "twice");
    // EVEN: from where the format's mantissa rounds up to the next power.
    constant("from", rule == ScaleRule::Even
                         ? 2 - std::exp2f(-1.0f - known.mantissaBits)
                         : 1.0f);
    line("limit", "arith.mulf " + below + ", " + name + "from");
    line("more", Twine("arith.cmpf ") +
                     (rule == ScaleRule::Even ? "oge, " : "ogt, ") + x + ", " +
                     name + "limit");
    line("chosen", "arith.select " + name + "more, " + name + "next, " + name +
                       "this");
    chosen = name + "chosen";
  }
  if (rule != ScaleRule::RCeil) {
    constant("infinity", std::numeric_limits<float>::infinity());
    line("infinite", "arith.cmpf oeq, " + x + ", " + name + "infinity");
    line("kept", "arith.select " + name + "infinite, " + name + "infinity, " +
                     chosen);
    chosen = name + "kept";
  }
  return power("code", chosen);
}

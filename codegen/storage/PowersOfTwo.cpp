// Scales that are powers of two, by the four rules of MX formats.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

// The power of two at or below x comes from the codec: toward zero, in a format that
// has nothing but powers of two. Each rule is then that power or the next, times a
// constant: RCEIL of largest / the format's largest (as a product with the rounded
// inverse) the one at or above; FLOOR, CEIL and EVEN of the largest itself, over the
// power of two in the format's. A NaN stays one, 255; an infinity is 254.
std::string SetWriter::powerOfTwo(const Named &scales, StringRef largest,
                                  StringRef state, const std::string &type) {
  std::string name = "%" + scales.name + ".";
  ScaleRule rule = *ruleOf(state);
  Format known = FormatAttr::getNamed(loc.getContext(), formatOf(state)).toFormat();
  float top = decode(known, known.maxCode());
  float unit = rule == ScaleRule::RCeil ? 1.0f : std::exp2f(-std::ilogb(top));
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
  };
  auto constant = [&](const Twine &result, float number) {
    line(result, "arith.constant " + bitsOf(number));
  };
  auto code = [&](const std::string &word, StringRef of) {
    text.line(name + word + ".list = collect " + of + " : f32 to !altgrad.reals");
    text.line(name + word + " = quantize " + name + word +
              ".list round<toward_zero> overflow<saturate> : " + type);
  };
  std::string x = largest.str();
  if (rule == ScaleRule::RCeil) {
    constant("inverse", 1.0f / top);
    x = name + "share";
    line("share", "arith.mulf " + largest + ", " + name + "inverse");
  }
  code("floor", x);
  text.line(name + "floor.back = dequantize " + name + "floor : " + type);
  text.line(name + "below = element " + name + "floor.back");
  std::string below = name + "below";
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
  auto choose = [&](const std::string &word, StringRef predicate, StringRef of,
                    float limit, float instead) {
    constant(word + ".limit", limit);
    constant(word + ".instead", instead);
    line(word + ".is", "arith.cmpf " + predicate + ", " + of + ", " + name + word +
                           ".limit");
    line(word, "arith.select " + name + word + ".is, " + name + word + ".instead, " +
                   chosen);
    chosen = name + word;
  };
  // What the format holds, so that nobody waits for the code; a NaN stays one.
  float most = 0x1p127f, least = 0x1p-127f;
  if (rule != ScaleRule::RCeil) {
    choose("infinite", "oeq", x, std::numeric_limits<float>::infinity(), most);
    choose("small", "olt", chosen, least, least);
  }
  choose("large", "ogt", chosen, most, most);
  code("code", chosen);
  return chosen;
}

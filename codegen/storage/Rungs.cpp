// Parameters that move on a format's grid: a rung in, its rounded change out.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

// The place of a code is its number among integers of its width.
static std::string typeOfPlaces(const Format &grid) {
  std::string bits = std::to_string(grid.bits() - 1);
  return "!altgrad.tensors<#altgrad.format<exponent = 0, mantissa = " + bits +
         ", bias = -" + bits + ", inf = false, nan = none>>";
}

// A draw as a number of 65536ths.
static constexpr StringLiteral typeOfUniforms =
    "!altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 16, bias = 0, "
    "inf = false, nan = none, signed = false>>";
// Whole rungs: beyond 255 all are alike, and an i16 holds their sums.
static constexpr StringLiteral typeOfMoves =
    "!altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 9, bias = -9, "
    "inf = false, nan = none>>";

static bool holds(const Format &format, const Format &grid) {
  for (uint32_t code = 0; code <= grid.maxCode(); ++code) {
    uint32_t bits = decodeBits(grid, code);
    if (decodeBits(format, encodeBits(format, bits, Rounding::NearestEven,
                                      Overflow::NonFinite)) != bits)
      return false;
  }
  return true;
}

Format SetWriter::grid() {
  return FormatAttr::getNamed(loc.getContext(), formatOf("rungs")).toFormat();
}

LogicalResult SetWriter::checkRungs() {
  StorageWord word = wordOf("rungs");
  std::string text = ("storage 'rungs=" + formatOf("rungs") + "'").str();
  if (grid().bits() > 8 || !grid().hasSign || grid().complement)
    return error() << text
                   << ": rungs are of formats with a sign, a magnitude and at "
                      "most 8 bits, such as rungs=ocp.e4m3fn";
  if (word.overflow)
    return error() << text
                   << " says what is beyond the format; rungs end where it does";
  if (formats.count("master"))
    return error() << text
                   << " beside a master; the rung is all there is of a parameter, leave the master out";
  if (wordOf("param").hasModifiers())
    return error() << text
                   << " beside how param is rounded; say that of the rungs";
  auto param = FormatAttr::getNamed(loc.getContext(), formatOf("param"));
  if (!holds(param.toFormat(), grid()))
    return error() << text << ": " << formatOf("param")
                   << " does not hold all its numbers; store its codes with param="
                   << formatOf("rungs") << ", or the numbers with param=f32";
  return success();
}

// Whether the parameter is stored as its code.
bool SetWriter::isCoded() {
  auto param = FormatAttr::getNamed(loc.getContext(), formatOf("param"));
  return param.toFormat() == grid();
}

bool SetWriter::drawsRungs() {
  return inRungs() && wordOf("rungs").round.value_or(Round::Stochastic) ==
                          Round::Stochastic;
}

//===-- Text
//----------------------------------------------------------------===//

namespace {
// Lines about one parameter, whose values begin with its name.
struct RungText {
  StepText &text;
  std::string name; // "%w."

  std::string line(const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value);
    return name + result.str();
  }
  std::string number(const Twine &result, const Twine &value) {
    return line(result, value + " : f32");
  }
  std::string constant(const Twine &result, float number) {
    return this->number(result, "arith.constant " + bitsOf(number));
  }
  std::string element(const Twine &result, const Twine &list) {
    return line(result, "element " + list);
  }
  // `number` as a whole one.
  std::string whole(const Twine &result, const std::string &list,
                    const Twine &round) {
    std::string codes = line(result + ".codes",
                             "quantize " + list + " round<" + round +
                                 " overflow<saturate> : " + typeOfMoves);
    return element(result, line(result + ".list", "dequantize " + codes +
                                                      " : " + typeOfMoves));
  }
  std::string collect(const Twine &result, const Twine &element) {
    return line(result, "collect " + element + " : f32 to !altgrad.reals");
  }
};
} // namespace

// The rung of the parameter, a list that the update takes for it.
std::string SetWriter::loadRung(const Named &param, StringRef old) {
  RungText t{text, "%" + param.name + "."};
  std::string codes = "%" + param.name, type = typeOf("rungs");
  if (!isCoded())
    codes = t.line("snapped", "quantize " + old + " round<nearest_even> "
                              "overflow<saturate> : " + type);
  std::string places = typeOfPlaces(grid());
  t.line("place", "recode " + codes + " : " + type + " to " + places);
  std::string list = t.line("rung", "dequantize " + t.name + "place : " + places);
  rung.code = rung.from = t.element("from", list);
  rung.old = isCoded() ? rung.from : t.element("number", old);
  if (isCoded() || !wordOf("rungs").reference)
    return list;
  // As searchsorted does: what lies between two numbers belongs to the upper one.
  t.line("near", "dequantize " + codes + " : " + type);
  std::string near = t.element("nearest", t.name + "near");
  t.number("below", "arith.cmpf olt, " + near + ", " + rung.old);
  t.constant("one", 1);
  t.number("upper", "arith.addf " + rung.from + ", " + t.name + "one");
  rung.from = t.number("first", "arith.select " + t.name + "below, " + t.name +
                                    "upper, " + rung.from);
  return t.collect("firsts", rung.from);
}

// floor(u - change) down: the sum as f32 rounds it.
static std::string roundAsReference(RungText &t, const std::string &change,
                                    const std::string &draw) {
  t.line("draws", "collect " + draw + " : i16 to " + typeOfUniforms);
  t.line("uniforms", "dequantize " + t.name + "draws : " + typeOfUniforms);
  t.element("uniform", t.name + "uniforms");
  t.number("down", "arith.negf " + t.element("by.number", change));
  std::string sum =
      t.number("sum", "arith.addf " + t.name + "down, " + t.name + "uniform");
  std::string cut = t.whole("cut", t.collect("sums", sum), "toward_zero>");
  t.constant("unit", 1);
  t.number("negative", "arith.cmpf ogt, " + cut + ", " + sum);
  t.number("less", "arith.subf " + cut + ", " + t.name + "unit");
  t.number("floor", "arith.select " + t.name + "negative, " + t.name + "less, " + cut);
  return t.number("by", "arith.negf " + t.name + "floor");
}

// `change` as a whole number of rungs.
std::string SetWriter::roundRungs(const Named &param, const std::string &change) {
  RungText t{text, "%" + param.name + "."};
  StorageWord word = wordOf("rungs");
  if (!drawsRungs())
    return t.whole("by", change, stringifyRound(*word.round) + ">");
  std::string draw =
      t.line("draw", "draw seed(%seed) step(%seed.next) store(0) : i" +
                         Twine(word.drawBits));
  return word.reference
             ? roundAsReference(t, change, draw)
             : t.whole("by", change,
                       "stochastic> draw(" + draw +
                           (word.drawBits == 16 ? ")" : " : i32)"));
}

// Moves the rung by `change`, not beyond the last one. A code that is no number
// stays what it is, and -0 becomes 0. Returns the new values.
std::string SetWriter::storeRung(const Named &param, const std::string &change) {
  RungText t{text, "%" + param.name + "."};
  rung.change = change;
  std::string by = roundRungs(param, change);
  float last = grid().maxCode();
  rung.to = t.number("to", "arith.addf " + rung.from + ", " + by);
  std::string least = t.constant("bottom", -last), most = t.constant("top", last);
  t.number("raised", "arith.maximumf " + rung.to + ", " + least);
  t.number("bounded", "arith.minimumf " + t.name + "raised, " + most);
  std::string zero = t.constant("zero", 0);
  std::string next = t.number("next", "arith.addf " + t.name + "bounded, " + zero);
  if (grid().maxCode() + 1 < grid().magnitudes()) {
    t.number("magnitude", "math.absf " + rung.code);
    t.number("special", "arith.cmpf ogt, " + t.name + "magnitude, " + most);
    next = t.number("kept", "arith.select " + t.name + "special, " + rung.code +
                                ", " + next);
  }
  std::string places = typeOfPlaces(grid()), type = typeOf("rungs");
  t.line("next.place", "quantize " + t.collect("nexts", next) +
                           " round<nearest_even> overflow<saturate> : " + places);
  code = t.line("moved", "recode " + t.name + "next.place : " + places + " to " + type);
  std::string values = t.line("new", "dequantize " + code + " : " + type);
  if (isCoded())
    text.writes.push_back(code + " to %" + param.name + " : " + type);
  else
    stored(param, values, "param");
  rung.now = isCoded() ? next : t.element("new.number", values);
  countFlips();
  return values;
}

//===-- Counts
//--------------------------------------------------------------===//

// At how many elements the gradient pulls, and how many move.
void SetWriter::countFlips() {
  RungText t{text, "%" + grad.name + "."};
  t.number("pull", "math.absf " + element(gradient, "taken"));
  t.constant("least", 1e-10f);
  measured("updates",
           countOf(t.number("pulls", "arith.cmpf ogt, " + t.name + "pull, " +
                                         t.name + "least"),
                   "updates"),
           false);
  rung.flips = t.number("flips", "arith.cmpf one, " + rung.now + ", " + rung.old);
  measured("flips", countOf(rung.flips, "flipped"), false);
}

// The rest, beside the other statistics: those that went up, that were to go beyond the
// last rung, and that were to move and did not.
void SetWriter::measureRungs() {
  RungText t{text, "%" + grad.name + "."};
  t.number("up", "arith.cmpf ogt, " + rung.now + ", " + rung.old);
  measured("flips_up", countOf(t.name + "up", "ups"), false);
  t.number("goal", "math.absf " + rung.to);
  t.constant("end", grid().maxCode());
  t.number("beyond", "arith.cmpf ogt, " + t.name + "goal, " + t.name + "end");
  measured("saturated", countOf(t.name + "beyond", "saturated"), false);
  t.constant("rest", 0);
  t.number("moves", "arith.cmpf one, " + element(rung.change, "step") + ", " + t.name + "rest");
  t.line("stays", "arith.constant true");
  t.line("still", "arith.xori " + rung.flips + ", " + t.name + "stays : i1");
  t.line("misses", "arith.andi " + t.name + "moves, " + t.name + "still : i1");
  measured("lost", countOf(t.name + "misses", "lost"), false);
}

// A step that quantizes what it is given: x / scale rounded to a format, as its
// code or as code times scale.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

// Beyond the largest number a finite one saturates and an infinity stays one,
// where the format has it: the contract of definitions' quantize.
std::string SetWriter::saturated(StringRef value, FormatAttr format) {
  std::string name = "%" + grad.name + ".";
  if (!format.getInf())
    return value.str();
  Format known = format.toFormat();
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = arith." + value + " : f32");
  };
  line("most", "constant " + bitsOf(decode(known, known.maxCode())));
  line("least", "negf " + name + "most");
  line("infinity", "constant " + bitsOf(std::numeric_limits<float>::infinity()));
  text.line(name + "size = math.absf " + value + " : f32");
  line("infinite", "cmpf oeq, " + name + "size, " + name + "infinity");
  line("low", "maximumf " + value + ", " + name + "least");
  line("bounded", "minimumf " + name + "low, " + name + "most");
  line("kept", "select " + name + "infinite, " + value + ", " + name + "bounded");
  return name + "kept";
}

// The f32 that an element is divided by.
FailureOr<std::string> SetWriter::takeGivenScales(StringRef scales) {
  if (scales.empty())
    return std::string("%grad_scale");
  Named name = named("grad_scale");
  if (scales == "tensor") {
    text.argument("in tensor_scale " + name.declared() + ": f32 per_tensor" +
                  ofSet(/*list=*/false));
    return "%" + name.name;
  }
  unsigned block = 1;
  if (scales != "element" && (scales.getAsInteger(10, block) || !isBlock(block)))
    return error() << "--scales=" << scales
                   << " is neither tensor nor element nor a power of two from "
                   << minBlock << " to " << maxBlock;
  std::string type = "!altgrad.tensors<f32";
  type += block > 1 ? " per " + std::to_string(block) + ">" : ">";
  stream("in", "input", name, type);
  text.line("%" + name.name + ".unit = element " + load(name, type));
  return "%" + name.name + ".unit";
}

LogicalResult SetWriter::quantizeTo(StringRef format, StringRef scales) {
  FormatAttr known = FormatAttr::getNamed(loc.getContext(), format);
  if (!formats.count("copy"))
    return error() << "--quantize wants a copy in the set: \"grad=f32 copy=f32\"";
  std::string name = "%" + grad.name + ".";
  std::string type = ("!altgrad.tensors<" + format + ">").str();
  bool scaled = wordOf("copy").tensorScale != TensorScale::None;
  bool hasScales = blockOf("copy") > 1 || hasSquares() || scaled;
  if (hasScales && !scales.empty())
    return error() << "--scales=" << scales << " beside a copy that has its own";
  FailureOr<std::string> unit = takeGivenScales(scales);
  if (failed(unit))
    return failure();
  dequantizeGradient();
  text.line(name + "element = element " + gradient);
  text.line(name + "scaled = arith.divf " + name + "element, " + *unit + " : f32");
  if (hasScales) {
    if (formatOf("copy") != format)
      return error() << "--quantize=" << format << " beside a copy "
                     << (scaled ? "with a scale in " : "in blocks of ")
                     << formatOf("copy") << ", which takes codes of its own format";
    text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
    size_t before = text.writes.size();
    writeCopy(name + "list");
    moveToAlways(before);
    return success();
  }
  bool clamps = formatOf("copy") != format || !words.lookup("copy").overflow;
  std::string kept = clamps ? saturated(name + "scaled", known) : name + "scaled";
  text.line(name + "list = collect " + kept + " : f32 to !altgrad.reals");
  Named copy = named("copy");
  stream("out", "copy", copy, typeOf("copy"));
  if (formatOf("copy") == format) {
    StorageWord &word = words["copy"];
    if (!word.overflow && known.getInf())
      word.overflow = OverflowMode::NonFinite;
    stored(copy, name + "list", "copy");
    text.always.push_back(text.writes.pop_back_val());
    return success();
  }
  text.line(name + "codes = quantize " + name + "list round<nearest_even> overflow<" +
            (known.getInf() ? "nonfinite" : "saturate") + "> : " + type);
  text.line(name + "back = dequantize " + name + "codes : " + type);
  text.line(name + "number = element " + name + "back");
  text.line(name + "product = arith.mulf " + name + "number, " + *unit + " : f32");
  text.line(name + "result = collect " + name + "product : f32 to !altgrad.reals");
  stored(copy, name + "result", "copy");
  text.always.push_back(text.writes.pop_back_val());
  return success();
}

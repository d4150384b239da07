// Copies in blocks of 128 rows and columns, each with a scale: DeepSeek's recipe, and
// TransformerEngine's of the name Float8BlockScaling for weights.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

LogicalResult SetWriter::takeSquares(StringRef text, const StorageWord &word) {
  auto refuse = [&]() { return error() << "storage '" << text << "' has blocks of 128x128"; };
  auto format = FormatAttr::getNamed(loc.getContext(), word.format);
  if (word.stream != "copy")
    return refuse() << ", which are of a copy of the parameter";
  if (!format || format.getBytes() != 1)
    return refuse() << " of codes in " << word.format << ", which are wider than a byte";
  if (format.isBook())
    return refuse() << " of codes in " << word.format << ", a code book's";
  if (format.toFormat().canPack())
    return refuse() << " of codes in " << word.format << ", which share bytes";
  if (word.round.value_or(Round::NearestEven) == Round::Stochastic)
    return refuse() << " and 'stochastic'; copies in squares are not rounded by draws";
  StringRef scale = word.scale ? StringRef(*word.scale) : "f32";
  if (scale != "f32" && scale != "ocp.e8m0")
    return refuse() << " with scales in '" << scale << "'; these are in f32 or ocp.e8m0";
  scaleFormats["copy"] = scale.str();
  if (scale == "ocp.e8m0")
    rules["copy"] = word.rule.value_or(ScaleRule::RCeil);
  return success();
}

// By the codec that has nothing but powers of two: elements are never f64.
std::string SetWriter::powerBelow(const std::string &factor) {
  text.line(factor + ".list = collect " + factor + " : f32 to !altgrad.reals");
  text.line(factor + ".code = quantize " + factor +
            ".list round<toward_zero> overflow<saturate> : "
            "!altgrad.tensors<ocp.e8m0>");
  text.line(factor + ".back = dequantize " + factor +
            ".code : !altgrad.tensors<ocp.e8m0>");
  text.line(factor + ".power = element " + factor + ".back");
  return factor + ".power";
}

// A scale in f32 is TransformerEngine's: codes are of what is multiplied by the format's
// largest number over the block's, or by the power of two at or below that, and the
// inverse is stored. Blocks of zeros, and with what is not finite, have a scale of 1.
void SetWriter::storeSquares(const Named &copy, StringRef value) {
  Named scales{text.name("copy_scale" + suffix()), copy.key};
  std::string format = scaleFormat("copy").getKnownName().str(),
              type = "!altgrad.tensors<" + format + " per " +
                     std::to_string(squareBlock) + " squares>";
  stream("out", "block_scale", scales, type);
  std::string name = "%" + copy.name + ".", factor;
  text.line(name + "next = element " + value);
  text.line(name + "largest = square_max " + name + "next over " +
            Twine(squareBlock) + " : f32");
  if (ruleOf("copy")) {
    std::string scale = powerOfTwo(scales, name + "largest", "copy", type);
    text.line(name + "one = arith.constant 1.0 : f32");
    factor = name + "inverse";
    text.line(factor + " = arith.divf " + name + "one, " + scale + " : f32");
    text.writes.push_back("%" + scales.name + ".code to %" + scales.name + " : " + type);
  } else {
    Format known = codecOf("copy");
    factor = factorOf(copy, name + "largest", decode(known, known.maxCode()));
    if (wordOf("copy").pow2)
      factor = powerBelow(factor);
    text.line(name + "unit = arith.divf " + name + "one, " + factor + " : f32");
    text.line(name + "units = collect " + name + "unit : f32 to !altgrad.reals");
    text.writes.push_back(name + "units to %" + scales.name + " : " + type);
  }
  text.line(name + "scaled = arith.mulf " + name + "next, " + factor + " : f32");
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  stored(copy, name + "list", "copy", /*scaled=*/true);
}

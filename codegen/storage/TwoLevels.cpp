// Copies whose blocks have narrow scales below one of the tensor, as NVFP4.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

// By TransformerEngine's words (common/cast/nvfp4/core_nvfp4.cuh): the tensor's scale
// makes its largest number that of both formats together, a block's is its largest over
// the format's, rounded, and elements are divided by both. The tensor's largest is that
// of the step before; what lies beyond saturates in the block's scale. A step without a
// rule takes its own.
void SetWriter::storeTwoLevels(const Named &copy, const Named &scales,
                               StringRef value) {
  Named most = named("copy_amax"), unit = named("copy_tensor_scale");
  std::string name = "%" + copy.name + ".", end = " per_tensor" + ofSet(/*list=*/false);
  std::string code = "%" + scales.name + ".code", type = typeOfScales("copy");
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = arith." + value + " : f32");
  };
  text.argument((isRuled() ? "inout" : "out") + (" tensor_scale " + most.declared()) +
                ": f32" + end);
  text.argument("out tensor_scale " + unit.declared() + ": f32" + end);
  Format elements = codecOf("copy"), levels = scaleFormat("copy").toFormat();
  float top = decode(elements, elements.maxCode());
  text.line(name + "next = element " + value);
  std::string largest = largestOf(copy, /*finite=*/false);
  text.line(name + "found = reduce max " + name + "size over tensor : f32");
  line("least", "constant 0.0");
  line("amax", "maximumf " + name + "found, " + name + "least");
  std::string scale = factorOf(copy, isRuled() ? "%" + most.name : name + "amax",
                                  top * decode(levels, levels.maxCode()));
  line("unit", "divf " + name + "one, " + scale);
  line("part", "constant " + bitsOf(1 / top));
  line("factors", "mulf " + scale + ", " + name + "part");
  line("wanted", "mulf " + largest + ", " + name + "factors");
  text.line(code + ".list = collect " + name + "wanted : f32 to !altgrad.reals");
  text.line(code + " = quantize " + code + ".list round<nearest_even> overflow<saturate> : " + type);
  text.line(code + ".back = dequantize " + code + " : " + type);
  text.line(name + "level = element " + code + ".back");
  line("product", "mulf " + name + "level, " + name + "unit");
  line("quotient", "divf " + name + "one, " + name + "product");
  line("inverse", "minimumf " + name + "quotient, " + name + "most");
  line("scaled", "mulf " + name + "next, " + name + "inverse");
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  stored(copy, name + "list", "copy", /*scaled=*/true);
  text.writes.push_back(code + " to %" + scales.name + " : " + type);
  text.writes.push_back(name + "amax to %" + most.name + " : f32");
  text.writes.push_back(name + "unit to %" + unit.name + " : f32");
}

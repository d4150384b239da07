// Copies with one scale for a tensor, which comes from the step before: delayed
// scaling, as TransformerEngine's.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

// `top` over the tensor's largest number; 1 where that is 0 or not finite. The
// power of two at or below it is Rump's unit in the first place, in f64, where nothing
// overflows: q - (1 - 2^-53) q with q = (2^52 + 1) x.
std::string SetWriter::delayedScale(const Named &copy, StringRef largest,
                                    float top) {
  std::string name = "%" + copy.name + ".";
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = arith." + value);
  };
  auto constant = [&](StringRef result, float number) {
    line(result, "constant " + bitsOf(number) + " : f32");
  };
  constant("none", 0);
  constant("one", 1);
  constant("infinity", std::numeric_limits<float>::infinity());
  constant("most", std::numeric_limits<float>::max());
  constant("top", top);
  line("some", "cmpf ogt, " + largest + ", " + name + "none : f32");
  line("finite", "cmpf olt, " + largest + ", " + name + "infinity : f32");
  line("known", "andi " + name + "some, " + name + "finite : i1");
  line("share", "divf " + name + "top, " + largest + " : f32");
  line("bounded", "minimumf " + name + "share, " + name + "most : f32");
  line("factor", "select " + name + "known, " + name + "bounded, " + name + "one : f32");
  if (!wordOf("copy").pow2)
    return name + "factor";
  line("wide", "extf " + name + "factor : f32 to f64");
  line("spread", "constant 4503599627370497.0 : f64");
  line("less", "constant 0x3FEFFFFFFFFFFFFF : f64");
  line("far", "mulf " + name + "wide, " + name + "spread : f64");
  line("near", "mulf " + name + "far, " + name + "less : f64");
  line("first", "subf " + name + "far, " + name + "near : f64");
  line("power", "truncf " + name + "first : f64 to f32");
  return name + "power";
}

// The largest magnitude of this step's numbers is for the next one.
void SetWriter::storeDelayed(const Named &copy, StringRef value) {
  Named most = named("copy_amax"), unit = named("copy_scale");
  std::string name = "%" + copy.name + ".", end = " per_tensor" + ofSet(/*list=*/false);
  text.argument("inout tensor_scale " + most.declared() + ": f32" + end);
  text.argument("out tensor_scale " + unit.declared() + ": f32" + end);
  Format known = codecOf("copy");
  std::string scale =
      delayedScale(copy, "%" + most.name, decode(known, known.maxCode()));
  text.line(name + "unit = arith.divf " + name + "one, " + scale + " : f32");
  text.line(name + "next = element " + value);
  text.line(name + "scaled = arith.mulf " + name + "next, " + scale + " : f32");
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  stored(copy, name + "list", "copy", /*scaled=*/true);
  text.line(name + "size = math.absf " + name + "next : f32");
  text.line(name + "found = reduce max " + name + "size over tensor : f32");
  text.line(name + "largest = arith.maximumf " + name + "found, " + name + "none : f32");
  text.writes.push_back(name + "largest to %" + most.name + " : f32");
  text.writes.push_back(name + "unit to %" + unit.name + " : f32");
}

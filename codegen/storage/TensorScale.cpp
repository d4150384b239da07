// Copies with one scale for a tensor: by the largest numbers of past steps, which is
// TransformerEngine's delayed scaling, by this step's, or by a bound of it.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"

using namespace mlir;
using namespace altgrad;

LogicalResult SetWriter::checkTensorScale(StringRef text, const StorageWord &word) {
  if (word.tensorScale == TensorScale::None)
    return success();
  if (word.format == "f32")
    return error() << "storage '" << text << "' has a scale, and f32 needs none";
  if (!isRuled() && word.tensorScale != TensorScale::Current)
    return error() << "storage '" << text
                   << "' has a scale by the step before, and gradients have "
                      "none; write current";
  return success();
}

std::string SetWriter::factorOf(const Named &copy, StringRef largest, float top) {
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
  return name + "factor";
}

// The power of two at or below it is Rump's unit in the first place, in f64, where
// nothing overflows: q - (1 - 2^-53) q with q = (2^52 + 1) x.
std::string SetWriter::tensorScale(const Named &copy, StringRef largest, float top) {
  std::string factor = factorOf(copy, largest, top), name = "%" + copy.name + ".";
  if (!wordOf("copy").pow2)
    return factor;
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = arith." + value);
  };
  line("wide", "extf " + factor + " : f32 to f64");
  line("spread", "constant 4503599627370497.0 : f64");
  line("less", "constant 0x3FEFFFFFFFFFFFFF : f64");
  line("far", "mulf " + name + "wide, " + name + "spread : f64");
  line("near", "mulf " + name + "far, " + name + "less : f64");
  line("first", "subf " + name + "far, " + name + "near : f64");
  line("power", "truncf " + name + "first : f64 to f32");
  return name + "power";
}

// The largest finite one of the last steps' largest numbers, which move on by one. Of
// one step alone it is that, whatever it is.
std::string SetWriter::largestOfHistory(const Named &copy, const Named &newest) {
  std::string end = " per_tensor" + ofSet(/*list=*/false);
  std::string most = "%" + newest.name, before = most, name = "%" + copy.name + ".";
  unsigned history = wordOf("copy").history;
  if (history == 1)
    return most;
  text.line(name + "past.none = arith.constant 0.0 : f32");
  text.line(name + "past.end = arith.constant " +
            bitsOf(std::numeric_limits<float>::infinity()) + " : f32");
  most = name + "past.none";
  for (unsigned step = 0; step < history; ++step) {
    std::string at = name + "past." + std::to_string(step);
    std::string held = before;
    if (step) {
      Named older = named("copy_amax_" + std::to_string(step));
      text.argument("inout tensor_scale " + older.declared() + ": f32" + end);
      text.writes.push_back(before + " to %" + older.name + " : f32");
      held = before = "%" + older.name;
    }
    text.line(at + ".is = arith.cmpf olt, " + held + ", " + name + "past.end : f32");
    text.line(at + ".or = arith.select " + at + ".is, " + held + ", " + name +
              "past.none : f32");
    text.line(at + " = arith.maximumf " + most + ", " + at + ".or : f32");
    most = at;
  }
  return most;
}

// What this step finds is for the next ones; a step without a rule says it.
void SetWriter::storeTensorScaled(const Named &copy, StringRef value) {
  TensorScale kind = wordOf("copy").tensorScale;
  std::string name = "%" + copy.name + ".", end = " per_tensor" + ofSet(/*list=*/false);
  std::string largest = name + "largest", most = largest;
  text.line(name + "next = element " + value);
  text.line(name + "size = math.absf " + name + "next : f32");
  text.line(name + "found = reduce max " + name + "size over tensor : f32");
  text.line(name + "least = arith.constant 0.0 : f32");
  text.line(largest + " = arith.maximumf " + name + "found, " + name + "least : f32");
  Named newest;
  if (kind != TensorScale::Current || !isRuled()) {
    newest = named("copy_amax");
    text.argument((kind == TensorScale::Current ? "out" : "inout") +
                  (" tensor_scale " + newest.declared()) + ": f32" + end);
  }
  if (kind == TensorScale::Delayed)
    most = largestOfHistory(copy, newest);
  else if (kind == TensorScale::Bounded)
    most = boundOfLargest(copy, newest);
  Named unit = named("copy_scale");
  text.argument("out tensor_scale " + unit.declared() + ": f32" + end);
  Format known = codecOf("copy");
  std::string scale = tensorScale(copy, most, decode(known, known.maxCode()));
  text.line(name + "unit = arith.divf " + name + "one, " + scale + " : f32");
  text.line(name + "scaled = arith.mulf " + name + "next, " + scale + " : f32");
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  stored(copy, name + "list", "copy", /*scaled=*/true);
  if (!newest.name.empty())
    text.writes.push_back(largest + " to %" + newest.name + " : f32");
  text.writes.push_back(name + "unit to %" + unit.name + " : f32");
}

// What a generated step says of the tensors that it updates.
#include "codegen/step/SetWriter.h"

using namespace mlir;
using namespace altgrad;

// Reductions over a tensor join the sweep that has their operands: no further pass.
std::string SetWriter::element(StringRef list, StringRef name) {
  std::string value = "%" + grad.name + "." + name.str();
  text.line(value + " = element " + list);
  return value;
}

std::string SetWriter::norm(StringRef element, StringRef name) {
  std::string value = "%" + grad.name + "." + name.str();
  text.line(value + ".squares = reduce sumsq " + element + " over tensor : f32");
  text.line(value + " = math.sqrt " + value + ".squares : f32");
  return value;
}

// Sums of ones in f32: exact up to 2^24.
std::string SetWriter::countOf(StringRef condition, StringRef name) {
  std::string value = "%" + grad.name + "." + name.str();
  text.line(value + ".no = arith.constant 0.0 : f32");
  text.line(value + ".yes = arith.constant 1.0 : f32");
  text.line(value + ".each = arith.select " + condition + ", " + value +
            ".yes, " + value + ".no : f32");
  text.line(value + " = reduce add " + value + ".each over tensor : f32");
  return value;
}

// What is found in the update's sweep is there only if that one has run.
void SetWriter::measured(StringRef key, StringRef value, bool always) {
  Named name = named(key);
  text.argument("out statistic " + name.declared() + ": f32 per_tensor" +
                ofSet(/*list=*/false));
  (always ? text.always : text.writes)
      .push_back((value + " to %" + name.name + " : f32").str());
}

void SetWriter::measure() {
  std::string prefix = "%" + grad.name, type = typeOf("grad");
  // Of what is stored: the product with an inverse scale may overflow.
  text.line(prefix + ".stored = dequantize " + prefix + " : " + type);
  std::string stored = element(prefix + ".stored", "code");
  text.line(prefix + ".size = math.absf " + stored + " : f32");
  text.line(prefix + ".infinity = arith.constant 0x7F800000 : f32");
  text.line(prefix + ".bad = arith.cmpf uge, " + prefix + ".size, " + prefix +
            ".infinity : f32");
  measured("nonfinite", countOf(prefix + ".bad", "nonfinite"), true);
  measured("grad_norm", norm(element(unclipped, "whole"), "norm"), true);

  std::string old = element(before, "before"), now = element(after, "after");
  text.line(prefix + ".change = arith.subf " + now + ", " + old + " : f32");
  measured("param_norm", norm(old, "weight"), false);
  measured("update_norm", norm(prefix + ".change", "moved"), false);

  if (inRungs())
    return measureRungs();
  // What f32 arithmetic rounds away is no change; a master keeps the rest.
  std::string kept = typeOf("param");
  if (formats.count("master") || kept == "!altgrad.tensors<f32>")
    return;
  text.line(prefix + ".kept = dequantize " + code + " : " + kept);
  std::string same = element(prefix + ".kept", "same");
  text.line(prefix + ".still = arith.cmpf oeq, " + same + ", " + old + " : f32");
  text.line(prefix + ".none = arith.constant 0.0 : f32");
  text.line(prefix + ".moving = arith.cmpf one, " + prefix + ".change, " +
            prefix + ".none : f32");
  text.line(prefix + ".missed = arith.andi " + prefix + ".still, " + prefix +
            ".moving : i1");
  measured("lost", countOf(prefix + ".missed", "lost"), false);
}

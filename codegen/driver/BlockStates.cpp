// States whose blocks have a scale: code times scale in, largest over largest out.
#include "codegen/driver/SetWriter.h"

#include "altgrad/format.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

// `m=ocp.e4m3fn:128`: what stands behind the colon.
LogicalResult SetWriter::takeBlock(StringRef text, const StorageWord &word) {
  StringRef name = word.stream, format = word.format, block = *word.block;
  if (llvm::is_contained({"param", "grad", "master", "copy", "step"}, name))
    return error() << "storage '" << text
                   << "': only states have a scale for each block";
  unsigned size = 0;
  if (block.getAsInteger(10, size) || !isBlock(size))
    return error() << "storage '" << text << "' has blocks of '" << block
                   << "' elements, expected a power of two from 32 to "
                   << maxBlock;
  if (format == "f32" || format == "param")
    return error() << "storage '" << text
                   << "' scales blocks of " << format
                   << "; a scale is for formats of 8 and 16 bits";
  for (const auto &other : blocks)
    if (other.second != size)
      return error() << "storage '" << text << "' beside blocks of "
                     << other.second << "; all blocks of a step are of one size";
  blocks[name] = size;
  return success();
}

// A code book's numbers end at 1: what is stored needs a scale, or is scaled by
// whoever asks for codes alone.
LogicalResult SetWriter::checkBook(StringRef text, const StorageWord &word) {
  auto format = FormatAttr::getNamed(loc.getContext(), word.format);
  if (!format || !format.isBook())
    return success();
  bool codes = !isRuled() && word.stream == "copy";
  if (!word.block && !codes)
    return error() << "storage '" << text << "': the numbers of " << word.format
                   << " end at 1; it is for states with a scale for each "
                      "block, as m="
                   << word.format << ":256";
  if (word.round.value_or(Round::NearestEven) != Round::NearestEven)
    return error() << "storage '" << text
                   << "': a code book has the nearest number alone";
  return success();
}

unsigned SetWriter::blockOf(StringRef state) {
  if (formats.count(state))
    return blocks.lookup(state);
  return blocks.lookup("states");
}

std::string SetWriter::typeOfScales(StringRef state) {
  return "!altgrad.tensors<f32 per " + std::to_string(blockOf(state)) + ">";
}

// The argument that holds the scales of a state.
Named SetWriter::takeScales(StringRef state) {
  Named scales{text.name((state + "_scale" + suffix()).str()), state.str()};
  stream("inout", "block_scale", scales, typeOfScales(state));
  return scales;
}

std::string SetWriter::loadBlocks(const Named &state, const Named &scales) {
  std::string codes = load(state, typeOf(state.key)), name = "%" + state.name;
  std::string units = load(scales, typeOfScales(state.key));
  text.line(name + ".number = element " + codes);
  text.line(name + ".unit = element " + units);
  text.line(name + ".value = arith.mulf " + name + ".number, " + name +
            ".unit : f32");
  text.line(name + ".values = collect " + name +
            ".value : f32 to !altgrad.reals");
  return name + ".values";
}

std::string altgrad::bitsOf(float number) {
  return "0x" + llvm::utohexstr(llvm::bit_cast<uint32_t>(number),
                                /*LowerCase=*/false, /*Width=*/8);
}

// torchao's codes are those of a quotient, and so are its bytes: three products
// that give it (tests/numeric/quotients.cpp), and NaN for what is infinite.
static void
divide(const std::string &name,
       llvm::function_ref<void(const Twine &, const Twine &)> line) {
  line("near", "arith.mulf " + name + "next, " + name + "inverse");
  line("back", "arith.negf " + name + "near");
  line("rest", "math.fma " + name + "back, " + name + "scale, " + name + "next");
  line("scaled", "math.fma " + name + "rest, " + name + "inverse, " + name + "near");
}

// The scale makes the block's largest finite number the format's. Numbers that
// are not finite have no part in it, so they spoil none of their neighbours.
// The limits keep a scale and its inverse normal numbers: zeros stay zeros.
void SetWriter::storeBlocks(const Named &state, const Named &scales,
                            StringRef value) {
  std::string name = "%" + state.name + ".";
  StringRef format = formatOf(state.key);
  Format known = FormatAttr::getNamed(loc.getContext(), format).toFormat();
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
  };
  auto constant = [&](StringRef result, float number) {
    line(result, "arith.constant " + bitsOf(number));
  };
  text.line(name + "next = element " + value);
  line("size", "math.absf " + name + "next");
  constant("infinity", std::numeric_limits<float>::infinity());
  constant("zero", 0);
  constant("one", 1);
  constant("top", decode(known, known.maxCode()));
  constant("least", known.book ? books[known.book - 1].leastScale : 0x1p-120f);
  constant("most", 0x1p126f);
  line("finite", "arith.cmpf olt, " + name + "size, " + name + "infinity");
  line("counted", "arith.select " + name + "finite, " + name + "size, " + name +
                      "zero");
  line("largest", "block_reduce max " + name + "counted over " +
                      Twine(blockOf(state.key)));
  line("share", "arith.divf " + name + "largest, " + name + "top");
  line("raised", "arith.maximumf " + name + "share, " + name + "least");
  line("scale", "arith.minimumf " + name + "raised, " + name + "most");
  line("inverse", "arith.divf " + name + "one, " + name + "scale");
  if (known.book)
    divide(name, line);
  else
    line("scaled", "arith.mulf " + name + "next, " + name + "inverse");
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  text.line(name + "units = collect " + name + "scale : f32 to !altgrad.reals");
  stored(state, name + "list", state.key, /*scaled=*/true);
  text.writes.push_back(name + "units to %" + scales.name +
                        " : " + typeOfScales(state.key));
}

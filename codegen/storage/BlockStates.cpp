// States and copies whose blocks have a scale: code times scale in, largest over
// largest out.
#include "codegen/step/SetWriter.h"

#include "altgrad/format.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

// `m=ocp.e4m3fn:128`: what stands behind the colon.
LogicalResult SetWriter::takeBlock(StringRef text, const StorageWord &word) {
  StringRef name = word.stream, format = word.format, block = *word.block;
  if (llvm::is_contained({"param", "grad", "master", "step", "rungs"}, name))
    return error() << "storage '" << text
                   << "': only states and copies have a scale for each block";
  unsigned size = 0;
  if (block.getAsInteger(10, size) || !isBlock(size))
    return error() << "storage '" << text << "' has blocks of '" << block
                   << "' elements, expected a power of two from "
                   << minBlock << " to " << maxBlock;
  if (format == "f32" || format == "param")
    return error() << "storage '" << text
                   << "' scales blocks of " << format
                   << "; a scale is for formats of 8 and 16 bits";
  bool levels = word.scale == "ocp.e4m3fn";
  if (word.scale && !levels && *word.scale != "f32" && *word.scale != "f16" &&
      *word.scale != "ocp.e8m0")
    return error() << "storage '" << text << "' has scales in '" << *word.scale
                   << "'; scales are in f32, f16 or ocp.e8m0, and of nvfp4 in ocp.e4m3fn";
  if (levels && (name != "copy" || format != "ocp.e2m1"))
    return error() << "storage '" << text << "' has scales in ocp.e4m3fn, below one of "
                   << "the tensor; write copy=nvfp4 of a parameter, or " << name << "=ocp.e2m1:16";
  auto known = FormatAttr::getNamed(loc.getContext(), format);
  if (word.scale && *word.scale != "f32" && known && known.isBook())
    return error() << "storage '" << text << "': the scales of a code book, whose "
                   << "numbers end at 1, are in f32";
  blocks[name] = size;
  if (word.scale)
    scaleFormats[name] = *word.scale;
  if (word.scale == "ocp.e8m0")
    rules[name] = word.rule.value_or(ScaleRule::RCeil);
  if (word.companding != Companding::None)
    compandings[name] = word.companding;
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

std::optional<ScaleRule> SetWriter::ruleOf(StringRef state) {
  auto it = rules.find(formats.count(state) ? state : "states");
  return it == rules.end() ? std::nullopt : std::optional(it->second);
}

FormatAttr SetWriter::scaleFormat(StringRef state) {
  auto it = scaleFormats.find(formats.count(state) ? state : "states");
  return FormatAttr::getNamed(
      loc.getContext(), it == scaleFormats.end() ? "f32" : StringRef(it->second));
}

bool SetWriter::inHalves(StringRef state) {
  return scaleFormat(state).getKnownName() == "f16";
}

std::string SetWriter::typeOfScales(StringRef state) {
  return ("!altgrad.tensors<" + scaleFormat(state).getKnownName() + " per " +
          Twine(blockOf(state)) + ">")
      .str();
}

// The argument that holds the scales of a state.
Named SetWriter::takeScales(StringRef access, StringRef state) {
  Named scales{text.name((state + "_scale" + suffix()).str()), state.str()};
  stream(access, "block_scale", scales, typeOfScales(state));
  return scales;
}

std::string SetWriter::loadBlocks(const Named &state, const Named &scales) {
  std::string codes = load(state, typeOf(state.key)), name = "%" + state.name;
  std::string units = load(scales, typeOfScales(state.key));
  text.line(name + ".number = element " + codes);
  text.line(name + ".unit = element " + units);
  if (compandingOf(state.key) == Companding::None)
    text.line(name + ".value = arith.mulf " + name + ".number, " + name +
              ".unit : f32");
  else
    expand(state);
  text.line(name + ".values = collect " + name +
            ".value : f32 to !altgrad.reals");
  return name + ".values";
}

std::string altgrad::bitsOf(float number) {
  return "0x" + llvm::utohexstr(llvm::bit_cast<uint32_t>(number),
                                /*LowerCase=*/false, /*Width=*/8);
}

// The largest magnitude of a block of `next`. Where scales are f32, and in states,
// numbers that are not finite have no part in it, so they spoil none of their
// neighbours; a copy in an MX format says them.
std::string SetWriter::largestOf(const Named &state, bool finite) {
  std::string name = "%" + state.name + ".", counted = name + "size";
  text.line(counted + " = math.absf " + name + "next : f32");
  if (finite) {
    text.line(name + "infinity = arith.constant 0x7F800000 : f32");
    text.line(name + "zero = arith.constant 0.0 : f32");
    text.line(name + "finite = arith.cmpf olt, " + counted + ", " + name +
              "infinity : f32");
    text.line(name + "counted = arith.select " + name + "finite, " + counted +
              ", " + name + "zero : f32");
    counted = name + "counted";
  }
  text.line(name + "largest = block_reduce max " + counted + " over " +
            Twine(blockOf(state.key)) + " : f32");
  return name + "largest";
}

// The scale makes the block's largest number the format's. The limits keep a scale
// and its inverse normal numbers: zeros stay zeros. Numbers are divided by a scale in
// f16 as that is read, those that are bent first by the one before it was rounded.
std::string SetWriter::anyScale(const Named &state, const Named &scales,
                                StringRef largest) {
  std::string name = "%" + state.name + ".";
  Format known = codecOf(state.key);
  bool half = inHalves(state.key), bent = compandingOf(state.key) != Companding::None;
  // FlashOptim's floor is 0 in f16.
  bool kept = wordOf(state.key).keepPositive;
  float least = half && (!bent || kept) ? 0x1p-24f : bent ? 1e-12f : 0x1p-120f;
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
  };
  line("top", "arith.constant " + bitsOf(bent ? 1 : decode(known, known.maxCode())));
  line("least", "arith.constant " + bitsOf(known.book ? books[known.book - 1].leastScale
                                                  : least));
  line("most", "arith.constant " + bitsOf(half ? 65504 : 0x1p126f));
  line("share", "arith.divf " + largest + ", " + name + "top");
  line("raised", "arith.maximumf " + name + "share, " + name + "least");
  line("scale", "arith.minimumf " + name + "raised, " + name + "most");
  text.line(name + "units = collect " + name + "scale : f32 to !altgrad.reals");
  if (!half)
    return name + "scale";
  std::string type = typeOfScales(state.key), code = "%" + scales.name + ".code";
  text.line(code + " = quantize " + name +
            "units round<nearest_even> overflow<saturate> : " + type);
  if (bent)
    return name + "scale";
  text.line(name + "held = dequantize " + code + " : " + type);
  text.line(name + "unit.now = element " + name + "held");
  return name + "unit.now";
}

// torchao's codes are those of a quotient, and so are its bytes: three products
// that give it (tests/numeric/quotients.cpp), and NaN for what is infinite.
static void divide(StepText &text, const std::string &name, const std::string &number) {
  auto line = [&](const Twine &result, const Twine &value) {
    text.line(name + result + " = " + value + " : f32");
  };
  line("near", "arith.mulf " + number + ", " + name + "inverse");
  line("back", "arith.negf " + name + "near");
  line("rest", "math.fma " + name + "back, " + name + "scale, " + number);
  line("scaled", "math.fma " + name + "rest, " + name + "inverse, " + name + "near");
}

void SetWriter::storeBlocks(const Named &state, const Named &scales,
                            StringRef value) {
  std::string name = "%" + state.name + ".";
  bool powers = ruleOf(state.key).has_value();
  Companding bent = compandingOf(state.key);
  text.line(name + (bent == Companding::Sqrt ? "square" : "next") + " = element " +
            value);
  if (bent == Companding::Sqrt)
    text.line(name + "next = math.sqrt " + name + "square : f32");
  std::string largest = largestOf(state, /*finite=*/!powers || state.key != "copy");
  std::string scale = powers ? powerOfTwo(scales, largest, state.key,
                                        typeOfScales(state.key))
                             : anyScale(state, scales, largest);
  std::string number = keptPositive(state, name + "next", scale);
  if (bent != Companding::None) {
    compress(state, number, scale);
  } else {
    text.line(name + "one = arith.constant 1.0 : f32");
    text.line(name + "inverse = arith.divf " + name + "one, " + scale + " : f32");
    if (codecOf(state.key).book)
      divide(text, name, number);
    else
      text.line(name + "scaled = arith.mulf " + number + ", " + name + "inverse : f32");
  }
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  stored(state, name + "list", state.key, /*scaled=*/true);
  text.writes.push_back(
      (powers || inHalves(state.key) ? "%" + scales.name + ".code" : name + "units") +
      " to %" + scales.name + " : " + typeOfScales(state.key));
}

// A further copy of the parameter, or of a gradient, with or without scales.
void SetWriter::writeCopy(StringRef value) {
  Named copy = named("copy");
  stream("out", "copy", copy, typeOf("copy"));
  if (scaleFormat("copy").getKnownName() == "ocp.e4m3fn")
    storeTwoLevels(copy, takeScales("out", "copy"), value);
  else if (hasSquares())
    storeSquares(copy, value);
  else if (blockOf("copy") > 1)
    storeBlocks(copy, takeScales("out", "copy"), value);
  else if (wordOf("copy").tensorScale != TensorScale::None)
    storeTensorScaled(copy, value);
  else
    stored(copy, value, "copy");
  if (hasColumns())
    storeColumns(value);
}

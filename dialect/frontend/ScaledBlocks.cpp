// Codes with a scale for each block in f32 or f16, of formats and of code books: code times scale in, largest over
// largest out.
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

const CodecRow altgrad::scaledBlocks = codecRow<ScaledBlocks>;

// Blocks that go over rows, as `says` calls them.
LogicalResult ScaledBlocks::verifyTile(StringRef says, const SetStorage &set, const StorageWord &word) {
  FormatAttr format = set.named(word);
  bool byte = format && format.getBytes() == 1;
  if (!byte || (getCodecFacts(format).sharesBytes && !word.hasSquareBlock()))
    return set.error(word) << says << " of codes in " << word.format
                           << (byte ? ", which share bytes" : ", which are wider than a byte");
  if (word.stochastic())
    return set.error(word) << says << " and 'stochastic'; "
                           << (word.hasSquareBlock() ? "copies in squares" : "copies of columns")
                           << " are not rounded by draws";
  return success();
}

// `m=ocp.e4m3fn:128`: what stands behind the colon.
LogicalResult ScaledBlocks::verifyBlock(const SetStorage &set, const StorageWord &word) {
  FormatAttr format = set.named(word);
  bool table = getCodecFacts(format).table;
  if (word.hasSquareBlock()) {
    std::string blocks = " has blocks of " + *word.block;
    if (word.stream != "copy")
      return set.error(word) << blocks << ", which are of a copy of the parameter";
    if (failed(verifyTile(blocks, set, word)))
      return failure();
    if (table)
      return set.error(word) << blocks << " of codes in " << word.format << ", a code book's";
    if (!llvm::is_contained({"f32", "ocp.e8m0", "ocp.e4m3fn"}, word.scale))
      return set.error(word) << blocks << " with scales in '" << word.scale
                             << "'; these are in f32 or ocp.e8m0, and of nvfp4 in ocp.e4m3fn";
    return success();
  }
  if (llvm::is_contained({"param", "grad", "master", "step", "rungs"}, word.stream))
    return set.error(word) << ": only states and copies have a scale for each block";
  if (!isBlockSize(word.elements))
    return set.error(word) << " has blocks of '" << *word.block << "' elements, expected a power of two from "
                           << minBlock << " to " << maxBlock
                           << (word.stream == "copy" ? ", or of a copy 16x16, 32x32 or 128x128" : "");
  if (!format || format.isF32())
    return set.error(word) << " scales blocks of " << word.format << "; a scale is for formats of 8 and 16 bits";
  if (table && word.scale != "f32")
    return set.error(word) << ": the scales of a code book, whose numbers end at 1, are in f32";
  return success();
}

LogicalResult ScaledBlocks::verify(const SetStorage &set, const StorageWord &word) {
  if (failed(verifyBlock(set, word)))
    return failure();
  if (word.scale == "f32" || word.scale == "f16")
    return success();
  return set.error(word) << " has scales in '" << word.scale
                         << "'; scales are in f32, f16 or ocp.e8m0, and of nvfp4 in ocp.e4m3fn";
}

ScaledBlocks::ScaledBlocks(SetBuilder &set, const Argument &target, Access access, StringRef stream, bool columns)
    : BlockCodec(set, target, access, stream) {
  int64_t rows = columns ? columnBlock : std::max(word.side, 1u), run = std::max(word.side, word.elements);
  scales = set.scales(access, target, stream, set.storage.tensors(word.scale, rows, columns ? 1 : run));
}

Value ScaledBlocks::decode() {
  Value codes = BlockCodec::decode(), units = set.ops(scales, stream).dequantize("old", scales.value);
  Value number = ops.element("number", codes), unit = ops.element("unit", units);
  return ops.collect("values", expand(number, unit));
}

// The largest magnitude of a block. Where it counts `finite` numbers alone, others spoil none of their neighbours.
Value ScaledBlocks::getLargest(Value number, bool finite) {
  if (finite) {
    Value size = ops.abs("size", number);
    Value infinity = ops.infinity("infinity"), zero = ops.f32("zero", 0);
    number = ops.select("counted", ops.below("finite", size, infinity), size, zero);
  }
  return ops.largest("largest", number, scales.type().getBlock());
}

// The limits keep a scale and its inverse normal numbers: zeros stay zeros.
Value ScaledBlocks::getScale(Value largest, float top, float least) {
  bool half = word.scale == "f16";
  Value all = ops.f32("top", top), floor = ops.f32("least", least), most = ops.f32("most", half ? 65504 : 0x1p126f);
  Value share = ops.div("share", largest, all);
  Value scale = ops.min("scale", ops.max("raised", share, floor), most);
  scaleCode = ops.collect("units", scale);
  if (half)
    scaleCode = set.ops(scales, stream).quantize("code", scaleCode, scales.type());
  return scale;
}

// The scale makes the block's largest number the format's. Numbers are divided by one in f16 as that is read.
Value ScaledBlocks::chooseScale(Value number) {
  bool half = word.scale == "f16";
  Value scale = getScale(getLargest(number, /*finite=*/true), top, half ? 0x1p-24f : facts.leastScale);
  return half ? ops.element("unit.now", ops.dequantize("held", scaleCode)) : scale;
}

// torchao's codes are those of a quotient, and so are its bytes.
Value ScaledBlocks::getShare(Value number, Value scale) {
  Value inverse = ops.div("inverse", ops.f32("one", 1), scale);
  return facts.table ? ops.make<ScaledQuotientOp>("scaled", number, scale, inverse)
                     : ops.mul("scaled", number, inverse);
}

void ScaledBlocks::encode(Value values) {
  Value number = getNumber(values), scale = chooseScale(number);
  finish(getShare(preservePositive(number, scale), scale));
  step.write(scaleCode, scales.value);
}

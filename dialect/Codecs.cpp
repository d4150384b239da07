// What codecs need, from the rows of formats and of code books.
#include "dialect/Codecs.h"

using namespace mlir;
using namespace altgrad;

// The last one is below a scale of the tensor, as NVFP4 has it. The numbers of code books end at 1, so only f32 has
// room for their scales.
static constexpr llvm::StringLiteral scales[] = {"f32", "f16", "ocp.e8m0", "ocp.e4m3fn"};

CodecFacts altgrad::getCodecFacts(FormatAttr attribute) {
  if (!attribute)
    return {};
  Format f = attribute.toFormat();
  const Book *table = f.book ? &books[f.book - 1] : nullptr;
  bool zero = table ? table->numbers[table->zero] == 0 : f.hasZero;
  return {.table = table,
          .nearestOnly = table || attribute.isF32(),
          .sharesBytes = f.canPack(),
          .isSignMagnitude = !table && f.bits() <= 8 && f.hasSign && !f.complement,
          .negative = table ? table->hasSign : f.hasSign,
          .zero = zero,
          .least = table ? table->numbers[table->zero + zero] : decode(f, zero),
          .most = decode(f, f.maxCode()),
          .scales = ArrayRef(scales).take_front(attribute.isF32()                        ? 0
                                                : table                                  ? 1
                                                : attribute.getKnownName() == "ocp.e2m1" ? 4
                                                                                         : 3),
          .leastScale = table ? table->leastScale : 0x1p-120f};
}

const Book *altgrad::getTable(Operation *op) {
  if (auto encode = dyn_cast<EncodeOp>(op))
    return getCodecFacts(encode.getFormat()).table;
  auto decode = dyn_cast<DecodeOp>(op);
  return decode ? getCodecFacts(decode.getFormat()).table : nullptr;
}

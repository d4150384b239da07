// What codecs need, from the rows of formats and of code books.
#include "dialect/Codecs.h"

using namespace mlir;
using namespace altgrad;

CodecFacts altgrad::factsOf(FormatAttr attribute) {
  if (!attribute)
    return {};
  Format f = attribute.toFormat();
  const Book *table = f.book ? &books[f.book - 1] : nullptr;
  bool zero = table ? table->numbers[table->zero] == 0 : f.hasZero;
  return {.table = table,
          .nearestOnly = table || attribute.isF32(),
          .sharesBytes = f.canPack(),
          .hasRungs = !table && f.bits() <= 8 && f.hasSign && !f.complement,
          .negative = table ? table->hasSign : f.hasSign,
          .zero = zero,
          .least = table ? table->numbers[table->zero + zero] : decode(f, zero),
          .most = decode(f, f.maxCode())};
}

const Book *altgrad::tableOf(Operation *op) {
  if (auto encode = dyn_cast<EncodeOp>(op))
    return factsOf(encode.getFormat()).table;
  auto decode = dyn_cast<DecodeOp>(op);
  return decode ? factsOf(decode.getFormat()).table : nullptr;
}

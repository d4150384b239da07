// Codes of a lane's group in the words of an access, and back.
#include "codegen/kernels/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// The codes of group `number`, out of the words of an access.
Value GpuLowering::slice(Value words, VectorType codes, unsigned number) {
  auto from = cast<VectorType>(words.getType());
  int64_t count = codes.getNumElements();
  if (codes.getElementType() == from.getElementType())
    return vector::ShuffleOp::create(
        builder, words, words,
        llvm::to_vector(
            llvm::seq<int64_t>(number * count, (number + 1) * count)));
  unsigned bits = count * codes.getElementTypeBitWidth();
  Value units = vector::BitCastOp::create(
      builder,
      VectorType::get({from.getNumElements() * 32 / bits},
                      builder.getIntegerType(bits)),
      words);
  Value unit = vector::ExtractOp::create(builder, units,
                                         ArrayRef<int64_t>{int64_t(number)});
  Value one = vector::FromElementsOp::create(
      builder, VectorType::get({1}, unit.getType()), unit);
  return vector::BitCastOp::create(builder, codes, one);
}

// Words of 32 bits from the codes of one group, or of two of eight-bit codes.
SmallVector<Value> GpuLowering::pack(ArrayRef<Value> groups) {
  auto codes = cast<VectorType>(groups[0].getType());
  unsigned bits = codes.getNumElements() * codes.getElementTypeBitWidth();
  if (bits > 32)
    return elementsOf(groups[0]);
  SmallVector<Value> units;
  for (Value group : groups)
    llvm::append_range(
        units, elementsOf(vector::BitCastOp::create(
                   builder,
                   VectorType::get({1}, builder.getIntegerType(bits)), group)));
  Value word = vector::FromElementsOp::create(
      builder, VectorType::get({int64_t(units.size())}, units[0].getType()),
      units);
  return elementsOf(vector::BitCastOp::create(
      builder, VectorType::get({1}, builder.getI32Type()), word));
}

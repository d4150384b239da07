// Codes of a thread's vectors in the 32-bit words of an access, and back.
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t codesOfWord = 8; // of packed ones

// The codes of vector `number`, out of the words of an access.
Value GpuLowering::slice(Value tensors, Value words, VectorType codes, unsigned number) {
  auto from = cast<VectorType>(words.getType());
  int64_t count = codes.getNumElements();
  if (codes.getElementType() == from.getElementType())
    return vector::ShuffleOp::create(builder, words, words,
                                     llvm::to_vector(llvm::seq<int64_t>(number * count, (number + 1) * count)));
  unsigned bits = count * codes.getElementTypeBitWidth();
  if (isPacked(tensors)) {
    int64_t first = number * count;
    Value word = vector::ExtractOp::create(builder, words, ArrayRef<int64_t>{first / codesOfWord});
    return unpackWord(builder, tensors, word, codes, first % codesOfWord);
  }
  Value units = vector::BitCastOp::create(
      builder, VectorType::get({from.getNumElements() * 32 / bits}, builder.getIntegerType(bits)), words);
  Value unit = vector::ExtractOp::create(builder, units, ArrayRef<int64_t>{int64_t(number)});
  Value one = builder.vectorOf(VectorType::get({1}, unit.getType()), unit);
  return vector::BitCastOp::create(builder, codes, one);
}

// Words from the codes of one vector, or of those that share a word.
SmallVector<Value> GpuLowering::pack(Value tensors, ArrayRef<Value> vectors) {
  if (isPacked(tensors)) {
    SmallVector<Value> each;
    for (Value one : vectors)
      llvm::append_range(each, elementsOf(one));
    return {packWord(builder, tensors, each)};
  }
  auto codes = cast<VectorType>(vectors[0].getType());
  unsigned bits = codes.getNumElements() * codes.getElementTypeBitWidth();
  if (bits > 32)
    return elementsOf(vectors[0]);
  SmallVector<Value> units;
  for (Value one : vectors)
    llvm::append_range(
        units, elementsOf(vector::BitCastOp::create(builder, VectorType::get({1}, builder.getIntegerType(bits)), one)));
  Value word = builder.vectorOf(VectorType::get({int64_t(units.size())}, units[0].getType()), units);
  return elementsOf(vector::BitCastOp::create(builder, VectorType::get({1}, builder.getI32Type()), word));
}

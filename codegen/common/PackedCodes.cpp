// Two codes of 4 bits to a byte.
#include "codegen/common/PackedCodes.h"

#include "codegen/common/SweepBody.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t codeBits = 4, codeMask = 15;

static TensorsType getType(Value stream) { return cast<TensorsType>(stream.getType()); }

static bool evenIsHigh(Value stream) { return getType(stream).getFormat().toFormat().evenIsHigh(); }

// A number of the type of `like`.
static Value bits(CodeBuilder &builder, int64_t number, Value like) { return builder.integer(like.getType(), number); }

// The codes in some bytes. What a code has above itself does not matter: neither half is masked.
static Value unpackCodes(CodeBuilder &builder, Value stream, Value bytes) {
  int64_t count = cast<VectorType>(bytes.getType()).getNumElements();
  Value low = bytes, high = builder.shiftRight(bytes, bits(builder, codeBits, bytes));
  if (evenIsHigh(stream))
    std::swap(low, high);
  SmallVector<int64_t> lanes;
  for (int64_t i = 0; i < count; ++i)
    llvm::append_values(lanes, i, count + i);
  return vector::ShuffleOp::create(builder, low, high, lanes);
}

static Value packCodes(CodeBuilder &builder, Value stream, Value codes) {
  int64_t count = cast<VectorType>(codes.getType()).getNumElements() / 2;
  auto half = [&](bool high) { return shuffleStrided(builder, codes, codes, high != evenIsHigh(stream), count, 2); };
  Value low = half(false), high = half(true);
  low = builder.bitAnd(low, bits(builder, codeMask, low));
  high = builder.shiftLeft(high, bits(builder, codeBits, high));
  return builder.bitOr(low, high);
}

// By how many bits the code of the element `index` is shifted in its word.
static int64_t getBitShift(Value stream, unsigned index) { return codeBits * (index ^ unsigned(evenIsHigh(stream))); }

Value altgrad::unpackWord(CodeBuilder &builder, Value stream, Value word, VectorType codes, unsigned first) {
  SmallVector<Value> each;
  for (unsigned i = 0; i < codes.getNumElements(); ++i) {
    Value shifted = builder.shiftRight(word, bits(builder, getBitShift(stream, first + i), word));
    each.push_back(builder.truncate(codes.getElementType(), shifted));
  }
  return builder.fromElements(codes, each);
}

Value altgrad::packWord(CodeBuilder &builder, Value stream, ArrayRef<Value> codes) {
  Value word;
  for (auto [index, code] : llvm::enumerate(codes)) {
    Value own = builder.extendUnsigned(builder.getI32Type(), code);
    own = builder.bitAnd(own, bits(builder, codeMask, own));
    own = builder.shiftLeft(own, bits(builder, getBitShift(stream, index), own));
    word = word ? builder.bitOr(word, own) : own;
  }
  return word;
}

Value altgrad::loadCodes(KernelBuilder &kernel, Value stream, VectorType codes, Value at, unsigned alignment) {
  if (!isPacked(stream))
    return kernel.load(codes, at, alignment);
  if (codes.getNumElements() == 2) {
    Value byte = kernel.load(codes.getElementType(), at, getBytes(stream));
    byte = kernel.builder.extendUnsigned(kernel.builder.getI32Type(), byte);
    return unpackWord(kernel.builder, stream, byte, codes, 0);
  }
  auto bytes = VectorType::get({codes.getNumElements() / 2}, codes.getElementType());
  return unpackCodes(kernel.builder, stream, kernel.load(bytes, at, getBytes(stream)));
}

void altgrad::storeCodes(KernelBuilder &kernel, Value stream, Value codes, Value at, unsigned alignment) {
  if (isPacked(stream))
    codes = packCodes(kernel.builder, stream, codes);
  kernel.store(codes, at, alignment);
}

// By how many bits the code of an element is shifted in its byte.
static Value getShift(KernelBuilder &kernel, Value stream, Type type, Value index) {
  CodeBuilder &builder = kernel.builder;
  Value byte = builder.truncate(type, index);
  Value odd = builder.bitAnd(byte, bits(builder, 1, byte));
  Value shift = builder.shiftLeft(odd, bits(builder, 2, odd));
  return builder.bitXor(shift, bits(builder, evenIsHigh(stream) ? codeBits : 0, shift));
}

Value altgrad::loadCode(KernelBuilder &kernel, Value stream, Type type, Value at, Value index, bool invariant) {
  Value code = kernel.load(type, at, getBytes(stream), invariant);
  if (!isPacked(stream))
    return code;
  return kernel.builder.shiftRight(code, getShift(kernel, stream, type, index));
}

// What another half has that nobody has written yet is not read.
void altgrad::storeCode(KernelBuilder &kernel, Value stream, Value code, Value at, Value index, Value preservesNext) {
  if (!isPacked(stream))
    return kernel.store(code, at, getBytes(stream));
  CodeBuilder &builder = kernel.builder;
  Type type = code.getType();
  Value shift = getShift(kernel, stream, type, index);
  Value mask = bits(builder, codeMask, code);
  Value own = builder.shiftLeft(builder.bitAnd(code, mask), shift);
  Value preserves = builder.notEqual(shift, bits(builder, getBitShift(stream, 0), shift));
  if (preservesNext)
    preserves = builder.bitOr(preserves, preservesNext);
  auto loadNeighbour = [&] {
    Value others = builder.bitXor(builder.shiftLeft(mask, shift), bits(builder, -1, code));
    return builder.bitAnd(kernel.load(type, at, getBytes(stream)), others);
  };
  Value neighbour = branch(builder, preserves, type, loadNeighbour, [&] { return bits(builder, 0, code); });
  kernel.store(builder.bitOr(neighbour, own), at, getBytes(stream));
}

// Two codes of 4 bits to a byte.
#include "codegen/common/PackedCodes.h"

#include "codegen/common/SweepBody.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t codeBits = 4, codeMask = 15;

static TensorsType typeOf(Value stream) {
  return cast<TensorsType>(stream.getType());
}

static bool evenIsHigh(Value stream) {
  return typeOf(stream).getFormat().toFormat().evenIsHigh();
}

bool altgrad::isPacked(Value stream) { return typeOf(stream).getPacked(); }

// A number of the type of `like`.
static Value bits(ImplicitLocOpBuilder &builder, int64_t number, Value like) {
  auto byte = builder.getIntegerAttr(getElementTypeOrSelf(like), number);
  auto type = dyn_cast<VectorType>(like.getType());
  return arith::ConstantOp::create(
      builder, type ? TypedAttr(DenseElementsAttr::get(type, byte)) : byte);
}

// What a code has above itself does not matter: neither half is masked.
Value altgrad::unpackCodes(ImplicitLocOpBuilder &builder, Value stream,
                           Value bytes) {
  int64_t count = cast<VectorType>(bytes.getType()).getNumElements();
  Value low = bytes, high = arith::ShRUIOp::create(
                         builder, bytes, bits(builder, codeBits, bytes));
  if (evenIsHigh(stream))
    std::swap(low, high);
  SmallVector<int64_t> places;
  for (int64_t i = 0; i < count; ++i)
    llvm::append_values(places, i, count + i);
  return vector::ShuffleOp::create(builder, low, high, places);
}

Value altgrad::packCodes(ImplicitLocOpBuilder &builder, Value stream,
                         Value codes) {
  int64_t count = cast<VectorType>(codes.getType()).getNumElements() / 2;
  auto half = [&](bool high) -> Value {
    SmallVector<int64_t> places;
    for (int64_t i = 0; i < count; ++i)
      places.push_back(2 * i + (high != evenIsHigh(stream)));
    return vector::ShuffleOp::create(builder, codes, codes, places);
  };
  Value low = half(false), high = half(true);
  low = arith::AndIOp::create(builder, low, bits(builder, codeMask, low));
  high = arith::ShLIOp::create(builder, high, bits(builder, codeBits, high));
  return arith::OrIOp::create(builder, low, high);
}

// By how many bits the code of the element `index` is shifted in its word.
static int64_t placeOf(Value stream, unsigned index) {
  return codeBits * (index ^ unsigned(evenIsHigh(stream)));
}

Value altgrad::unpackWord(ImplicitLocOpBuilder &builder, Value stream,
                          Value word, VectorType codes, unsigned first) {
  SmallVector<Value> each;
  for (unsigned i = 0; i < codes.getNumElements(); ++i) {
    Value shifted = arith::ShRUIOp::create(
        builder, word, bits(builder, placeOf(stream, first + i), word));
    each.push_back(
        arith::TruncIOp::create(builder, codes.getElementType(), shifted));
  }
  return vector::FromElementsOp::create(builder, codes, each);
}

Value altgrad::packWord(ImplicitLocOpBuilder &builder, Value stream,
                        ArrayRef<Value> codes) {
  Value word;
  for (auto [index, code] : llvm::enumerate(codes)) {
    Value own = arith::ExtUIOp::create(builder, builder.getI32Type(), code);
    own = arith::AndIOp::create(builder, own, bits(builder, codeMask, own));
    own = arith::ShLIOp::create(builder, own,
                                bits(builder, placeOf(stream, index), own));
    word = word ? Value(arith::OrIOp::create(builder, word, own)) : own;
  }
  return word;
}

Value altgrad::loadCodes(KernelBuilder &kernel, Value stream, VectorType codes,
                         Value at, unsigned alignment) {
  if (!isPacked(stream))
    return kernel.load(codes, at, alignment);
  if (codes.getNumElements() == 2) {
    Value byte = kernel.load(codes.getElementType(), at, bytesOf(stream));
    byte = arith::ExtUIOp::create(kernel.builder, kernel.builder.getI32Type(), byte);
    return unpackWord(kernel.builder, stream, byte, codes, 0);
  }
  auto bytes =
      VectorType::get({codes.getNumElements() / 2}, codes.getElementType());
  return unpackCodes(kernel.builder, stream,
                     kernel.load(bytes, at, bytesOf(stream)));
}

void altgrad::storeCodes(KernelBuilder &kernel, Value stream, Value codes,
                         Value at, unsigned alignment) {
  if (isPacked(stream))
    codes = packCodes(kernel.builder, stream, codes);
  kernel.store(codes, at, alignment);
}

// By how many bits the code of an element is shifted in its byte.
static Value shiftOf(KernelBuilder &kernel, Value stream, Type type,
                     Value place) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  Value byte = arith::TruncIOp::create(builder, type, place);
  Value odd = arith::AndIOp::create(builder, byte, bits(builder, 1, byte));
  Value shift = arith::ShLIOp::create(builder, odd, bits(builder, 2, odd));
  return arith::XOrIOp::create(
      builder, shift,
      bits(builder, evenIsHigh(stream) ? codeBits : 0, shift));
}

Value altgrad::loadCode(KernelBuilder &kernel, Value stream, Type type,
                        Value at, Value place, bool invariant) {
  Value code = kernel.load(type, at, bytesOf(stream), invariant);
  if (!isPacked(stream))
    return code;
  return arith::ShRUIOp::create(kernel.builder, code,
                                shiftOf(kernel, stream, type, place));
}

// What another half has that nobody has written yet is not read.
void altgrad::storeCode(KernelBuilder &kernel, Value stream, Value code,
                        Value at, Value place, Value keepsNext) {
  if (!isPacked(stream))
    return kernel.store(code, at, bytesOf(stream));
  ImplicitLocOpBuilder &builder = kernel.builder;
  Type type = code.getType();
  Value shift = shiftOf(kernel, stream, type, place);
  Value mask = bits(builder, codeMask, code);
  Value own = arith::ShLIOp::create(
      builder, arith::AndIOp::create(builder, code, mask), shift);
  Value keeps = arith::CmpIOp::create(
      builder, arith::CmpIPredicate::ne, shift,
      bits(builder, placeOf(stream, 0), shift));
  if (keepsNext)
    keeps = arith::OrIOp::create(builder, keeps, keepsNext);
  auto branch = scf::IfOp::create(builder, TypeRange{type}, keeps,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value others = arith::XOrIOp::create(
        builder, arith::ShLIOp::create(builder, mask, shift),
        bits(builder, -1, code));
    scf::YieldOp::create(
        builder,
        ValueRange{arith::AndIOp::create(
            builder, kernel.load(type, at, bytesOf(stream)), others)});
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, ValueRange{bits(builder, 0, code)});
  }
  kernel.store(arith::OrIOp::create(builder, branch.getResult(0), own), at,
               bytesOf(stream));
}

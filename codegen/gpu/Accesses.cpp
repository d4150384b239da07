// How wide a thread's accesses to a stream are: 16 bytes, or what its elements of a row have.
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// No phase writes an `in` stream: it may come through the read-only cache.
bool GpuLowering::readOnly(Value tensors) {
  auto argument = dyn_cast<BlockArgument>(tensors);
  return argument && step.getAccess(argument) == Access::In;
}

// Whether accesses to a tensor that begins there are as wide as they could be.
Value GpuLowering::isAligned(const Chunk &chunk, Value tensors, Value base) {
  int64_t bytes = getPeriod(chunk.sweep, tensors, target.gpu) * getBits(tensors) / 8;
  Value number = LLVM::PtrToIntOp::create(builder, builder.getI64Type(), base);
  Value low = builder.bitAnd(number, kernel.i64(bytes - 1));
  return builder.equal(low, kernel.i64(0));
}

// Strong, or LLVM and ptxas would keep what was loaded before in registers for it; of the block's scope, which the
// nearest cache may answer. LLVM has no such load of a vector.
static SmallVector<Value> loadAgain(CodeBuilder &builder, VectorType type, Value base, int64_t offset) {
  Type word = type.getElementType();
  int64_t count = type.getNumElements();
  Type result = word;
  if (count > 1)
    result = LLVM::LLVMStructType::getLiteral(builder.getContext(), SmallVector<Type>(count, word));
  std::string words, constraints;
  for (int64_t i = 0; i < count; ++i) {
    words += (i ? ", $" : "$") + std::to_string(i);
    constraints += word.isF32() ? "=f," : "=r,";
  }
  if (count > 1)
    words = "{" + words + "}";
  std::string text = "ld.relaxed.cta.global" + (count > 1 ? ".v" + std::to_string(count) : "") + ".b32 " + words +
                     ", [$" + std::to_string(count) + "+" + std::to_string(offset) + "];";
  Value load = assembly(builder, text, constraints + "l,~{memory}", result, base)[0];
  if (count == 1)
    return {load};
  SmallVector<Value> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(LLVM::ExtractValueOp::create(builder, load, i));
  return all;
}

Value GpuLowering::loadAccess(Chunk &chunk, Value tensors, int64_t element, bool again) {
  int64_t bytes = getPeriod(chunk.sweep, tensors, target.gpu) * getBits(tensors) / 8;
  Type word = builder.getI32Type();
  if (getBytes(tensors) == 4)
    word = cast<TensorsType>(tensors.getType()).getFormat().getCodeType();
  auto type = VectorType::get({bytes / 4}, word);
  if (again)
    return builder.fromElements(type, loadAgain(builder, type, chunk.pointers.lookup(tensors),
                                                element / sharedBy(tensors) * getBytes(tensors)));
  return LLVM::LoadOp::create(builder, type, address(chunk, tensors, element), bytes,
                              /*isVolatile=*/false, /*isNonTemporal=*/false, readOnly(tensors));
}

SmallVector<SmallVector<Value>> GpuLowering::accessesFrom(Chunk &chunk, int64_t first, const llvm::BitVector &read) {
  SmallVector<SmallVector<Value>> all(chunk.sweep.getLoads().size());
  for (auto [index, tensors] : llvm::enumerate(chunk.sweep.getLoads()))
    for (int64_t element = 0, period = getPeriod(chunk.sweep, tensors, target.gpu);
         read[index] && element < chunk.width; element += period)
      all[index].push_back(loadAccess(chunk, tensors, first + element));
  return all;
}

// What a block's first rounds load is on its way to L2 while its threads wait for the
// launch before and for the scalars of the row; prefetches see no stale data. A thread
// asks for a line of each stream. LLVM selects its intrinsic from PTX 8.0 on.
void GpuLowering::prefetchRow(Chunk &chunk, Value first, Value last) {
  if (!target.gpu.roundsFetched || chunk.threads != ALTGRAD_BLOCK_THREADS)
    return; // a warp loads several rows before it uses the first
  int64_t elements = target.gpu.roundsFetched * chunk.threads * chunk.width;
  MapVector<int64_t, SmallVector<Value>> alike; // by the elements of a line
  for (Value tensors : chunk.sweep.getLoads())
    if (getBlock(tensors) == 1)
      alike[8 * target.gpu.lineBytes / getBits(tensors)].push_back(tensors);
  for (auto &[ofLine, streams] : alike)
    kernel.when(builder.less(inBlock, kernel.i64(elements / ofLine)),
                [&, ofLine = ofLine, streams = ArrayRef(streams)] {
                  Value at = builder.minSigned(builder.add(first, builder.mul(inBlock, kernel.i64(ofLine))), last);
                  for (Value tensors : streams)
                    assembly(builder, "prefetch.global.L2 [$0];", "l", {},
                             elementAt(kernel, tensors, chunk.pointers.lookup(tensors), at));
                });
}

//===-- Codes in the 32-bit words of an access, and back ------------------------===//

static constexpr int64_t codesOfWord = 8; // of packed ones

// The codes of vector `number`, out of the words of an access.
Value GpuLowering::slice(Value tensors, Value words, VectorType codes, unsigned number) {
  auto from = cast<VectorType>(words.getType());
  int64_t count = codes.getNumElements();
  if (codes.getElementType() == from.getElementType())
    return pick(builder, words, words, number * count, count);
  unsigned bits = count * codes.getElementTypeBitWidth();
  if (isPacked(tensors)) {
    int64_t first = number * count;
    Value word = vector::ExtractOp::create(builder, words, ArrayRef<int64_t>{first / codesOfWord});
    return unpackWord(builder, tensors, word, codes, first % codesOfWord);
  }
  Value units = vector::BitCastOp::create(
      builder, VectorType::get({from.getNumElements() * 32 / bits}, builder.getIntegerType(bits)), words);
  Value unit = vector::ExtractOp::create(builder, units, ArrayRef<int64_t>{int64_t(number)});
  Value one = builder.fromElements(VectorType::get({1}, unit.getType()), unit);
  return vector::BitCastOp::create(builder, codes, one);
}

// Words from the codes of one vector, or of those that share a word.
SmallVector<Value> GpuLowering::pack(Value tensors, ArrayRef<Value> vectors) {
  if (isPacked(tensors)) {
    SmallVector<Value> each;
    for (Value one : vectors)
      llvm::append_range(each, splitVector(one));
    return {packWord(builder, tensors, each)};
  }
  auto codes = cast<VectorType>(vectors[0].getType());
  unsigned bits = codes.getNumElements() * codes.getElementTypeBitWidth();
  if (bits > 32)
    return splitVector(vectors[0]);
  SmallVector<Value> units;
  for (Value one : vectors)
    llvm::append_range(units, splitVector(vector::BitCastOp::create(
                                  builder, VectorType::get({1}, builder.getIntegerType(bits)), one)));
  Value word = builder.fromElements(VectorType::get({int64_t(units.size())}, units[0].getType()), units);
  return splitVector(vector::BitCastOp::create(builder, VectorType::get({1}, builder.getI32Type()), word));
}

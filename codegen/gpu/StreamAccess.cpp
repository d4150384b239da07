// How wide a thread's accesses to a stream are: 16 bytes, or what its elements of a row have.
#include "codegen/gpu/StreamAccess.h"

#include "codegen/common/PackedCodes.h"

using namespace mlir;
using namespace altgrad;

// No phase writes an `in` stream: it may come through the read-only cache.
bool StreamAccess::isReadOnly(Value tensors) {
  auto argument = dyn_cast<BlockArgument>(tensors);
  return argument && kernel.step.getAccess(argument) == Access::In;
}

Value StreamAccess::isAligned(Value tensors, Value base) {
  int64_t bytes = getPeriod(tensors) * getBits(tensors) / 8;
  Value number = LLVM::PtrToIntOp::create(builder, builder.getI64Type(), base);
  Value low = builder.bitAnd(number, kernel.i64(bytes - 1));
  return builder.equal(low, kernel.i64(0));
}

Value StreamAccess::address(Value tensors, int64_t element) {
  return kernel.offset(pointers.lookup(tensors), kernel.i64(element / getElementsPerEntry(tensors)), getBytes(tensors));
}

Value StreamAccess::address(Value tensors, int64_t first, Value offset) {
  Value from = address(tensors, first);
  if (getBlock(tensors) > 1)
    return from;
  if (isPacked(tensors))
    offset = builder.shiftRight(offset, kernel.i32(1));
  return kernel.offset32(from, offset, getBytes(tensors));
}

Value StreamAccess::isBlockLeader(unsigned block) {
  int64_t threads = block / width;
  Value number = builder.bitAnd(rereadRegister(builder, "tid.x"), kernel.i64(threads - 1));
  return builder.equal(number, kernel.i64(0));
}

// Strong, or LLVM and ptxas would keep what was loaded before in registers for it; of the block's scope, which the
// nearest cache may answer. LLVM has no such load of a vector.
static SmallVector<Value> loadRelaxed(CodeBuilder &builder, VectorType type, Value base, int64_t offset) {
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

Value StreamAccess::loadAccess(Value tensors, int64_t element, bool reload) {
  int64_t bytes = getPeriod(tensors) * getBits(tensors) / 8;
  Type word = builder.getI32Type();
  if (getBytes(tensors) == 4)
    word = cast<TensorsType>(tensors.getType()).getFormat().getCodeType();
  auto type = VectorType::get({bytes / 4}, word);
  if (reload)
    return builder.fromElements(type, loadRelaxed(builder, type, pointers.lookup(tensors),
                                                  element / getElementsPerEntry(tensors) * getBytes(tensors)));
  return LLVM::LoadOp::create(builder, type, address(tensors, element), bytes,
                              /*isVolatile=*/false, /*isNonTemporal=*/false, isReadOnly(tensors));
}

StreamAccess::Words StreamAccess::loadAccesses(int64_t first, const llvm::BitVector &read) {
  SmallVector<SmallVector<Value>> all(sweep.getLoads().size());
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads()))
    for (int64_t element = 0, period = getPeriod(tensors); read[index] && element < width; element += period)
      all[index].push_back(loadAccess(tensors, first + element));
  return all;
}

// What a block's first rounds load is on its way to L2 while its threads wait for the
// launch before and for the scalars of the row; prefetches see no stale data. A thread
// asks for a line of each stream. LLVM selects its intrinsic from PTX 8.0 on.
void StreamAccess::prefetchRow(Value first, Value last) {
  if (!target.gpu.prefetchedRounds || threads != ALTGRAD_BLOCK_THREADS)
    return; // a warp loads several rows before it uses the first
  int64_t elements = target.gpu.prefetchedRounds * threads * width;
  MapVector<int64_t, SmallVector<Value>> alike; // by the elements of a line
  for (Value tensors : sweep.getLoads())
    if (getBlock(tensors) == 1)
      alike[8 * target.gpu.lineBytes / getBits(tensors)].push_back(tensors);
  for (auto &[ofLine, streams] : alike)
    kernel.when(builder.less(gpu.inBlock, kernel.i64(elements / ofLine)),
                [&, ofLine = ofLine, streams = ArrayRef(streams)] {
                  Value at = builder.minSigned(builder.add(first, builder.mul(gpu.inBlock, kernel.i64(ofLine))), last);
                  for (Value tensors : streams)
                    assembly(builder, "prefetch.global.L2 [$0];", "l", {},
                             getElementPointer(kernel, tensors, pointers.lookup(tensors), at));
                });
}

//===-- What blocks share -----------------------------------------------------===//

Value altgrad::loadIf(KernelBuilder &kernel, Value condition, Type type, Value tensors, function_ref<Value()> at) {
  CodeBuilder &builder = kernel.builder;
  auto read = [&] { return kernel.load(type, at(), getBytes(tensors)); };
  return branch(builder, condition, type, read, [&] { return builder.splat({}, builder.getZeroAttr(type)); });
}

// The code that the first thread of a block has.
Value StreamAccess::broadcastFromLeader(Value code, unsigned block) {
  Type type = code.getType(), i32 = builder.getI32Type();
  Value word = type.isF32() ? builder.cast(i32, code) : builder.extendUnsigned(i32, code);
  int32_t threads = std::min<int32_t>(block / width, warpThreads);
  // Lane 0 of as many as a block has, by the mask of such segments of a warp.
  int32_t segments = (warpThreads - threads) << 8 | (warpThreads - 1);
  word = gpu.shuffle(NVVM::ShflKind::idx, word, 0, segments);
  if (type.isF32())
    return builder.cast(type, word);
  return builder.truncate(type, word);
}

void StreamAccess::loadShared(Value at, int64_t first) {
  bool passesWarps = false;
  for (auto [argument, tensors] : llvm::zip(sweep.getBody().getArguments(), sweep.getLoads())) {
    if (getBlock(tensors) == 1)
      continue;
    Type type = argument.getType();
    Value exists = builder.less(at, kernel.i32(-int32_t(first)));
    // Of a block that several warps share the first thread of each reads it.
    Value reads = builder.bitAnd(exists, isBlockLeader(std::min<unsigned>(getBlock(tensors), warpThreads * width)));
    Value code = loadIf(kernel, reads, type, tensors, [&, tensors = tensors] { return address(tensors, first); });
    shared.map(tensors, broadcastFromLeader(code, getBlock(tensors)));
    passesWarps |= getBlock(tensors) > warpThreads * width;
  }
  if (passesWarps) // before one of them overwrites it
    gpu.barrier();
}

//===-- Codes in the 32-bit words of an access, and back ------------------------===//

static constexpr int64_t codesOfWord = 8; // of packed ones

// The codes of vector `number`, out of the words of an access.
static Value slice(CodeBuilder &builder, Value tensors, Value words, VectorType codes, unsigned number) {
  auto from = cast<VectorType>(words.getType());
  int64_t count = codes.getNumElements();
  if (codes.getElementType() == from.getElementType())
    return shuffleStrided(builder, words, words, number * count, count);
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

SmallVector<Value> altgrad::packVectors(CodeBuilder &builder, Value tensors, ArrayRef<Value> vectors) {
  if (isPacked(tensors)) {
    SmallVector<Value> each;
    for (Value one : vectors)
      llvm::append_range(each, splitVector(builder, one));
    return {packWord(builder, tensors, each)};
  }
  auto codes = cast<VectorType>(vectors[0].getType());
  unsigned bits = codes.getNumElements() * codes.getElementTypeBitWidth();
  if (bits > 32)
    return splitVector(builder, vectors[0]);
  SmallVector<Value> units;
  for (Value one : vectors)
    llvm::append_range(units,
                       splitVector(builder, vector::BitCastOp::create(
                                                builder, VectorType::get({1}, builder.getIntegerType(bits)), one)));
  Value word = builder.fromElements(VectorType::get({int64_t(units.size())}, units[0].getType()), units);
  return splitVector(builder, vector::BitCastOp::create(builder, VectorType::get({1}, builder.getI32Type()), word));
}

//===-- What a body takes of all streams --------------------------------------===//

SmallVector<Value> StreamAccess::loadVector(SmallVector<Value> &words, int64_t first, unsigned number, bool reload) {
  Region &body = sweep.getWide().front();
  int64_t width = sweep.getWidth(), element = number * width;
  SmallVector<Value> loaded;
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
    auto type = cast<VectorType>(body.getArgument(index).getType());
    if (Value one = shared.lookupOrNull(tensors)) {
      loaded.push_back(builder.broadcast(type, one));
      continue;
    }
    int64_t period = getPeriod(tensors), within = element % period;
    if (!reload && !ahead.empty() && !ahead[index].empty())
      words[index] = ahead[index][element / period];
    else if (!within || !words[index])
      words[index] = loadAccess(tensors, first + element - within, reload);
    loaded.push_back(slice(builder, tensors, words[index], type, within / width));
  }
  return loaded;
}

// A vector of each stream. LLVM makes accesses of several, where nothing is stored
// between them, and leaves out what a reduction does not read.
SmallVector<Value> StreamAccess::loadSeparateVector(int64_t element) {
  SmallVector<Value> loaded;
  for (auto [argument, tensors] : llvm::zip(sweep.getWide().front().getArguments(), sweep.getLoads())) {
    Type type = argument.getType();
    Value one = shared.lookupOrNull(tensors);
    loaded.push_back(one ? builder.broadcast(type, one)
                         : loadCodes(kernel, tensors, cast<VectorType>(type), address(tensors, element),
                                     sweep.getWidth() * getBytes(tensors)));
  }
  return loaded;
}

SmallVector<Value> StreamAccess::loadStrided(Region &body, int64_t number) {
  SmallVector<Value> loaded;
  for (auto [argument, tensors] : llvm::zip(body.getArguments(), sweep.getLoads())) {
    auto type = cast<VectorType>(argument.getType());
    int64_t first = number * type.getNumElements();
    SmallVector<Value> elements;
    for (int64_t i = 0; i < type.getNumElements(); ++i)
      elements.push_back(kernel.load(type.getElementType(), address(tensors, (first + i) * threads), getBytes(tensors),
                                     isReadOnly(tensors)));
    loaded.push_back(builder.fromElements(type, elements));
  }
  return loaded;
}

SmallVector<Value> StreamAccess::loadElement(int64_t first, Value offset) {
  SmallVector<Value> loaded;
  for (auto [argument, tensors] : llvm::zip(sweep.getBody().getArguments(), sweep.getLoads())) {
    Value one = shared.lookupOrNull(tensors);
    loaded.push_back(one ? one
                         : loadCode(kernel, tensors, argument.getType(), address(tensors, first, offset), offset,
                                    isReadOnly(tensors)));
  }
  return loaded;
}

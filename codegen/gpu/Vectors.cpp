// A thread does as many neighbouring elements as fill 16 bytes of the narrowest stream, two at a time. A stream is
// loaded where the codes of its last access run out and stored where 16 bytes are complete; in between, codes are
// packed in words of 32 bits. So a kernel's registers hardly depend on the formats.
//
// The vectors of an access stand under one guard: the fast-path body does them, or, where its guard says no, once more
// the wide one.
#include "codegen/common/FastPathGuard.h"
#include "codegen/gpu/ChunkLowering.h"

using namespace mlir;
using namespace altgrad;

// Codes of 8 bits would take a register each on their way out of a branch.
static Value castToWord(CodeBuilder &builder, Value codes) {
  auto type = cast<VectorType>(codes.getType());
  if (!type.getElementType().isInteger(8))
    return codes;
  Type one = builder.getIntegerType(8 * type.getNumElements());
  return vector::BitCastOp::create(builder, VectorType::get({1}, one), codes);
}

SmallVector<Value> VectorLowering::compute(Region &body, Value at, int64_t first, unsigned number, ValueRange loaded) {
  int64_t element = first + number * sweep.getWidth();
  SmallVector<Value> draws = chunk.draws.drawVector(body, at, element);
  IRMapping known = chunk.kept.load(chunk.known, body, number);
  return cloneSweepBody(builder, body, {loaded, known, chunk.draws.getIndex(at, element), 1, draws});
}

SmallVector<SmallVector<Value>> VectorLowering::computeUnderGuard(Value at, int64_t first, unsigned number,
                                                                  SmallVector<Value> &words) {
  Region &wide = sweep.getWide().front(), *quick = sweep.getFastPath();
  unsigned count = getVectorsPerGuard(sweep, target.gpu);
  if (!quick)
    return {compute(wide, at, first, number, chunk.streams.loadVector(words, first, number, /*reload=*/false))};
  Guard guard(builder, sweep.getWidth());
  SmallVector<Value> fast;
  for (unsigned i = number; i < number + count; ++i) {
    SmallVector<Value> loaded = chunk.streams.loadVector(words, first, i, /*reload=*/false);
    guard.appendTo(loaded);
    SmallVector<Value> emitted = compute(*quick, at, first, i, loaded);
    guard.popFrom(emitted);
    for (Value value : emitted)
      fast.push_back(castToWord(builder, value));
  }
  auto exact = [&] {
    SmallVector<Value> all, own(words.size());
    for (unsigned i = number; i < number + count; ++i)
      for (Value value : compute(wide, at, first, i, chunk.streams.loadVector(own, first, i, /*reload=*/true)))
        all.push_back(castToWord(builder, value));
    return all;
  };
  SmallVector<SmallVector<Value>> vectors(count);
  ValueRange emitted = wide.front().getTerminator()->getOperands();
  for (auto [i, value] : llvm::enumerate(guard.choose(fast, exact))) {
    Type type = emitted[i % emitted.size()].getType();
    vectors[i / emitted.size()].push_back(
        value.getType() == type ? Value(value) : Value(vector::BitCastOp::create(builder, type, value)));
  }
  return vectors;
}

Carried VectorLowering::lower(Value at, Carried carried, unsigned part) {
  unsigned results = sweep.getNumResults(), vectors = chunk.vectors();
  unsigned guarded = getVectorsPerGuard(sweep, target.gpu);
  int64_t first = part * warpThreads * chunk.width;
  int64_t width = sweep.getWidth();
  auto period = [&](Value tensors) { return getPeriod(sweep, tensors, target.gpu); };
  SmallVector<Value> words(sweep.getLoads().size());
  if (gpu.shared.plan().ahead)
    chunk.streams.ahead = chunk.streams.loadAccesses(first, loadsAfterReductions(sweep));
  chunk.draws.restart();
  SmallVector<SmallVector<Value>> ready;
  SmallVector<SmallVector<Value>> codes(sweep.getStores().size());
  SmallVector<SmallVector<Value>> packed(sweep.getStores().size());
  for (unsigned number = 0; number < vectors; ++number) {
    if (number % guarded == 0)
      ready = computeUnderGuard(at, first, number, words);
    SmallVector<Value> &emitted = ready[number % guarded];
    for (unsigned i = 0; i < results; ++i)
      chunk.sums.add(carried, i, (part * vectors + number) % (chunk.countParts() * vectors), emitted[i]);
    int64_t element = (number + 1) * width;
    for (auto [index, tensors] : llvm::enumerate(sweep.getStores())) {
      Value code = emitted[results + index];
      if (getBlock(tensors) > 1) {
        if (!number)
          kernel.when(chunk.streams.isBlockLeader(getBlock(tensors)), [&, stream = tensors] {
            kernel.store(builder.element(code, 0), chunk.streams.address(stream, first), getBytes(stream));
          });
        continue;
      }
      codes[index].push_back(code);
      if (element * getBits(tensors) % 32)
        continue;
      llvm::append_range(packed[index], packVectors(builder, tensors, codes[index]));
      codes[index].clear();
      if (element % period(tensors))
        continue;
      Value all = builder.fromElements(VectorType::get({int64_t(packed[index].size())}, packed[index][0].getType()),
                                       packed[index]);
      packed[index].clear();
      Value at = chunk.streams.address(tensors, first + element - period(tensors));
      unsigned bytes = period(tensors) * getBits(tensors) / 8;
      if (sweep.getCombine())
        all = combineWithColumn(kernel, sweep, all, at, bytes);
      kernel.store(all, at, bytes);
    }
  }
  chunk.streams.ahead.clear();
  return carried;
}

Carried VectorLowering::lowerRows(Value at, Carried carried, int64_t rows) {
  llvm::BitVector every(sweep.getLoads().size(), true);
  SmallVector<SmallVector<SmallVector<Value>>> ahead; // of each part of each row
  for (int64_t part = 0; part < rows * chunk.countParts(); ++part)
    ahead.push_back(chunk.streams.loadAccesses(part * warpThreads * chunk.width, every));
  for (auto [part, words] : llvm::enumerate(ahead)) {
    chunk.streams.ahead = words;
    carried = lower(at, carried, part);
  }
  return carried;
}

// The vectors of an access under one guard: by the fast-path body, or, where its guard says no, once more by the wide
// one.
#include "codegen/common/FastPathGuard.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

SmallVector<Value> GpuLowering::loadVector(Chunk &chunk, SmallVector<Value> &words, int64_t first, unsigned number,
                                           bool again) {
  SweepOp sweep = chunk.sweep;
  Region &body = sweep.getWide().front();
  int64_t width = sweep.getWidth(), element = number * width;
  SmallVector<Value> loaded;
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
    auto type = cast<VectorType>(body.getArgument(index).getType());
    if (Value one = chunk.shared.lookupOrNull(tensors)) {
      loaded.push_back(builder.broadcast(type, one));
      continue;
    }
    int64_t period = getPeriod(sweep, tensors, target.gpu), within = element % period;
    if (!again && !chunk.ahead.empty() && !chunk.ahead[index].empty())
      words[index] = chunk.ahead[index][element / period];
    else if (!within || !words[index])
      words[index] = loadAccess(chunk, tensors, first + element - within, again);
    loaded.push_back(slice(tensors, words[index], type, within / width));
  }
  return loaded;
}

// Codes of 8 bits would take a register each on their way out of a branch.
static Value joined(CodeBuilder &builder, Value codes) {
  auto type = cast<VectorType>(codes.getType());
  if (!type.getElementType().isInteger(8))
    return codes;
  Type one = builder.getIntegerType(8 * type.getNumElements());
  return vector::BitCastOp::create(builder, VectorType::get({1}, one), codes);
}

SmallVector<SmallVector<Value>> GpuLowering::vectorsUnderGuard(Chunk &chunk, Value at, int64_t first, unsigned number,
                                                               SmallVector<Value> &words) {
  SweepOp sweep = chunk.sweep;
  Region &wide = sweep.getWide().front(), *quick = sweep.getFastPath();
  unsigned count = vectorsOfGuard(sweep, target.gpu);
  auto compute = [&](Region &body, unsigned i, ValueRange loaded) {
    int64_t element = first + i * sweep.getWidth();
    SmallVector<Value> draws = drawVector(chunk, body, at, element);
    IRMapping known = getKnown(chunk, body, i);
    return cloneSweepBody(builder, body, {loaded, known, getIndex(chunk, at, element), 1, draws});
  };
  if (!quick)
    return {compute(wide, number, loadVector(chunk, words, first, number, false))};
  Guard guard(builder, sweep.getWidth());
  SmallVector<Value> fast;
  for (unsigned i = number; i < number + count; ++i) {
    SmallVector<Value> loaded = loadVector(chunk, words, first, i, /*again=*/false);
    guard.appendTo(loaded);
    SmallVector<Value> emitted = compute(*quick, i, loaded);
    guard.takeFrom(emitted);
    for (Value value : emitted)
      fast.push_back(joined(builder, value));
  }
  auto exact = [&] {
    SmallVector<Value> all, own(words.size());
    for (unsigned i = number; i < number + count; ++i)
      for (Value value : compute(wide, i,
                                 loadVector(chunk, own, first, i,
                                            /*again=*/true)))
        all.push_back(joined(builder, value));
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

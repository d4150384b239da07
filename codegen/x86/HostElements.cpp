// The elements of a chunk on a host: as vectors and one by one.
#include "codegen/common/FastPathGuard.h"
#include "codegen/common/PackedCodes.h"
#include "codegen/x86/HostChunk.h"

using namespace mlir;
using namespace altgrad;

void altgrad::prefetchAhead(KernelBuilder &kernel, Value at, Value ahead) {
  LLVM::Prefetch::create(kernel.builder, kernel.offset(at, ahead, 1),
                         /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

std::pair<Value, Value> altgrad::loadEvenOdd(KernelBuilder &kernel, Type codes, Value at) {
  CodeBuilder &builder = kernel.builder;
  Value word = kernel.load(withElementType(codes, builder.getI32Type()), at, 2);
  Value even = builder.truncate(codes, word);
  return {even, builder.truncate(codes, builder.shiftRight(word, builder.integer(word.getType(), 16)))};
}

// One stream alone the CPU follows best without being asked: a Zen 4 loses up to a third by prefetching.
SmallVector<Value> HostElements::load(HostChunk &chunk, Region &body, int64_t width, Value index, bool prefetch) {
  SmallVector<Value> loaded;
  for (auto [argument, stream, pointer] : llvm::zip(body.getArguments(), sweep.getLoads(), chunk.loadPointers)) {
    Type type = argument.getType();
    if (Value one = chunk.shared.lookupOrNull(stream)) {
      loaded.push_back(width == 1 ? one : builder.broadcast(type, one));
      continue;
    }
    Value at = getElementPointer(kernel, stream, pointer, index);
    if (prefetch && chunk.loadPointers.size() > 1)
      prefetchAhead(kernel, at, ahead);
    loaded.push_back(width == 1 ? loadCode(kernel, stream, type, at, index)
                                : loadCodes(kernel, stream, cast<VectorType>(type), at, getBytes(stream)));
  }
  return loaded;
}

Value HostElements::getIndex(const HostChunk &chunk, Value index) {
  return chunk.base ? builder.add(chunk.base, index) : Value();
}

// By the fast-path body where there is one and its guard holds.
SmallVector<Value> HostElements::compute(HostChunk &chunk, Region &body, int64_t width, Value index) {
  SmallVector<Value> loaded = load(chunk, body, width, index, width > 1), drawn = draws.loadDraws(chunk, body, index);
  Value global = getIndex(chunk, index);
  auto exact = [&] { return cloneSweepBody(builder, body, {loaded, chunk.known, global, 1, drawn}); };
  Region *quick = sweep.getFastPath();
  if (!quick || &body == &sweep.getBody())
    return exact();
  Guard guard(builder, sweep.getWidth());
  SmallVector<Value> arguments(loaded);
  guard.appendTo(arguments);
  SmallVector<Value> fast = cloneSweepBody(builder, *quick, {arguments, chunk.known, global, 1, drawn});
  guard.popFrom(fast);
  return SmallVector<Value>(guard.choose(fast, exact));
}

// One where `flag` holds, else -0, which no sum is changed by and LLVM knows for such: it adds by masks.
static Value addend(CodeBuilder &builder, Value flag, Type type) {
  return builder.select(flag, builder.f32(1, type), builder.f32(-0.f, type));
}

void HostElements::addToLanes(const Lanes &lanes, int64_t width, Value index, Value value) {
  Value at = lanes.at(index);
  unsigned alignment = width * laneBytes;
  Value before = kernel.load(partialType(lanes.kind, value.getType()), at, alignment);
  Value sum = lanes.kind == Reduction::And     ? accumulateAnd(builder, before, value)
              : lanes.kind == Reduction::Count ? builder.addF(before, addend(builder, value, before.getType()))
                                               : accumulate(builder, lanes.kind, before, value);
  kernel.store(sum, at, alignment);
}

// Elements of a block store the same value to the same place.
void HostElements::emit(HostChunk &chunk, size_t which, int64_t width, Value index, Value value) {
  if (which < chunk.lanes.size())
    return addToLanes(chunk.lanes[which], width, index, value);
  Value stream = sweep.getStores()[which - chunk.lanes.size()];
  if (getBlock(stream) > 1 && width > 1)
    value = builder.element(value, 0);
  Value base = chunk.storePointers[which - chunk.lanes.size()];
  Value at = getElementPointer(kernel, stream, base, index);
  if (sweep.getCombine())
    value = combineWithColumn(kernel, sweep, value, at, getBytes(stream));
  if (width > 1 && getBlock(stream) == 1)
    return storeCodes(kernel, stream, value, at, getBytes(stream));
  Value preservesNext; // which is read before it is written
  if (llvm::is_contained(sweep.getLoads(), stream)) {
    Value next = builder.add(index, kernel.i64(1));
    preservesNext = builder.notEqual(next, chunk.count);
  }
  storeCode(kernel, stream, value, at, index, preservesNext);
}

void HostElements::lower(HostChunk &chunk, Region &body, int64_t width, Value from, Value to) {
  kernel.loop(from, to, kernel.i64(width), [&](Value index) {
    for (auto [which, value] : llvm::enumerate(compute(chunk, body, width, index)))
      emit(chunk, which, width, index, value);
  });
}

void HostElements::lower(HostChunk &chunk, Value count) {
  int64_t width = sweep.getWidth();
  Value whole = builder.bitAnd(count, kernel.i64(-width));
  lower(chunk, sweep.getWide().front(), width, kernel.i64(0), whole);
  lower(chunk, sweep.getBody(), 1, whole, count);
}

// A chunk's elements one by one: of streams that are not 16-byte aligned, and what does not fill a vector at a tensor's
// end. Neighbouring threads have neighbouring elements, so that a warp's access is to one piece of memory, wherever
// that begins.
#include "codegen/common/FastPathGuard.h"
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/ChunkLowering.h"

using namespace mlir;
using namespace altgrad;

// Sentinel offset that is added to a thread's position if the thread has no
// vector; the sum always has the bit `skippedBit`, which no other position has.
static constexpr int32_t skippedBit = 1 << 20, skippedOffset = skippedBit + skippedBit / 2;

// The lanes of sums are other threads' where elements are done one by one: then vectors do all of a chunk or nothing.
Value ElementLowering::getVectorStart() {
  if (sweep.getNumResults()) {
    Value rest = builder.bitAnd(chunk.count, kernel.i32(chunk.width - 1));
    chunk.aligned = builder.bitAnd(chunk.aligned, builder.equal(rest, kernel.i32(0)));
  }
  Value further = builder.select(chunk.aligned, kernel.i32(0), kernel.i32(skippedOffset));
  return builder.add(chunk.from, further);
}

Value ElementLowering::getRemainderMask() { return kernel.i32(skippedBit | int32_t(chunk.width - 1)); }

Value ElementLowering::getElementStart(Value at) {
  Value own = builder.truncate(builder.getI32Type(), rereadRegister(builder, "tid.x"));
  if (chunk.threads == warpThreads)
    own = builder.bitAnd(own, kernel.i32(warpThreads - 1));
  Value skipped = builder.greaterEqual(at, kernel.i32(skippedBit));
  Value behind = builder.sub(kernel.i32(0), at);
  Value rest = builder.bitAnd(behind, kernel.i32(chunk.width - 1));
  Value all = builder.add(builder.add(behind, kernel.i32(skippedOffset)), builder.mul(own, kernel.i32(chunk.width)));
  Value left = builder.select(skipped, all, rest);
  return builder.sub(own, left);
}

// Kept from before the vectors, where the tensors lie would be registers throughout them.
void ElementLowering::rematerializePointers(Value index, Value from) {
  Type i64 = builder.getI64Type();
  auto [row, first] = kernel.locateChunk(launderPointer(builder, index));
  Value end =
      builder.minSigned(kernel.countElements(row, sweep.getWalk()), builder.add(first, kernel.i64(ALTGRAD_CHUNK)));
  Value element = builder.add(end, builder.extendSigned(i64, from));
  for (auto &[tensors, pointer] : chunk.streams.pointers)
    pointer = getElementPointer(kernel, tensors, kernel.stream(tensors, row), element);
}

// `vectors` of a thread's elements, which all exist. Gives whether they are done.
Value ElementLowering::lowerStridedVectors(Value at, Carried &carried, unsigned first, unsigned vectors) {
  unsigned results = sweep.getNumResults();
  Region *quick = results ? nullptr : sweep.getFastPath();
  Region &body = quick ? *quick : sweep.getWide().front();
  int64_t width = sweep.getWidth();
  SmallVector<Value> indices;
  for (unsigned i = 0; i < vectors; ++i)
    indices.push_back(chunk.draws.getIndex(at, (first + i) * width * chunk.threads));
  chunk.draws.drawAhead(body, indices);
  SmallVector<SmallVector<Value>> loaded(vectors), emitted(vectors);
  for (unsigned i = 0; i < vectors; ++i)
    loaded[i] = chunk.streams.loadStrided(body, first + i);
  Guard guard(builder, width);
  auto compute = [&](unsigned i) {
    if (quick)
      guard.appendTo(loaded[i]);
    SmallVector<Value> draws = chunk.draws.getDraws(body, i * width);
    emitted[i] = cloneSweepBody(builder, body, {loaded[i], chunk.known, indices[i], chunk.threads, draws});
    if (quick)
      guard.popFrom(emitted[i]);
  };
  auto store = [&](unsigned i) {
    unsigned lanes = ALTGRAD_LANES / chunk.threads / width;
    for (unsigned r = 0; r < results; ++r)
      chunk.sums.add(carried, r, (first + i) % lanes, emitted[i][r]);
    for (auto [number, tensors] : llvm::enumerate(sweep.getStores()))
      for (auto [j, code] : llvm::enumerate(splitVector(builder, emitted[i][results + number]))) {
        Value at = chunk.streams.address(tensors, ((first + i) * width + j) * chunk.threads);
        kernel.store(sweep.getCombine() ? combineWithColumn(kernel, sweep, code, at, getBytes(tensors)) : code, at,
                     getBytes(tensors));
      }
  };
  for (unsigned i = 0; i < vectors; ++i) {
    compute(i);
    if (!quick)
      store(i);
  }
  if (!quick)
    return builder.constBool();
  Value holds = guard.isValid();
  kernel.when(holds, [&] {
    for (unsigned i = 0; i < vectors; ++i)
      store(i);
  });
  return holds;
}

int64_t ElementLowering::getGroupSize() {
  // With sums a thread's lanes; otherwise what a guard is about.
  return sweep.getNumResults() ? ALTGRAD_LANES / chunk.threads : target.gpu.accessBytes / sizeof(float);
}

// A group of a thread's elements, each `threads` behind the one before: as vectors where all of them exist and are
// ordinary, otherwise one after the other.
Carried ElementLowering::lowerGroup(Value at, Carried carried) {
  int64_t elements = getGroupSize(), width = sweep.getWidth();
  int32_t last = (elements - 1) * chunk.threads;
  Value inside = builder.less(at, kernel.i32(-last));
  carried.push_back(builder.constBool(false));
  carried = ifElse(builder, inside, carried, [&](Carried next) {
    next.pop_back();
    unsigned all = elements / width;
    unsigned together = !sweep.getNumResults() || chunk.rowsAhead(target.gpu) > 1 ? all : 1;
    Value done;
    for (unsigned first = 0; first < all; first += together)
      done = lowerStridedVectors(at, next, first, together);
    next.push_back(done);
    return next;
  });
  Value done = carried.pop_back_val();
  Value end = builder.minSigned(builder.add(at, kernel.i32(last + chunk.threads)), kernel.i32(0));
  Value to = builder.select(done, at, end);
  return lower(at, to, chunk.threads, /*first=*/0, carried, /*lane=*/0);
}

Carried ElementLowering::lower(Value from, Value to, int64_t stride, int64_t first, Carried carried, unsigned lane) {
  unsigned results = sweep.getNumResults();
  auto isRead = [&](Value tensors) { return llvm::is_contained(sweep.getLoads(), tensors); };
  unsigned lanes = stride == 1 ? chunk.vectors() : ALTGRAD_LANES / chunk.threads / sweep.getWidth();
  return kernel.loopWith(from, to, kernel.i32(stride), carried, [&](Value index, Carried next) {
    Value offset = builder.sub(index, from);
    SmallVector<Value> loaded = chunk.streams.loadElement(first, offset);
    Value global = chunk.draws.getIndex(index, 0);
    SmallVector<Value> draws = chunk.draws.drawStrided(sweep.getBody(), global, stride);
    SmallVector<Value> emitted = cloneSweepBody(builder, sweep.getBody(), {loaded, chunk.known, global, 1, draws});
    Value number = offset;
    if (stride > 1 && results)
      number = builder.shiftRight(offset, kernel.i32(llvm::Log2_64(stride)));
    for (unsigned i = 0; i < results; ++i)
      chunk.sums.addElement(next, i, lane, lanes, number, emitted[i]);
    Value inside = builder.notEqual(index, kernel.i32(-1));
    for (auto [number, tensors] : llvm::enumerate(sweep.getStores())) {
      auto store = [&, number = number, tensors = tensors] {
        Value at = chunk.streams.address(tensors, first, offset), code = emitted[results + number];
        if (sweep.getCombine())
          code = combineWithColumn(kernel, sweep, code, at, getBytes(tensors));
        storeCode(kernel, tensors, code, at, offset, isRead(tensors) ? inside : Value());
      };
      if (getBlock(tensors) == 1) {
        store();
        continue;
      }
      Value begins = builder.equal(index, from);
      kernel.when(builder.bitAnd(begins, chunk.streams.isBlockLeader(getBlock(tensors))), store);
    }
    return next;
  });
}

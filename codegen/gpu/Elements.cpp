// A chunk's elements one by one: of streams that are not 16-byte aligned, and what does not fill a vector at a tensor's
// end. Neighbouring threads have neighbouring elements, so that a warp's access is to one piece of memory, wherever
// that begins.
#include "codegen/common/FastPathGuard.h"
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// Sentinel offset that is added to a thread's position if the thread has no
// vector; the sum always has the bit `moved`, which no other position has.
static constexpr int32_t moved = 1 << 20, beyond = moved + moved / 2;

// Where a thread's vectors begin. The lanes of sums are other threads' where
// elements are done one by one: then vectors do all of a chunk or nothing.
Value GpuLowering::vectorsFrom(Chunk &chunk) {
  if (chunk.sweep.getNumResults()) {
    Value rest = builder.bitAnd(chunk.count, kernel.i32(chunk.width - 1));
    chunk.aligned = builder.bitAnd(chunk.aligned, builder.equal(rest, kernel.i32(0)));
  }
  Value further = builder.select(chunk.aligned, kernel.i32(0), kernel.i32(beyond));
  return builder.add(chunk.from, further);
}

// The bits that the place of any thread behind its vectors has if the chunk is not done.
Value GpuLowering::leftOver(Chunk &chunk) { return kernel.i32(moved | int32_t(chunk.width - 1)); }

// The first element that a thread does by itself, from the chunk's end, when its vectors have come to `at`.
Value GpuLowering::elementsFrom(Chunk &chunk, Value at) {
  Value own = builder.truncate(builder.getI32Type(), rereadRegister("tid.x"));
  if (chunk.threads == warpThreads)
    own = builder.bitAnd(own, kernel.i32(warpThreads - 1));
  Value skipped = builder.greaterEqual(at, kernel.i32(moved));
  Value behind = builder.sub(kernel.i32(0), at);
  Value rest = builder.bitAnd(behind, kernel.i32(chunk.width - 1));
  Value all = builder.add(builder.add(behind, kernel.i32(beyond)), builder.mul(own, kernel.i32(chunk.width)));
  Value left = builder.select(skipped, all, rest);
  return builder.sub(own, left);
}

// Finds the tensors anew: kept from before the vectors, where they lie would be registers throughout them.
void GpuLowering::reopen(Chunk &chunk, Value index, Value from) {
  Type i64 = builder.getI64Type();
  auto [row, first] = kernel.locateChunk(launderPointer(index));
  Value end =
      builder.minSigned(kernel.rowHeader(row, ALTGRAD_ROW_NUMEL), builder.add(first, kernel.i64(ALTGRAD_CHUNK)));
  Value element = builder.add(end, builder.extendSigned(i64, from));
  for (auto &[tensors, pointer] : chunk.pointers)
    pointer = elementAt(kernel, tensors, kernel.stream(tensors, row), element);
}

// Of a vector: elements of the thread that lie `threads` apart.
Value GpuLowering::loadApart(Chunk &chunk, Value tensors, int64_t number, VectorType type) {
  SmallVector<Value> elements;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    elements.push_back(kernel.load(type.getElementType(),
                                   address(chunk, tensors, (number * type.getNumElements() + i) * chunk.threads),
                                   getBytes(tensors), readOnly(tensors)));
  return builder.fromElements(type, elements);
}

// `vectors` of a thread's elements, which all exist. Gives whether they are done.
Value GpuLowering::vectorsApart(Chunk &chunk, Value at, Carried &carried, unsigned first, unsigned vectors) {
  SweepOp sweep = chunk.sweep;
  unsigned results = sweep.getNumResults();
  Region *quick = results ? nullptr : sweep.getFastPath();
  Region &body = quick ? *quick : sweep.getWide().front();
  int64_t width = sweep.getWidth();
  SmallVector<Value> indices;
  for (unsigned i = 0; i < vectors; ++i)
    indices.push_back(getIndex(chunk, at, (first + i) * width * chunk.threads));
  drawAhead(chunk, body, indices);
  SmallVector<SmallVector<Value>> loaded(vectors), emitted(vectors);
  for (unsigned i = 0; i < vectors; ++i)
    for (auto [argument, tensors] : llvm::zip(body.getArguments(), sweep.getLoads()))
      loaded[i].push_back(loadApart(chunk, tensors, first + i, cast<VectorType>(argument.getType())));
  Guard guard(builder, width);
  auto compute = [&](unsigned i) {
    if (quick)
      guard.appendTo(loaded[i]);
    SmallVector<Value> draws = takeDraws(chunk, body, i * width);
    emitted[i] = cloneSweepBody(builder, body, {loaded[i], chunk.known, indices[i], chunk.threads, draws});
    if (quick)
      guard.takeFrom(emitted[i]);
  };
  auto store = [&](unsigned i) {
    unsigned lanes = ALTGRAD_LANES / chunk.threads / width;
    for (unsigned r = 0; r < results; ++r)
      chunk.sums.add(carried, r, (first + i) % lanes, emitted[i][r]);
    for (auto [number, tensors] : llvm::enumerate(sweep.getStores()))
      for (auto [j, code] : llvm::enumerate(splitVector(emitted[i][results + number])))
        kernel.store(code, address(chunk, tensors, ((first + i) * width + j) * chunk.threads), getBytes(tensors));
  };
  for (unsigned i = 0; i < vectors; ++i) {
    compute(i);
    if (!quick)
      store(i);
  }
  if (!quick)
    return builder.constBool();
  Value holds = guard.holds();
  kernel.when(holds, [&] {
    for (unsigned i = 0; i < vectors; ++i)
      store(i);
  });
  return holds;
}

int64_t GpuLowering::elementsOfGroup(const Chunk &chunk) {
  // With sums a thread's lanes; otherwise what a guard is about.
  return SweepOp(chunk.sweep).getNumResults() ? ALTGRAD_LANES / chunk.threads : target.gpu.accessBytes / sizeof(float);
}

// A group of a thread's elements, each `threads` behind the one before: as vectors where all of them exist and are
// ordinary, otherwise one after the other.
GpuLowering::Carried GpuLowering::groupAt(Chunk &chunk, Value at, Carried carried) {
  int64_t elements = elementsOfGroup(chunk), width = chunk.sweep.getWidth();
  int32_t last = (elements - 1) * chunk.threads;
  Value inside = builder.less(at, kernel.i32(-last));
  carried.push_back(builder.constBool(false));
  carried = ifElse(inside, carried, [&](Carried next) {
    next.pop_back();
    unsigned all = elements / width;
    unsigned together = !chunk.sweep.getNumResults() || rowsAhead(chunk) > 1 ? all : 1;
    Value done;
    for (unsigned first = 0; first < all; first += together)
      done = vectorsApart(chunk, at, next, first, together);
    next.push_back(done);
    return next;
  });
  Value done = carried.pop_back_val();
  Value end = builder.minSigned(builder.add(at, kernel.i32(last + chunk.threads)), kernel.i32(0));
  Value to = builder.select(done, at, end);
  return oneByOne(chunk, at, to, chunk.threads, /*first=*/0, carried,
                  /*lane=*/0);
}

// Where the element `offset` behind the thread's `first` lies, or what its block shares.
Value GpuLowering::behind(Chunk &chunk, Value tensors, int64_t first, Value offset) {
  Value from = address(chunk, tensors, first);
  if (getBlock(tensors) > 1)
    return from;
  if (isPacked(tensors))
    offset = builder.shiftRight(offset, kernel.i32(1));
  return kernel.offset32(from, offset, getBytes(tensors));
}

// What the body takes of all streams.
SmallVector<Value> GpuLowering::loadElement(Chunk &chunk, int64_t first, Value offset) {
  SmallVector<Value> loaded;
  for (auto [argument, tensors] : llvm::zip(chunk.sweep.getBody().getArguments(), chunk.sweep.getLoads())) {
    Value one = chunk.shared.lookupOrNull(tensors);
    loaded.push_back(one ? one
                         : loadCode(kernel, tensors, argument.getType(), behind(chunk, tensors, first, offset), offset,
                                    readOnly(tensors)));
  }
  return loaded;
}

// Each goes to its own lane of the partial sums, from that of vector `lane` on;
// the pointers are `first` elements before `from`.
GpuLowering::Carried GpuLowering::oneByOne(Chunk &chunk, Value from, Value to, int64_t apart, int64_t first,
                                           Carried carried, unsigned lane) {
  SweepOp sweep = chunk.sweep;
  unsigned results = sweep.getNumResults();
  auto isRead = [&](Value tensors) { return llvm::is_contained(sweep.getLoads(), tensors); };
  unsigned lanes = apart == 1 ? chunk.vectors() : ALTGRAD_LANES / chunk.threads / sweep.getWidth();
  return kernel.loopWith(from, to, kernel.i32(apart), carried, [&](Value index, Carried next) {
    Value offset = builder.sub(index, from);
    SmallVector<Value> loaded = loadElement(chunk, first, offset);
    Value global = getIndex(chunk, index, 0);
    SmallVector<Value> draws = drawApart(chunk, sweep.getBody(), global, apart);
    SmallVector<Value> emitted = cloneSweepBody(builder, sweep.getBody(), {loaded, chunk.known, global, 1, draws});
    Value number = offset;
    if (apart > 1 && results)
      number = builder.shiftRight(offset, kernel.i32(llvm::Log2_64(apart)));
    for (unsigned i = 0; i < results; ++i)
      chunk.sums.addElement(next, i, lane, lanes, number, emitted[i]);
    Value inside = builder.notEqual(index, kernel.i32(-1));
    for (auto [number, tensors] : llvm::enumerate(sweep.getStores())) {
      auto store = [&, number = number, tensors = tensors] {
        storeCode(kernel, tensors, emitted[results + number], behind(chunk, tensors, first, offset), offset,
                  isRead(tensors) ? inside : Value());
      };
      if (getBlock(tensors) == 1) {
        store();
        continue;
      }
      Value begins = builder.equal(index, from);
      kernel.when(builder.bitAnd(begins, leads(chunk, getBlock(tensors))), store);
    }
    return next;
  });
}

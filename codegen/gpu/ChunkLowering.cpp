// A thread's way through a chunk: vectors as far as they go, then elements; blocks of elements where threads exchange
// values. Then the threads' sums become the chunk's.
#include "codegen/gpu/ChunkLowering.h"

using namespace mlir;
using namespace altgrad;

// Goes on from `from` as far as rounds of `elements` begin before `to`; gives where it is then. The pointers walk with
// the thread: one register pair for each stream.
Value ChunkLowering::lowerLoop(Carried &sums, Value from, Value to, int32_t elements,
                               function_ref<Carried(Value, Carried)> body) {
  size_t count = sums.size();
  auto unpack = [&](Carried carried) {
    for (auto [stream, pointer] : llvm::zip(chunk.streams.pointers, ArrayRef<Value>(carried).drop_front(count + 1)))
      stream.second = pointer;
    sums = carried;
    sums.truncate(count);
    return carried[count];
  };
  auto pack = [&](Value at) {
    Carried carried = sums;
    carried.push_back(at);
    for (auto &[tensors, pointer] : chunk.streams.pointers)
      carried.push_back(pointer);
    return carried;
  };
  auto goesOn = [&](Value at) -> Value { return builder.less(at, to); };
  auto next = [&](Value tensors, Value pointer) {
    return kernel.offset(pointer, kernel.i64(elements / getElementsPerEntry(tensors)), getBytes(tensors));
  };
  if (!sweep.getFastPath())
    return unpack(kernel.loopWith(from, to, kernel.i32(elements), pack(from), [&](Value at, Carried carried) {
      unpack(carried);
      sums = body(at, sums);
      for (auto &[tensors, pointer] : chunk.streams.pointers)
        pointer = next(tensors, pointer);
      return pack(builder.add(at, kernel.i32(elements)));
    }));
  // Where a round has branches, ptxas moves pointers before it stores by the old ones and then keeps both, unless they
  // are moved behind the jump that ends the last round.
  return unpack(ifElse(builder, goesOn(from), pack(from), [&](Carried initial) {
    TypeRange types = ValueRange(initial).getTypes();
    SmallVector<Location> locations(types.size(), builder.getLoc());
    auto loop = scf::WhileOp::create(builder, types, initial);
    OpBuilder::InsertionGuard guard(builder);
    auto open = [&](Region &region) {
      Block *block = builder.createBlock(&region, {}, types, locations);
      return unpack(Carried(block->getArguments()));
    };
    Value at = open(loop.getBefore());
    sums = body(at, sums);
    at = builder.add(at, kernel.i32(elements));
    scf::ConditionOp::create(builder, goesOn(at), pack(at));
    at = open(loop.getAfter());
    for (auto &[tensors, pointer] : chunk.streams.pointers)
      pointer = launderPointer(builder, next(tensors, pointer));
    scf::YieldOp::create(builder, pack(at));
    builder.setInsertionPointAfter(loop);
    at = unpack(Carried(loop.getResults()));
    for (auto &[tensors, pointer] : chunk.streams.pointers)
      pointer = next(tensors, pointer);
    return pack(at);
  }));
}

Carried ChunkLowering::lower(Value index) {
  Carried sums = chunk.sums.clear();
  if (!chunk.isBlockwise()) {
    lowerUnblocked(index, sums);
    return sums;
  }
  unsigned parts = chunk.countParts();
  lowerLoop(sums, chunk.start, kernel.i32(0), chunk.threads * chunk.width * parts, [&](Value start, Carried carried) {
    Value at = builder.add(start, chunk.threadOffset);
    for (unsigned part = 0; part < parts; ++part)
      carried = lowerBlocks(at, carried, part);
    chunk.sums.addRound(carried, start);
    return carried;
  });
  return sums;
}

// Vectors as far as they go, then elements.
void ChunkLowering::lowerUnblocked(Value index, Carried &sums) {
  VectorLowering vectors(gpu, chunk);
  ElementLowering elements(gpu, chunk);
  int64_t rows = chunk.rowsAhead(target.gpu), covered = chunk.threads * chunk.width;
  unsigned parts = chunk.countParts();
  Value at = elements.getVectorStart();
  if (rows > 1) { // whole groups of them, none where a stream is not aligned
    Value whole = builder.bitAnd(chunk.count, kernel.i32(-int32_t(rows * ALTGRAD_LANES)));
    whole = builder.select(chunk.aligned, whole, kernel.i32(0));
    at = lowerLoop(sums, at, builder.add(at, whole), rows * ALTGRAD_LANES,
                   [&](Value at, Carried carried) { return vectors.lowerRows(at, carried, rows); });
  }
  at = lowerLoop(sums, at, kernel.i32(1 - int32_t(chunk.width)), covered * parts, [&](Value at, Carried carried) {
    carried = vectors.lower(at, carried, 0);
    for (unsigned part = 1; part < parts; ++part) { // if all of its elements exist
      Value inside = builder.lessEqual(at, kernel.i32(-int32_t((part * warpThreads + 1) * chunk.width)));
      carried = ifElse(builder, inside, carried, [&](Carried carried) { return vectors.lower(at, carried, part); });
    }
    return carried;
  });
  Value any = builder.notEqual(builder.bitAnd(at, elements.getRemainderMask()), kernel.i32(0));
  sums = ifElse(builder, any, sums, [&](Carried carried) {
    sums = carried;
    Value from = elements.getElementStart(at);
    elements.rematerializePointers(index, from);
    lowerLoop(sums, from, kernel.i32(0), elements.getGroupSize() * chunk.threads,
              [&](Value at, Carried carried) { return elements.lowerGroup(at, carried); });
    return sums;
  });
}

// All threads of a warp take part, those behind the tensor's end with nothing; a thread's elements are vectors where
// all of them exist and are aligned.
Carried ChunkLowering::lowerBlocks(Value at, Carried carried, unsigned part) {
  int32_t first = part * warpThreads * chunk.width;
  chunk.streams.loadShared(at, first);
  BlockReducer(gpu, chunk).reduce(at, first);
  Value inside = builder.lessEqual(at, kernel.i32(-first - int32_t(chunk.width)));
  inside = builder.bitAnd(inside, chunk.aligned);
  return ifElse(
      builder, inside, carried, [&](Carried carried) { return VectorLowering(gpu, chunk).lower(at, carried, part); },
      [&](Carried carried) {
        Value from = builder.add(at, kernel.i32(first));
        Value to = builder.minSigned(builder.add(from, kernel.i32(chunk.width)), kernel.i32(0));
        return ElementLowering(gpu, chunk).lower(from, to, 1, first, carried, part * chunk.vectors());
      });
}

//===-- Sums ----------------------------------------------------------------===//

// The tree 128, 64 … 1.
Value ChunkLowering::reduceTotal(const Carried &carried, unsigned result) {
  if (!chunk.sums.vectors(result))
    return chunk.sums.totalOfWarps(carried, result);
  auto ofElements = [&] { return totalOfStrided(carried, result); };
  auto ofVectors = [&] { return totalOfNeighbours(carried, result); };
  if (chunk.sums.vectors(result) == 1) // in any order
    return joinsWarps(sweep) ? gpu.combineWarps(sweep.getReduction(result), ofElements(), warpsPerBlock) : ofElements();
  return chunk.isBlockwise() ? ofVectors()
                             : branch(builder, chunk.aligned, builder.getF32Type(), ofVectors, ofElements);
}

// Of neighbours in a thread: parts, then threads, then vectors and their elements.
Value ChunkLowering::totalOfNeighbours(const Carried &carried, unsigned result) {
  Reduction kind = sweep.getReduction(result);
  unsigned all = chunk.sums.vectors(result);
  unsigned vectors = std::min(chunk.vectors(), all);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < vectors; ++number) {
    Value sum = chunk.sums.vector(carried, result, number);
    if (vectors < all)
      sum = combine(builder, kind, sum, chunk.sums.vector(carried, result, vectors + number));
    llvm::append_range(elements, splitVector(builder, gpu.combineThreads(kind, sum)));
  }
  return combineElements(builder, kind, elements);
}

// Of elements a warp apart: a thread's own come first.
Value ChunkLowering::totalOfStrided(const Carried &carried, unsigned result) {
  Reduction kind = sweep.getReduction(result);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < chunk.sums.vectors(result); ++number)
    llvm::append_range(elements, splitVector(builder, chunk.sums.vector(carried, result, number)));
  return gpu.combineLanes(kind, elements);
}

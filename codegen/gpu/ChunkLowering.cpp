// A thread's way through a chunk: vectors as far as they go, then elements; blocks of elements where threads exchange
// values. Then the threads' sums become the chunk's.
#include "codegen/gpu/ChunkLowering.h"

using namespace mlir;
using namespace altgrad;

// Goes on from `from` as far as rounds of `elements` begin before `to`; gives where it is then. The pointers walk with
// the thread: one register pair for each stream.
Value ChunkLowering::walk(Carried &sums, Value from, Value to, int32_t elements,
                          function_ref<Carried(Value, Carried)> body) {
  size_t count = sums.size();
  auto take = [&](Carried carried) {
    for (auto [stream, pointer] : llvm::zip(chunk.streams.pointers, ArrayRef<Value>(carried).drop_front(count + 1)))
      stream.second = pointer;
    sums = carried;
    sums.truncate(count);
    return carried[count];
  };
  auto all = [&](Value at) {
    Carried carried = sums;
    carried.push_back(at);
    for (auto &[tensors, pointer] : chunk.streams.pointers)
      carried.push_back(pointer);
    return carried;
  };
  auto goesOn = [&](Value at) -> Value { return builder.less(at, to); };
  auto next = [&](Value tensors, Value pointer) {
    return kernel.offset(pointer, kernel.i64(elements / sharedBy(tensors)), getBytes(tensors));
  };
  if (!sweep.getFastPath())
    return take(kernel.loopWith(from, to, kernel.i32(elements), all(from), [&](Value at, Carried carried) {
      take(carried);
      sums = body(at, sums);
      for (auto &[tensors, pointer] : chunk.streams.pointers)
        pointer = next(tensors, pointer);
      return all(builder.add(at, kernel.i32(elements)));
    }));
  // Where a round has branches, ptxas moves pointers before it stores by the old ones and then keeps both, unless they
  // are moved behind the jump that ends the last round.
  return take(ifElse(builder, goesOn(from), all(from), [&](Carried initial) {
    TypeRange types = ValueRange(initial).getTypes();
    SmallVector<Location> places(types.size(), builder.getLoc());
    auto loop = scf::WhileOp::create(builder, types, initial);
    OpBuilder::InsertionGuard guard(builder);
    auto open = [&](Region &region) {
      Block *block = builder.createBlock(&region, {}, types, places);
      return take(Carried(block->getArguments()));
    };
    Value at = open(loop.getBefore());
    sums = body(at, sums);
    at = builder.add(at, kernel.i32(elements));
    scf::ConditionOp::create(builder, goesOn(at), all(at));
    at = open(loop.getAfter());
    for (auto &[tensors, pointer] : chunk.streams.pointers)
      pointer = launderPointer(builder, next(tensors, pointer));
    scf::YieldOp::create(builder, all(at));
    builder.setInsertionPointAfter(loop);
    at = take(Carried(loop.getResults()));
    for (auto &[tensors, pointer] : chunk.streams.pointers)
      pointer = next(tensors, pointer);
    return all(at);
  }));
}

Carried ChunkLowering::lower(Value index) {
  Carried sums = chunk.sums.clear();
  if (!chunk.exchanges()) {
    lowerAlone(index, sums);
    return sums;
  }
  unsigned parts = chunk.countParts();
  walk(sums, chunk.start, kernel.i32(0), chunk.threads * chunk.width * parts, [&](Value at, Carried carried) {
    at = builder.add(at, chunk.mine);
    for (unsigned part = 0; part < parts; ++part)
      carried = lowerBlocks(at, carried, part);
    return carried;
  });
  return sums;
}

// Vectors as far as they go, then elements.
void ChunkLowering::lowerAlone(Value index, Carried &sums) {
  VectorLowering vectors(gpu, chunk);
  ElementLowering elements(gpu, chunk);
  int64_t rows = chunk.rowsAhead(target.gpu), covered = chunk.threads * chunk.width;
  unsigned parts = chunk.countParts();
  Value at = elements.vectorsFrom();
  if (rows > 1) { // whole groups of them, none where a stream is not aligned
    Value whole = builder.bitAnd(chunk.count, kernel.i32(-int32_t(rows * ALTGRAD_LANES)));
    whole = builder.select(chunk.aligned, whole, kernel.i32(0));
    at = walk(sums, at, builder.add(at, whole), rows * ALTGRAD_LANES,
              [&](Value at, Carried carried) { return vectors.lowerRows(at, carried, rows); });
  }
  at = walk(sums, at, kernel.i32(1 - int32_t(chunk.width)), covered * parts, [&](Value at, Carried carried) {
    carried = vectors.lower(at, carried, 0);
    for (unsigned part = 1; part < parts; ++part) { // if all of its elements exist
      Value inside = builder.lessEqual(at, kernel.i32(-int32_t((part * warpThreads + 1) * chunk.width)));
      carried = ifElse(builder, inside, carried, [&](Carried carried) { return vectors.lower(at, carried, part); });
    }
    return carried;
  });
  Value any = builder.notEqual(builder.bitAnd(at, elements.leftOver()), kernel.i32(0));
  sums = ifElse(builder, any, sums, [&](Carried carried) {
    sums = carried;
    Value from = elements.elementsFrom(at);
    elements.reopen(index, from);
    walk(sums, from, kernel.i32(0), elements.elementsOfGroup() * chunk.threads,
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
  auto ofElements = [&] { return totalApart(carried, result); };
  auto ofVectors = [&] { return totalInRow(carried, result); };
  if (chunk.sums.vectors(result) == 1) // in any order
    return ofElements();
  return chunk.exchanges() ? ofVectors() : branch(builder, chunk.aligned, builder.getF32Type(), ofVectors, ofElements);
}

// Of neighbours in a thread: parts, then threads, then vectors and their elements.
Value ChunkLowering::totalInRow(const Carried &carried, unsigned result) {
  Reduction kind = sweep.getReduction(result);
  unsigned all = chunk.sums.vectors(result);
  unsigned vectors = std::min(chunk.vectors(), all);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < vectors; ++number) {
    Value sum = chunk.sums.vector(carried, result, number);
    if (vectors < all)
      sum = join(builder, kind, sum, chunk.sums.vector(carried, result, vectors + number));
    llvm::append_range(elements, splitVector(builder, gpu.joinThreads(kind, sum)));
  }
  return joinElements(builder, kind, elements);
}

// Of elements a warp apart: a thread's own come first.
Value ChunkLowering::totalApart(const Carried &carried, unsigned result) {
  Reduction kind = sweep.getReduction(result);
  SmallVector<Value> elements;
  for (unsigned number = 0; number < chunk.sums.vectors(result); ++number)
    llvm::append_range(elements, splitVector(builder, chunk.sums.vector(carried, result, number)));
  return gpu.joinLanes(kind, elements);
}

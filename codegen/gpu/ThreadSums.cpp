// Partial sums in registers and in shared memory.
#include "codegen/gpu/Chunk.h"

using namespace mlir;
using namespace altgrad;

ThreadSums::ThreadSums(GpuKernel &gpu, SweepOp sweep, int64_t perThread)
    : gpu(gpu), kernel(gpu.kernel), builder(kernel.builder), width(sweep.getWidth()), perThread(perThread),
      vectorBytes(width * sharedWordBytes) {
  SharedMemory &memory = gpu.shared;
  unsigned registers = 0, entries = 0, room = memory.entries("sums", vectorBytes);
  int waiting = 0;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    bool inOrder = isOrdered(sweep.getReduction(i));
    if (inOrder && joinsWarps(sweep)) {
      sums.push_back({sweep.getReduction(i), /*vectors=*/0, registers++, /*shared=*/false, waiting++});
      continue;
    }
    unsigned vectors = inOrder ? ALTGRAD_LANES / warpThreads / width : 1;
    bool shared = inOrder && entries + vectors <= room;
    unsigned &end = shared ? entries : registers;
    sums.push_back({sweep.getReduction(i), vectors, end, shared});
    end += vectors;
  }
  own = memory.getThreadEntry("sums", vectorBytes);
  if (waiting) {
    terms = memory.allocate("terms", perThread * sharedWordBytes);
    ownTerms = kernel.offset(terms, gpu.inBlock, perThread * sharedWordBytes);
  }
}

VectorType ThreadSums::vectorType(Reduction kind) {
  return cast<VectorType>(partialType(kind, VectorType::get({width}, builder.getF32Type())));
}

Value ThreadSums::broadcast(Value value) { return builder.broadcast(VectorType::get({width}, value.getType()), value); }

Value ThreadSums::address(const Sum &sum, unsigned number) {
  return kernel.offset(own, kernel.i64(sum.at + number), getStride(vectorBytes));
}

ThreadSums::Carried ThreadSums::clear() {
  Carried carried;
  for (const Sum &sum : sums) {
    if (sum.order >= 0)
      carried.push_back(neutral(builder, sum.kind, builder.getF32Type()));
    Value zero = neutral(builder, sum.kind, vectorType(sum.kind));
    for (unsigned number = 0; number < sum.vectors; ++number)
      if (sum.shared)
        kernel.store(zero, address(sum, number), vectorBytes);
      else
        carried.push_back(zero);
  }
  return carried;
}

Value ThreadSums::vector(const Carried &carried, unsigned result, unsigned number) {
  const Sum &sum = sums[result];
  if (sum.shared) // volatile, or LLVM would keep it in a register
    return LLVM::LoadOp::create(builder, vectorType(sum.kind), address(sum, number), vectorBytes,
                                /*isVolatile=*/true);
  return carried[sum.at + number % sum.vectors];
}

void ThreadSums::add(Carried &carried, unsigned result, unsigned number, Value elements) {
  const Sum &sum = sums[result];
  if (sum.order >= 0)
    return kernel.store(elements, getTerm(sum, ownTerms, kernel.i32(number * width)), vectorBytes);
  Value next = accumulate(builder, sum.kind, vector(carried, result, number), elements);
  if (sum.shared)
    kernel.store(next, address(sum, number), vectorBytes);
  else
    carried[sum.at + number % sum.vectors] = next;
}

void ThreadSums::addElement(Carried &carried, unsigned result, unsigned first, unsigned count, Value offset,
                            Value element) {
  const Sum &sum = sums[result];
  if (sum.order >= 0)
    return kernel.store(element, getTerm(sum, ownTerms, offset), sharedWordBytes);
  if (sum.vectors == 1) {
    SmallVector<Value> all(width, element);
    if (sum.kind == Reduction::Count) // others may meet an element twice
      all.assign(width, builder.constBool(false));
    all[0] = element;
    Value one = builder.fromElements(VectorType::get({width}, element.getType()), all);
    return add(carried, result, 0, one);
  }
  if (sum.shared) {
    Value number = builder.shiftRight(offset, kernel.i32(llvm::Log2_64(width)));
    Value within = builder.bitAnd(offset, kernel.i32(width - 1));
    Value at =
        kernel.offset32(kernel.offset32(address(sum, first), number, getStride(vectorBytes)), within, sharedWordBytes);
    Value before = kernel.load(element.getType(), at, sharedWordBytes);
    return kernel.store(accumulate(builder, sum.kind, before, element), at, sharedWordBytes);
  }
  for (unsigned i = 0; i < count; ++i) {
    Value &own = carried[sum.at + first + i];
    Value added = accumulate(builder, sum.kind, own, broadcast(element));
    Value wanted = arith::ConstantOp::create(
        builder, builder.getI32VectorAttr(llvm::to_vector(llvm::seq<int32_t>(i * width, (i + 1) * width))));
    Value here = builder.equal(wanted, broadcast(offset));
    own = builder.select(here, added, own);
  }
}

//===-- Where warps share a chunk -----------------------------------------------===//

Value ThreadSums::getTerm(const Sum &sum, Value from, Value index) {
  int64_t round = ALTGRAD_BLOCK_THREADS * perThread;
  return kernel.offset32(kernel.offset(from, kernel.i64(sum.order * round), sharedWordBytes), index, sharedWordBytes);
}

void ThreadSums::addRound(Carried &carried, Value start) {
  if (!areWaiting())
    return;
  Value lane = builder.truncate(builder.getI32Type(), rereadRegister(builder, "tid.x"));
  gpu.barrier();
  for (const Sum &sum : sums)
    for (int32_t row = 0; sum.order >= 0 && row < perThread; ++row) {
      Value index = builder.add(lane, kernel.i32(row * ALTGRAD_LANES));
      Value &sumOfLane = carried[sum.at];
      sumOfLane = branch(
          builder, builder.less(builder.add(start, index), kernel.i32(0)), sumOfLane.getType(),
          [&] {
            Value term = kernel.load(builder.getF32Type(), getTerm(sum, terms, index), sharedWordBytes);
            return accumulate(builder, sum.kind, sumOfLane, term);
          },
          [&] { return sumOfLane; });
    }
  gpu.barrier(); // nobody still reads what the next round writes
}

Value ThreadSums::totalOfWarps(const Carried &carried, unsigned result) {
  const Sum &sum = sums[result];
  Value lane = builder.truncate(builder.getI32Type(), rereadRegister(builder, "tid.x"));
  kernel.store(carried[sum.at], getTerm(sum, terms, lane), sharedWordBytes);
  gpu.barrier();
  SmallVector<Value> lanes;
  for (int32_t i = 0; i < ALTGRAD_LANES / warpThreads; ++i) {
    Value other = builder.add(builder.bitAnd(lane, kernel.i32(warpThreads - 1)), kernel.i32(i * warpThreads));
    lanes.push_back(kernel.load(builder.getF32Type(), getTerm(sum, terms, other), sharedWordBytes));
  }
  Value total = gpu.combineLanes(sum.kind, lanes);
  gpu.barrier();
  return total;
}

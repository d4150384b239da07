// Partial sums in registers and in shared memory.
#include "codegen/gpu/Chunk.h"

using namespace mlir;
using namespace altgrad;

ThreadSums::ThreadSums(KernelBuilder &kernel, SweepOp sweep, SharedMemory &memory)
    : kernel(kernel), builder(kernel.builder), width(sweep.getWidth()), vectorBytes(width * sharedWordBytes) {
  unsigned registers = 0, entries = 0, room = memory.entries("sums", vectorBytes);
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    bool inOrder = isOrdered(sweep.getReduction(i));
    unsigned vectors = inOrder ? ALTGRAD_LANES / warpThreads / width : 1;
    bool shared = inOrder && entries + vectors <= room;
    unsigned &end = shared ? entries : registers;
    sums.push_back({sweep.getReduction(i), vectors, end, shared});
    end += vectors;
  }
  own = memory.getThreadEntry("sums", vectorBytes);
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
  Value next = accumulate(builder, sum.kind, vector(carried, result, number), elements);
  if (sum.shared)
    kernel.store(next, address(sum, number), vectorBytes);
  else
    carried[sum.at + number % sum.vectors] = next;
}

void ThreadSums::addElement(Carried &carried, unsigned result, unsigned first, unsigned count, Value offset,
                            Value element) {
  const Sum &sum = sums[result];
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

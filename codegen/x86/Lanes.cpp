// Trees of partial sums on a host.
#include "codegen/x86/Lanes.h"

using namespace mlir;
using namespace altgrad;

Lanes Lanes::allocate(KernelBuilder &kernel, Reduction kind, int64_t width, bool ordered) {
  CodeBuilder &builder = kernel.builder;
  int64_t count = ordered ? ALTGRAD_LANES : width;
  Value memory =
      LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getI32Type(), kernel.i64(count), /*alignment=*/64);
  return Lanes(kernel, kind, width, count, memory);
}

Value Lanes::at(Value index) const {
  index = kernel->builder.bitAnd(index, kernel->i64(count - 1));
  return kernel->offset(memory, index, laneBytes);
}

Value Lanes::neutralVector() const {
  CodeBuilder &builder = kernel->builder;
  return neutral(builder, kind, partialType(kind, VectorType::get({width}, builder.getF32Type())));
}

void Lanes::clear(int64_t from) const {
  for (int64_t i = from * width; i < count; i += width)
    kernel->store(neutralVector(), at(kernel->i64(i)), width * laneBytes);
}

SmallVector<Value> Lanes::loadVectors() const {
  Type type = partialType(kind, VectorType::get({width}, kernel->builder.getF32Type()));
  SmallVector<Value> sums;
  for (int64_t i = 0; i < count; i += width)
    sums.push_back(kernel->load(type, at(kernel->i64(i)), width * laneBytes));
  return sums;
}

// The tree 128, 64 … 1: in memory while a vector holds no more than half of what is left, then inside one vector.
Value Lanes::total() const {
  CodeBuilder &builder = kernel->builder;
  return combineLanes(builder, kind, combineElements(builder, kind, loadVectors()));
}

Value Lanes::totalOfNeighbours() const {
  CodeBuilder &builder = kernel->builder;
  SmallVector<Value> sums = loadVectors();
  auto combinePairs = [&](Value a, Value b, int64_t pairs) {
    Value even = shuffleStrided(builder, a, b, 0, pairs, 2), odd = shuffleStrided(builder, a, b, 1, pairs, 2);
    return combine(builder, kind, even, odd);
  };
  for (; sums.size() > 1; sums.truncate(sums.size() / 2))
    for (size_t i = 0; i < sums.size() / 2; ++i)
      sums[i] = combinePairs(sums[2 * i], sums[2 * i + 1], width);
  for (int64_t pairs = width / 2; pairs; pairs /= 2)
    sums[0] = combinePairs(sums[0], sums[0], pairs);
  return builder.element(sums[0], 0);
}

Value altgrad::combineLanes(CodeBuilder &builder, Reduction kind, Value sum) {
  int64_t width = cast<VectorType>(sum.getType()).getNumElements();
  for (int64_t half = width / 2; half; half /= 2) {
    Value low = shuffleStrided(builder, sum, sum, 0, half), high = shuffleStrided(builder, sum, sum, half, half);
    sum = combine(builder, kind, low, high);
  }
  return builder.element(sum, 0);
}

// LLVM makes an `and` a masked store, which AMD has in microcode.
Value altgrad::accumulateAnd(CodeBuilder &builder, Value before, Value value) {
  value = builder.extendSigned(before.getType(), value);
  return builder.maxSigned(before, value);
}

// Random bits on a GPU: a thread that does the eight neighbours of a call makes
// it once for them; where elements lie apart each has a call of its own.
#include "codegen/kernels/gpu/GpuLowering.h"
#include "codegen/numerics/Integers.h"
#include "codegen/numerics/Philox.h"

using namespace mlir;
using namespace altgrad;

// The four words of the call that serves the element with this global index.
SmallVector<Value> GpuLowering::call(Chunk &chunk, DrawOp draw, Value index) {
  Integers whole{builder, builder.getI64Type()};
  auto low = [&](Value value) -> Value {
    return arith::TruncIOp::create(builder, builder.getI32Type(), value);
  };
  SmallVector<Value> scalars =
      cloneValues(builder, *draw->getParentRegion(),
                  {draw.getSeed(), draw.getStep()}, {{}, chunk.known, {}});
  Value number = whole.right(index, llvm::Log2_64(drawsOfCall));
  // Two words in one. What LLVM knows to be the same in all rounds, twenty words
  // of the key's schedule, it would keep in registers throughout them.
  Value fixed = opaque(whole.either(
      whole.both(scalars[1], whole.constant(0xffffffff)),
      whole.left(philoxTag(builder, chunk.tag, draw.getStore()), 32)));
  PhiloxWords words =
      philox(builder,
             {low(number), low(whole.right(number, 32)), low(fixed),
              low(whole.right(fixed, 32))},
             opaque(scalars[0]));
  return SmallVector<Value>(words.begin(), words.end());
}

// Vectors may end within a word, and begin at one.
SmallVector<Value> GpuLowering::drawVector(KernelBuilder &kernel, Chunk &chunk,
                                           Region &body, Value at,
                                           int64_t element) {
  SmallVector<Value> drawn;
  int64_t width = chunk.sweep.getWidth();
  if (!chunk.tag)
    return drawn;
  if (chunk.width % drawsOfCall)
    return drawApart(chunk, body, indexOf(kernel, chunk, at, element), 1);
  int64_t within = element % drawsOfCall;
  if (chunk.drawnFrom != element - within) {
    chunk.drawnFrom = element - within;
    chunk.drawn.clear();
    for (DrawOp draw : body.getOps<DrawOp>())
      chunk.drawn.push_back(
          call(chunk, draw, indexOf(kernel, chunk, at, chunk.drawnFrom)));
  }
  for (auto [draw, words] : llvm::zip(body.getOps<DrawOp>(), chunk.drawn)) {
    auto all = vector::FromElementsOp::create(
        builder, VectorType::get({int64_t(words.size())}, words[0].getType()),
        words);
    drawn.push_back(
        slice(all, cast<VectorType>(draw.getType()), within / width));
  }
  return drawn;
}

SmallVector<Value> GpuLowering::drawApart(Chunk &chunk, Region &body,
                                          Value index, int64_t apart) {
  SmallVector<Value> drawn;
  Integers whole{builder, builder.getI64Type()};
  Integers bits{builder, builder.getI32Type()};
  auto one = [&](DrawOp draw, Value index) -> Value {
    SmallVector<Value> words = call(chunk, draw, index);
    auto has = [&](unsigned bit) -> Value {
      return arith::CmpIOp::create(builder, arith::CmpIPredicate::ne,
                                   whole.both(index, whole.constant(1u << bit)),
                                   whole.constant(0));
    };
    Value odd = has(0), second = has(1), upper = has(2);
    Value word = bits.choose(upper, bits.choose(second, words[3], words[2]),
                             bits.choose(second, words[1], words[0]));
    word = bits.choose(odd, bits.right(word, 16), word);
    return arith::TruncIOp::create(builder, builder.getI16Type(), word);
  };
  for (DrawOp draw : body.getOps<DrawOp>()) {
    auto vector = dyn_cast<VectorType>(draw.getType());
    if (!vector) {
      drawn.push_back(one(draw, index));
      continue;
    }
    SmallVector<Value> elements;
    for (int64_t i = 0; i < vector.getNumElements(); ++i)
      elements.push_back(
          one(draw, whole.add(index, whole.constant(i * apart))));
    drawn.push_back(vector::FromElementsOp::create(builder, vector, elements));
  }
  return drawn;
}

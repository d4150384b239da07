// Random bits on a GPU: a thread that does the eight neighbours of a call makes
// it once for them; where elements lie apart each has a call of its own.
#include "codegen/kernels/gpu/GpuLowering.h"
#include "codegen/numerics/Integers.h"
#include "codegen/numerics/Philox.h"

using namespace mlir;
using namespace altgrad;

static constexpr unsigned wordBytes = 4, fixedBytes = 8;

// The four words of the call that serves the element with this global index.
SmallVector<Value> GpuLowering::call(Chunk &chunk, DrawOp draw, Value index) {
  Integers whole{builder, builder.getI64Type()};
  auto low = [&](Value value) -> Value {
    return arith::TruncIOp::create(builder, builder.getI32Type(), value);
  };
  auto [key, fixed] = fixedOf(chunk, draw);
  Value number = whole.right(index, llvm::Log2_64(drawsOfCall));
  PhiloxWords words = philox(builder,
                             {low(number), low(whole.right(number, 32)),
                              low(fixed), low(whole.right(fixed, 32))},
                             key);
  return SmallVector<Value>(words.begin(), words.end());
}

// The key, and two words of the counter in one. What LLVM knows to be the same
// in all rounds, twenty words of the key's schedule, it would keep in registers
// throughout them.
std::pair<Value, Value> GpuLowering::fixedOf(Chunk &chunk, DrawOp draw) {
  Integers whole{builder, builder.getI64Type()};
  if (chunk.fixed) {
    auto draws = draw->getParentRegion()->getOps<DrawOp>();
    unsigned number = std::distance(draws.begin(), llvm::find(draws, draw));
    return {fixedAt(chunk, 1), fixedAt(chunk, 2 + number)};
  }
  SmallVector<Value> scalars =
      cloneValues(builder, *draw->getParentRegion(),
                  {draw.getSeed(), draw.getStep()}, {{}, chunk.known, {}});
  Value fixed = whole.either(
      whole.both(scalars[1], whole.constant(0xffffffff)),
      whole.left(philoxTag(builder, chunk.tag, draw.getStore()), 32));
  return {opaque(scalars[0]), opaque(fixed)};
}

Value GpuLowering::fixedAt(Chunk &chunk, unsigned entry) {
  auto pointer = LLVM::GEPOp::create(
      builder, chunk.fixed.getType(), builder.getI8Type(), chunk.fixed,
      ArrayRef<LLVM::GEPArg>{
          int32_t(entry * ThreadMemory::stride(fixedBytes))});
  return LLVM::LoadOp::create(builder, builder.getI64Type(), pointer,
                              fixedBytes, /*isVolatile=*/true);
}

// Registers are for the elements: what was drawn waits in shared memory, and so
// does what all of a chunk's calls have in common.
void GpuLowering::allocateDraws(KernelBuilder &kernel, Chunk &chunk,
                                ThreadMemory &memory) {
  auto draws = chunk.sweep.getBody().getOps<DrawOp>();
  unsigned count = llvm::range_size(draws), words = count * wordsOfCall;
  if (!count)
    return;
  if (memory.room(wordBytes) >= words)
    chunk.waiting = memory.allocate("draws", words, wordBytes);
  bool sameKey = llvm::all_of(draws, [&](DrawOp draw) {
    return draw.getSeed() == (*draws.begin()).getSeed();
  });
  if (!sameKey || memory.room(fixedBytes) < 2 + count)
    return;
  SmallVector<Value> fixed{chunk.end, Value()};
  for (DrawOp draw : draws) {
    auto [key, both] = fixedOf(chunk, draw);
    fixed[1] = key;
    fixed.push_back(both);
  }
  chunk.fixed = memory.allocate("counters", fixed.size(), fixedBytes);
  for (auto [i, value] : llvm::enumerate(fixed))
    kernel.store(value,
                 kernel.offset(chunk.fixed, kernel.i64(i),
                               ThreadMemory::stride(fixedBytes)),
                 fixedBytes);
}

// A word of a thread's own, among those of a draw.
Value GpuLowering::drawnWord(KernelBuilder &kernel, Chunk &chunk, unsigned draw,
                             int64_t word) {
  return kernel.offset(chunk.waiting, kernel.i64(draw * wordsOfCall + word),
                       ThreadMemory::stride(wordBytes));
}

// What the body draws for a vector, whose words are from `first` on.
SmallVector<Value> GpuLowering::takeDraws(KernelBuilder &kernel, Chunk &chunk,
                                          Region &body, int64_t first) {
  SmallVector<Value> drawn;
  int64_t count = chunk.sweep.getWidth() / drawsOfWord;
  Type word = builder.getI32Type();
  for (auto [number, draw] : llvm::enumerate(body.getOps<DrawOp>())) {
    SmallVector<Value> words;
    for (int64_t i = first; i < first + count; ++i)
      words.push_back(chunk.waiting ? LLVM::LoadOp::create(
                                          builder, word,
                                          drawnWord(kernel, chunk, number, i),
                                          wordBytes, /*isVolatile=*/true)
                                    : chunk.drawn[number * wordsOfCall + i]);
    auto all = vector::FromElementsOp::create(
        builder, VectorType::get({count}, word), words);
    drawn.push_back(vector::BitCastOp::create(
        builder, cast<VectorType>(draw.getType()), all));
  }
  return drawn;
}

void GpuLowering::keepDraw(KernelBuilder &kernel, Chunk &chunk, unsigned draw,
                           int64_t first, ArrayRef<Value> words) {
  chunk.drawn.resize(
      std::max<size_t>(chunk.drawn.size(), (draw + 1) * wordsOfCall));
  for (auto [i, word] : llvm::enumerate(words))
    if (chunk.waiting)
      kernel.store(word, drawnWord(kernel, chunk, draw, first + i), wordBytes);
    else
      chunk.drawn[draw * wordsOfCall + first + i] = word;
}

SmallVector<Value> GpuLowering::drawVector(KernelBuilder &kernel, Chunk &chunk,
                                           Region &body, Value at,
                                           int64_t element) {
  if (!chunk.tag)
    return {};
  if (chunk.width % drawsOfCall)
    return drawApart(chunk, body, indexOf(kernel, chunk, at, element), 1);
  int64_t within = element % drawsOfCall;
  if (chunk.drawnFrom != element - within) {
    chunk.drawnFrom = element - within;
    for (auto [number, draw] : llvm::enumerate(body.getOps<DrawOp>()))
      keepDraw(kernel, chunk, number, 0,
               call(chunk, draw, indexOf(kernel, chunk, at, chunk.drawnFrom)));
  }
  return takeDraws(kernel, chunk, body, within / drawsOfWord);
}

// Those of `vectors` vectors of elements that lie apart, before anything is
// loaded for them.
void GpuLowering::drawAhead(KernelBuilder &kernel, Chunk &chunk, Region &body,
                            ArrayRef<Value> indices) {
  int64_t words = chunk.sweep.getWidth() / drawsOfWord;
  for (auto [i, index] : llvm::enumerate(indices))
    for (auto [number, drawn] :
         llvm::enumerate(drawApart(chunk, body, index, chunk.threads)))
      keepDraw(
          kernel, chunk, number, i * words,
          elementsOf(vector::BitCastOp::create(
              builder, VectorType::get({words}, builder.getI32Type()), drawn)));
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

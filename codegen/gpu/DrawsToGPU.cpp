// Random bits on a GPU: a thread that does eight neighbours makes the call, or two of
// 32 bits each, once for them; where elements lie apart each has a call of its own.
#include "codegen/gpu/GpuLowering.h"
#include "dialect/builders/Integers.h"

using namespace mlir;
using namespace altgrad;

static int64_t drawnBits(DrawOp draw) { return getElementTypeOrSelf(draw.getType()).getIntOrFloatBitWidth(); }

static int64_t drawsOfCall(DrawOp draw) { return 8 * bytesOfCall / drawnBits(draw); }

// The four words of the call that serves the element with this global index.
SmallVector<Value> GpuLowering::call(Chunk &chunk, DrawOp draw, Value index) {
  Integers whole{builder, builder.getI64Type()};
  auto low = [&](Value value) -> Value { return builder.truncate(builder.getI32Type(), value); };
  auto [key, fixed] = getFixed(chunk, draw);
  Value number = whole.shiftRight(index, llvm::Log2_64(drawsOfCall(draw)));
  PhiloxWords words =
      philox(builder, {low(number), low(whole.shiftRight(number, 32)), low(fixed), low(whole.shiftRight(fixed, 32))}, key);
  return SmallVector<Value>(words.begin(), words.end());
}

// The key, and two words of the counter in one. What LLVM knows to be the same in all rounds, twenty words of the key's
// schedule, it would keep in registers throughout them.
std::pair<Value, Value> GpuLowering::getFixed(Chunk &chunk, DrawOp draw) {
  Integers whole{builder, builder.getI64Type()};
  if (chunk.fixed) {
    auto draws = draw->getParentRegion()->getOps<DrawOp>();
    unsigned number = std::distance(draws.begin(), llvm::find(draws, draw));
    return {fixedAt(chunk, 1), fixedAt(chunk, 2 + number)};
  }
  SmallVector<Value> scalars =
      cloneValues(builder, *draw->getParentRegion(), {draw.getSeed(), draw.getStep()}, {{}, chunk.known, {}});
  Value fixed = whole.bitOr(whole.bitAnd(scalars[1], whole.constant(0xffffffff)),
                             whole.shiftLeft(philoxTag(builder, chunk.tag, draw.getStore()), 32));
  return {launderPointer(scalars[0]), launderPointer(fixed)};
}

Value GpuLowering::fixedAt(Chunk &chunk, unsigned entry) {
  auto pointer = LLVM::GEPOp::create(builder, chunk.fixed.getType(), builder.getI8Type(), chunk.fixed,
                                     ArrayRef<LLVM::GEPArg>{int32_t(entry * getStride(counterBytes))});
  return LLVM::LoadOp::create(builder, builder.getI64Type(), pointer, counterBytes, /*isVolatile=*/true);
}

void GpuLowering::allocateDraws(Chunk &chunk) {
  auto draws = chunk.sweep.getBody().getOps<DrawOp>();
  chunk.waiting = shared->ofThread("draws", sharedWordBytes);
  if (!shared->entries("counters", counterBytes))
    return;
  SmallVector<Value> fixed{chunk.end, Value()};
  for (DrawOp draw : draws) {
    auto [key, both] = getFixed(chunk, draw);
    fixed[1] = key;
    fixed.push_back(both);
  }
  chunk.fixed = shared->ofThread("counters", counterBytes);
  for (auto [i, value] : llvm::enumerate(fixed))
    kernel.store(value, kernel.offset(chunk.fixed, kernel.i64(i), getStride(counterBytes)), counterBytes);
}

// A word of a thread's own.
Value GpuLowering::drawnWord(Chunk &chunk, int64_t word) {
  return kernel.offset(chunk.waiting, kernel.i64(word), getStride(sharedWordBytes));
}

// What the body draws for a vector whose elements are from `first` on.
SmallVector<Value> GpuLowering::takeDraws(Chunk &chunk, Region &body, int64_t first) {
  SmallVector<Value> drawn;
  Type word = builder.getI32Type();
  for (DrawOp draw : body.getOps<DrawOp>()) {
    int64_t count = wordsOfDraw(draw, chunk.sweep.getWidth());
    int64_t from = wordsOfDraws(body, draw) + wordsOfDraw(draw, first);
    SmallVector<Value> words;
    for (int64_t i = from; i < from + count; ++i)
      words.push_back(
          chunk.waiting ? LLVM::LoadOp::create(builder, word, drawnWord(chunk, i), sharedWordBytes, /*isVolatile=*/true)
                        : chunk.drawn[i]);
    auto all = builder.fromElements(VectorType::get({count}, word), words);
    drawn.push_back(vector::BitCastOp::create(builder, cast<VectorType>(draw.getType()), all));
  }
  return drawn;
}

void GpuLowering::keepDraw(Chunk &chunk, int64_t first, ArrayRef<Value> words) {
  chunk.drawn.resize(std::max<size_t>(chunk.drawn.size(), first + words.size()));
  for (auto [i, word] : llvm::enumerate(words))
    if (chunk.waiting)
      kernel.store(word, drawnWord(chunk, first + i), sharedWordBytes);
    else
      chunk.drawn[first + i] = word;
}

SmallVector<Value> GpuLowering::drawVector(Chunk &chunk, Region &body, Value at, int64_t element) {
  if (!chunk.tag)
    return {};
  if (chunk.width % drawnTogether)
    return drawApart(chunk, body, getIndex(chunk, at, element), 1);
  int64_t within = element % drawnTogether;
  if (chunk.drawnFrom == element - within)
    return takeDraws(chunk, body, within);
  chunk.drawnFrom = element - within;
  for (DrawOp draw : body.getOps<DrawOp>())
    for (int64_t i = 0; i < drawnTogether; i += drawsOfCall(draw))
      keepDraw(chunk, wordsOfDraws(body, draw) + wordsOfDraw(draw, i),
               call(chunk, draw, getIndex(chunk, at, chunk.drawnFrom + i)));
  return takeDraws(chunk, body, within);
}

// Those of `vectors` vectors of elements that lie apart, before anything is loaded for them.
void GpuLowering::drawAhead(Chunk &chunk, Region &body, ArrayRef<Value> indices) {
  int64_t width = chunk.sweep.getWidth();
  for (auto [i, index] : llvm::enumerate(indices))
    for (auto [draw, drawn] : llvm::zip(body.getOps<DrawOp>(), drawApart(chunk, body, index, chunk.threads)))
      keepDraw(chunk, wordsOfDraws(body, draw) + wordsOfDraw(draw, i * width),
               splitVector(vector::BitCastOp::create(
                   builder, VectorType::get({wordsOfDraw(draw, width)}, builder.getI32Type()), drawn)));
}

SmallVector<Value> GpuLowering::drawApart(Chunk &chunk, Region &body, Value index, int64_t apart) {
  SmallVector<Value> drawn;
  Integers whole{builder, builder.getI64Type()};
  Integers bits{builder, builder.getI32Type()};
  auto one = [&](DrawOp draw, Value index) -> Value {
    SmallVector<Value> words = call(chunk, draw, index);
    auto has = [&](unsigned bit) -> Value {
      return builder.notEqual(whole.bitAnd(index, whole.constant(1u << bit)), whole.constant(0));
    };
    if (drawnBits(draw) == 32) {
      Value odd = has(0);
      return bits.select(has(1), bits.select(odd, words[3], words[2]), bits.select(odd, words[1], words[0]));
    }
    Value odd = has(0), second = has(1), upper = has(2);
    Value word = bits.select(upper, bits.select(second, words[3], words[2]), bits.select(second, words[1], words[0]));
    word = bits.select(odd, bits.shiftRight(word, 16), word);
    return builder.truncate(builder.getI16Type(), word);
  };
  for (DrawOp draw : body.getOps<DrawOp>()) {
    auto vector = dyn_cast<VectorType>(draw.getType());
    if (!vector) {
      drawn.push_back(one(draw, index));
      continue;
    }
    SmallVector<Value> elements;
    for (int64_t i = 0; i < vector.getNumElements(); ++i)
      elements.push_back(one(draw, whole.add(index, whole.constant(i * apart))));
    drawn.push_back(builder.fromElements(vector, elements));
  }
  return drawn;
}

// Random bits on a GPU: a thread that does eight neighbours makes the call, or two of
// 32 bits each, once for them; where elements lie apart each has a call of its own.
#include "codegen/gpu/Chunk.h"
#include "dialect/builders/Integers.h"

using namespace mlir;
using namespace altgrad;

static int64_t getDrawBits(DrawOp draw) { return getElementTypeOrSelf(draw.getType()).getIntOrFloatBitWidth(); }

static int64_t getDrawsPerCall(DrawOp draw) { return 8 * bytesPerCall / getDrawBits(draw); }

Value DrawSource::getIndex(Value at, int64_t further) {
  if (!end)
    return {};
  Value back = builder.extendSigned(builder.getI64Type(), at);
  Value from = fixedSlots ? loadFixed(0) : end;
  return builder.add(builder.add(from, back), kernel.i64(further));
}

// The four words of the call that serves the element with this global index.
SmallVector<Value> DrawSource::callPhilox(DrawOp draw, Value index) {
  Integers whole{builder, builder.getI64Type()};
  auto low = [&](Value value) -> Value { return builder.truncate(builder.getI32Type(), value); };
  auto [key, fixed] = getFixed(draw);
  Value number = whole.shiftRight(index, llvm::Log2_64(getDrawsPerCall(draw)));
  PhiloxWords words = philox(
      builder, {low(number), low(whole.shiftRight(number, 32)), low(fixed), low(whole.shiftRight(fixed, 32))}, key);
  return SmallVector<Value>(words.begin(), words.end());
}

// The key, and two words of the counter in one. What LLVM knows to be the same in all rounds, twenty words of the key's
// schedule, it would keep in registers throughout them.
std::pair<Value, Value> DrawSource::getFixed(DrawOp draw) {
  Integers whole{builder, builder.getI64Type()};
  if (fixedSlots) {
    auto draws = draw->getParentRegion()->getOps<DrawOp>();
    unsigned number = std::distance(draws.begin(), llvm::find(draws, draw));
    return {loadFixed(1), loadFixed(2 + number)};
  }
  SmallVector<Value> scalars =
      cloneValues(builder, *draw->getParentRegion(), {draw.getSeed(), draw.getStep()}, {{}, known, {}});
  Value fixed = whole.bitOr(whole.bitAnd(scalars[1], whole.constant(0xffffffff)),
                            whole.shiftLeft(philoxTag(builder, tag, draw.getStore()), 32));
  return {launderPointer(builder, scalars[0]), launderPointer(builder, fixed)};
}

Value DrawSource::loadFixed(unsigned entry) {
  auto pointer = LLVM::GEPOp::create(builder, fixedSlots.getType(), builder.getI8Type(), fixedSlots,
                                     ArrayRef<LLVM::GEPArg>{int32_t(entry * getStride(counterBytes))});
  return LLVM::LoadOp::create(builder, builder.getI64Type(), pointer, counterBytes, /*isVolatile=*/true);
}

void DrawSource::allocate() {
  auto draws = sweep.getBody().getOps<DrawOp>();
  waiting = gpu.shared.getThreadEntry("draws", sharedWordBytes);
  if (!gpu.shared.entries("counters", counterBytes))
    return;
  SmallVector<Value> fixed{end, Value()};
  for (DrawOp draw : draws) {
    auto [key, counter] = getFixed(draw);
    fixed[1] = key;
    fixed.push_back(counter);
  }
  fixedSlots = gpu.shared.getThreadEntry("counters", counterBytes);
  for (auto [i, value] : llvm::enumerate(fixed))
    kernel.store(value, kernel.offset(fixedSlots, kernel.i64(i), getStride(counterBytes)), counterBytes);
}

// A word of a thread's own.
Value DrawSource::slot(int64_t word) { return kernel.offset(waiting, kernel.i64(word), getStride(sharedWordBytes)); }

SmallVector<Value> DrawSource::getDraws(Region &body, int64_t first) {
  SmallVector<Value> drawn;
  Type word = builder.getI32Type();
  for (DrawOp draw : body.getOps<DrawOp>()) {
    int64_t count = countDrawWords(draw, sweep.getWidth());
    int64_t from = countAllDrawWords(body, draw) + countDrawWords(draw, first);
    SmallVector<Value> words;
    for (int64_t i = from; i < from + count; ++i)
      words.push_back(waiting ? LLVM::LoadOp::create(builder, word, slot(i), sharedWordBytes, /*isVolatile=*/true)
                              : drawnWords[i]);
    auto all = builder.fromElements(VectorType::get({count}, word), words);
    drawn.push_back(vector::BitCastOp::create(builder, cast<VectorType>(draw.getType()), all));
  }
  return drawn;
}

void DrawSource::storeWords(int64_t first, ArrayRef<Value> words) {
  drawnWords.resize(std::max<size_t>(drawnWords.size(), first + words.size()));
  for (auto [i, word] : llvm::enumerate(words))
    if (waiting)
      kernel.store(word, slot(first + i), sharedWordBytes);
    else
      drawnWords[first + i] = word;
}

SmallVector<Value> DrawSource::drawVector(Region &body, Value at, int64_t element) {
  if (!tag)
    return {};
  if (width % drawGroup)
    return drawStrided(body, getIndex(at, element), 1);
  int64_t within = element % drawGroup;
  if (drawnFrom == element - within)
    return getDraws(body, within);
  drawnFrom = element - within;
  for (DrawOp draw : body.getOps<DrawOp>())
    for (int64_t i = 0; i < drawGroup; i += getDrawsPerCall(draw))
      storeWords(countAllDrawWords(body, draw) + countDrawWords(draw, i),
                 callPhilox(draw, getIndex(at, drawnFrom + i)));
  return getDraws(body, within);
}

void DrawSource::drawAhead(Region &body, ArrayRef<Value> indices) {
  int64_t width = sweep.getWidth();
  for (auto [i, index] : llvm::enumerate(indices))
    for (auto [draw, drawn] : llvm::zip(body.getOps<DrawOp>(), drawStrided(body, index, threads)))
      storeWords(countAllDrawWords(body, draw) + countDrawWords(draw, i * width),
                 splitVector(builder, vector::BitCastOp::create(
                                          builder, VectorType::get({countDrawWords(draw, width)}, builder.getI32Type()),
                                          drawn)));
}

// The bits of one element: as many of a word of its call.
Value DrawSource::drawOne(DrawOp draw, Value index) {
  Integers whole{builder, builder.getI64Type()};
  Integers bits{builder, builder.getI32Type()};
  SmallVector<Value> words = callPhilox(draw, index);
  auto has = [&](unsigned bit) -> Value {
    return builder.notEqual(whole.bitAnd(index, whole.constant(1u << bit)), whole.constant(0));
  };
  if (getDrawBits(draw) == 32) {
    Value odd = has(0);
    return bits.select(has(1), bits.select(odd, words[3], words[2]), bits.select(odd, words[1], words[0]));
  }
  Value odd = has(0), second = has(1), upper = has(2);
  Value word = bits.select(upper, bits.select(second, words[3], words[2]), bits.select(second, words[1], words[0]));
  word = bits.select(odd, bits.shiftRight(word, 16), word);
  return builder.truncate(builder.getI16Type(), word);
}

SmallVector<Value> DrawSource::drawStrided(Region &body, Value index, int64_t stride) {
  SmallVector<Value> drawn;
  Integers whole{builder, builder.getI64Type()};
  for (DrawOp draw : body.getOps<DrawOp>()) {
    auto vector = dyn_cast<VectorType>(draw.getType());
    if (!vector) {
      drawn.push_back(drawOne(draw, index));
      continue;
    }
    SmallVector<Value> elements;
    for (int64_t i = 0; i < vector.getNumElements(); ++i)
      elements.push_back(drawOne(draw, whole.add(index, whole.constant(i * stride))));
    drawn.push_back(builder.fromElements(vector, elements));
  }
  return drawn;
}

// Percentiles of the last numbers of a history, and what joins it (bundle.h).
#include "codegen/common/Scalars.h"

using namespace mlir;
using namespace altgrad;

constexpr int64_t numbers = ALTGRAD_HISTORY - 1;
constexpr int32_t infinityBits = 0x7F800000;

static Value compare(CodeBuilder &b, arith::CmpFPredicate how, Value x, float y) {
  return b.compareF(how, x, b.f32(y));
}

// The whole part of a number from 0 on and below that of places; 0 of all others.
static Value toIndex(CodeBuilder &b, Value number, Type type) {
  Value some = compare(b, arith::CmpFPredicate::OGE, number, 0);
  Value within = compare(b, arith::CmpFPredicate::OLT, number, numbers);
  number = b.select(b.bitAnd(some, within), number, b.f32(0));
  return arith::FPToSIOp::create(b, type, number);
}

// Where the next number goes; whatever lies there, it is one of the places.
static Value getNextSlot(KernelBuilder &kernel, Value history) {
  CodeBuilder &b = kernel.builder;
  Value slot = kernel.load(b.getF32Type(), history, sizeof(float));
  return toIndex(b, slot, b.getI64Type());
}

static Value getSlotPointer(KernelBuilder &kernel, Value history, Value slot) {
  return kernel.offset(history, kernel.builder.add(slot, kernel.i64(1)), sizeof(float));
}

// Bits of numbers that are not negative are in their order, and those of all others beyond the infinity's.
static Value isNumber(CodeBuilder &b, Value bits) {
  return b.lessUnsigned(bits, b.integer(b.getI32Type(), infinityBits));
}

// The largest bits below which no more numbers lie than the rank says, found
// bit by bit: a count of all numbers for each, instead of sorting.
Value ScalarLowering::percentile(PercentileOp op) {
  CodeBuilder &b = kernel.builder;
  Type i32 = b.getI32Type();
  Value history = getPointer(op.getHistory());
  Value newest = b.cast(i32, known.lookup(op.getNewest()));
  Value replaced = b.select(isNumber(b, newest), getNextSlot(kernel, history), kernel.i64(-1));
  auto countBelow = [&](Value limit) -> Value {
    return kernel.loopWith(kernel.i64(0), kernel.i64(numbers), kernel.i64(1), kernel.i32(0),
                           [&](Value slot, SmallVector<Value> count) -> SmallVector<Value> {
                             Value stored = kernel.load(i32, getSlotPointer(kernel, history, slot), sizeof(float));
                             Value isNewest = b.equal(slot, replaced);
                             Value bits = b.select(isNewest, newest, stored);
                             return {b.add(count[0], b.extendUnsigned(i32, b.lessUnsigned(bits, limit)))};
                           })[0];
  };
  Value count = countBelow(kernel.i32(infinityBits));
  Value last = b.sub(count, kernel.i32(1));
  Value share = b.mulF(known.lookup(op.getPercent()), arith::SIToFPOp::create(b, b.getF32Type(), count));
  share = b.divF(share, b.f32(numbers));
  Value index = toIndex(b, share, i32);
  // A percent of 100 and more asks for the last.
  index = b.select(compare(b, arith::CmpFPredicate::OGE, share, numbers), last, index);
  index = b.minSigned(index, last);
  Value found = kernel.loopWith(kernel.i64(0), kernel.i64(31), kernel.i64(1), kernel.i32(0),
                                [&](Value step, SmallVector<Value> bits) -> SmallVector<Value> {
                                  Value shift = b.truncate(i32, step);
                                  Value bit = b.shiftRight(kernel.i32(1 << 30), shift);
                                  Value more = b.bitOr(bits[0], bit);
                                  Value fits = b.lessEqual(countBelow(more), index);
                                  return {b.select(fits, more, bits[0])};
                                })[0];
  return b.cast(b.getF32Type(), found);
}

void ScalarLowering::appendToHistory(Value number, Value history) {
  CodeBuilder &b = kernel.builder;
  Value bits = b.cast(b.getI32Type(), number);
  kernel.when(isNumber(b, bits), [&] {
    Value slot = getNextSlot(kernel, history);
    kernel.store(number, getSlotPointer(kernel, history, slot), sizeof(float));
    Value next = b.add(slot, kernel.i64(1));
    Value full = b.equal(next, kernel.i64(numbers));
    next = b.select(full, kernel.i64(0), next);
    kernel.store(arith::SIToFPOp::create(b, b.getF32Type(), next), history, sizeof(float));
  });
}

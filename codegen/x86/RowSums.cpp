// A sweep that only sums: a row of 256 elements after the other, with as many
// of the sums in registers as there is room for.
#include "codegen/x86/RowSums.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t lineBytes = 64; // of a cache

bool RowSums::canLower(SweepOp sweep, const Target &target) {
  return sweep.getNumResults() && sweep.getStores().empty() && !isBlockwise(sweep) && !sweep.getFastPath() &&
         !usesDraws(sweep) && sweep.getBody().front().getOperations().size() <= target.cpu.rowOperations;
}

SmallVector<RowSums::RowSum> RowSums::assignRegisters(const HostChunk &chunk) {
  SmallVector<RowSum> carried;
  size_t first = 0, left = target.cpu.sumRegisters;
  for (const Lanes &one : chunk.lanes) {
    size_t vectors = one.count / target.vectorWidth;
    size_t registers = one.kind == Reduction::And ? 1 : target.cpu.chains;
    if (vectors > 1)
      registers = std::min(vectors, left);
    left -= std::min(left, registers);
    carried.push_back({one, vectors, first, registers});
    first += registers;
  }
  return carried;
}

// Once for each line of the row.
void RowSums::prefetchRow(const HostChunk &chunk, Value row) {
  if (chunk.loadPointers.size() == 1)
    return;
  for (auto [stream, pointer] : llvm::zip(sweep.getLoads(), chunk.loadPointers)) {
    Value at = getElementPointer(kernel, stream, pointer, row);
    for (int64_t i = 0; i < ALTGRAD_LANES * getBytes(stream); i += lineBytes)
      prefetchAhead(kernel, kernel.offset(at, kernel.i64(i), 1), elements.ahead);
  }
}

// A Zen 4 reads one stream from memory in three quarters of the time where each line is loaded three times.
void RowSums::touchTwice(const HostChunk &chunk, Value index, int64_t elements) {
  if (chunk.loadPointers.size() != 1)
    return;
  Value stream = sweep.getLoads()[0];
  if (elements * getBytes(stream) != lineBytes)
    return;
  Value at = getElementPointer(kernel, stream, chunk.loadPointers[0], index);
  for (int64_t offset : {32, 48})
    LLVM::LoadOp::create(builder, builder.getI32Type(), kernel.offset(at, kernel.i64(offset), 1), getBytes(stream),
                         /*isVolatile=*/true);
}

// Adds what a vector of the row emits to its sums.
void RowSums::addVector(SmallVector<Value> &sums, MutableArrayRef<RowSum> carried, size_t vector,
                        ArrayRef<Value> emitted) {
  for (auto [one, value] : llvm::zip(carried, emitted)) {
    Reduction kind = one.lanes.kind;
    if (kind == Reduction::And) {
      if (one.verdicts.size() < target.cpu.chains)
        one.verdicts.push_back(value);
      else
        one.verdicts[vector % target.cpu.chains] = builder.bitAnd(one.verdicts[vector % target.cpu.chains], value);
    } else if (!one.preservesOrder() || vector < one.registers) {
      Value &sum = sums[one.first + vector % one.registers];
      sum = accumulate(builder, kind, sum, value);
    } else {
      // Volatile: LLVM would make all of them registers, which there are not.
      unsigned bytes = target.vectorWidth * laneBytes;
      Value at = one.lanes.at(kernel.i64(vector * target.vectorWidth));
      Value sum = LLVM::LoadOp::create(builder, one.lanes.neutralVector().getType(), at, bytes, /*isVolatile=*/true);
      kernel.store(accumulate(builder, kind, sum, value), at, bytes);
    }
  }
}

// Adds what the vectors of a row emit.
void RowSums::addRow(HostChunk &chunk, Value row, SmallVector<Value> &sums, MutableArrayRef<RowSum> carried) {
  Region &body = sweep.getWide().front();
  int64_t width = sweep.getWidth();
  bool areEvenOdd = isAllBf16(sweep);
  prefetchRow(chunk, row);
  auto addLoaded = [&](int64_t at, ArrayRef<Value> loaded, Value index) {
    addVector(sums, carried, at / width,
              cloneSweepBody(builder, body, {loaded, chunk.known, index, areEvenOdd ? 2 : 1}));
  };
  int64_t count = areEvenOdd ? 2 * width : width; // of a load
  for (int64_t at = 0; at < ALTGRAD_LANES; at += count) {
    Value index = builder.add(row, kernel.i64(at));
    if (areEvenOdd) {
      SmallVector<Value> even, odd;
      for (auto [argument, pointer] : llvm::zip(body.getArguments(), chunk.loadPointers)) {
        auto [one, other] = loadEvenOdd(kernel, argument.getType(), kernel.offset(pointer, index, 2));
        even.push_back(one), odd.push_back(other);
      }
      addLoaded(at, even, elements.getIndex(chunk, index));
      Value next = builder.add(index, kernel.i64(1));
      addLoaded(at + width, odd, elements.getIndex(chunk, next));
    } else {
      addLoaded(at, elements.load(chunk, body, width, index, false), elements.getIndex(chunk, index));
    }
    touchTwice(chunk, index, count);
  }
  for (RowSum &one : carried) {
    if (one.verdicts.empty())
      continue;
    Value all = one.verdicts.pop_back_val();
    for (Value verdict : one.verdicts)
      all = builder.bitAnd(all, verdict);
    sums[one.first] = accumulateAnd(builder, sums[one.first], all);
  }
}

void RowSums::lower(HostChunk &chunk, Value end) {
  SmallVector<RowSum> carried = assignRegisters(chunk);
  SmallVector<Value> initial;
  for (const RowSum &one : carried) {
    initial.append(one.registers, one.lanes.neutralVector());
    one.lanes.clear(one.registers);
  }
  SmallVector<Value> sums =
      kernel.loopWith(kernel.i64(0), end, kernel.i64(ALTGRAD_LANES), initial, [&](Value row, SmallVector<Value> sums) {
        addRow(chunk, row, sums, carried);
        return sums;
      });
  for (const RowSum &one : carried)
    storeSums(one, ArrayRef<Value>(sums).slice(one.first, one.registers), isAllBf16(sweep));
}

// Puts what is in registers into the lanes' memory, halves in their order.
void RowSums::storeSums(const RowSum &one, ArrayRef<Value> registers, bool areEvenOdd) {
  int64_t width = target.vectorWidth;
  auto address = [&](size_t i) { return one.lanes.at(kernel.i64(i * width)); };
  if (!one.preservesOrder()) {
    Value sum = registers.front();
    for (Value other : registers.drop_front())
      sum = combine(builder, one.lanes.kind, sum, other);
    kernel.store(sum, address(0), width * laneBytes);
    return;
  }
  SmallVector<Value> sums(registers);
  if (areEvenOdd)
    for (size_t i = registers.size(); i < one.vectors; ++i)
      sums.push_back(kernel.load(one.lanes.neutralVector().getType(), address(i), width * laneBytes));
  SmallVector<int64_t> inTurn;
  for (int64_t i = 0; i < width; ++i)
    inTurn.append({i, i + width});
  for (size_t i = 0; i < sums.size(); ++i) {
    Value sum = sums[i];
    if (areEvenOdd)
      sum = vector::ShuffleOp::create(builder, sums[i & ~1], sums[i | 1],
                                      ArrayRef<int64_t>(inTurn).slice(i & 1 ? width : 0, width));
    kernel.store(sum, address(i), width * laneBytes);
  }
}

// The draws of a sweep on a host: a chunk's are made at once, vectors of calls at a time, and lie in memory in the
// order of the elements.
#include "codegen/numerics/Philox.h"
#include "codegen/x86/HostChunk.h"
#include "dialect/builders/Integers.h"

using namespace mlir;
using namespace altgrad;

// From the middle of a call's draws to the end of a vector of calls.
static int64_t stackBytes(SweepOp sweep, DrawOp draw) {
  return ALTGRAD_CHUNK * draw.getType().getIntOrFloatBitWidth() / 8 + (1 + sweep.getWidth()) * bytesPerCall;
}

LogicalResult altgrad::checkDraws(SweepOp sweep, const Target &target) {
  int64_t bytes = 0, draws = 0;
  Location loc = sweep.getLoc(); // of the last one: a word of a storage line
  for (DrawOp draw : sweep.getBody().getOps<DrawOp>()) {
    bytes += stackBytes(sweep, draw);
    loc = draw.getLoc();
    ++draws;
  }
  if (bytes <= target.cpu.drawBytes)
    return success();
  return emitError(loc) << "'altgrad.sweep' op makes " << draws << " draws for each element, which take "
                        << (bytes >> 10) << " KB of a thread's stack, at most " << (target.cpu.drawBytes >> 10)
                        << "; let fewer lists round stochastically, or take fewer random numbers";
}

HostDraws::HostDraws(const HostEmitter &emitter) : HostEmitter(emitter) {
  for (DrawOp draw : sweep.getBody().getOps<DrawOp>())
    drawn.push_back(LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getI8Type(),
                                           kernel.i64(stackBytes(sweep, draw)), 64));
}

SmallVector<Value> HostDraws::loadDraws(const HostChunk &chunk, Region &body, Value index) {
  SmallVector<Value> loaded;
  for (auto [draw, pointer] : llvm::zip(body.getOps<DrawOp>(), chunk.draws)) {
    unsigned bytes = getElementTypeOrSelf(draw.getType()).getIntOrFloatBitWidth() / 8;
    loaded.push_back(kernel.load(draw.getType(), kernel.offset(pointer, index, bytes), bytes));
  }
  return loaded;
}

void HostDraws::drawAll(HostChunk &chunk, Row row) {
  for (auto [draw, memory] : llvm::zip(sweep.getBody().getOps<DrawOp>(), drawn))
    chunk.draws.push_back(fill(draw, memory, chunk, row));
}

// Those of a chunk's elements; gives where the first one's is.
Value HostDraws::fill(DrawOp draw, Value memory, const HostChunk &chunk, Row row) {
  int64_t width = sweep.getWidth();
  Type i64 = builder.getI64Type();
  Integers one{builder, i64};
  Integers lanes{builder, VectorType::get({width}, i64)};
  auto splat = [&](Value value) -> Value { return builder.broadcast(lanes.type, value); };
  SmallVector<Value> scalars =
      cloneValues(builder, sweep.getBody(), {draw.getSeed(), draw.getStep()}, {{}, chunk.known, {}});
  Value step = splat(scalars[1]);
  Value tag = splat(philoxTag(builder, kernel.rowHeader(row, ALTGRAD_ROW_TAG), draw.getStore()));
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, width));
  Value number = builder.denseInts(lanes.type, numbers);
  SmallVector<int64_t> inTurn;
  for (int64_t i : numbers)
    inTurn.append({i, width + i});

  int64_t bits = draw.getType().getIntOrFloatBitWidth(), drawsPerCall = 8 * bytesPerCall / bits;
  Value call = one.shiftRight(chunk.base, llvm::Log2_64(drawsPerCall));
  Value lane = one.bitAnd(chunk.base, one.constant(drawsPerCall - 1));
  Value last = one.add(one.add(lane, chunk.count), one.constant(drawsPerCall - 1));
  Value calls = one.shiftRight(last, llvm::Log2_64(drawsPerCall));
  kernel.loop(kernel.i64(0), calls, kernel.i64(width), [&](Value from) {
    Value counter = lanes.add(splat(one.add(call, from)), number);
    PhiloxWords words = philox(builder, {counter, lanes.shiftRight(counter, 32), step, tag}, scalars[0]);
    auto pair = [&](Value low, Value high) {
      return lanes.bitOr(lanes.bitAnd(low, lanes.constant(0xffffffff)), lanes.shiftLeft(high, 32));
    };
    Value all = vector::ShuffleOp::create(builder, pair(words[0], words[1]), pair(words[2], words[3]), inTurn);
    kernel.store(all, kernel.offset(memory, from, bytesPerCall), 16);
  });
  return kernel.offset(memory, lane, bits / 8);
}

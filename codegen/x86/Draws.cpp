// The draws of a sweep on a host: a chunk's are made at once, vectors of calls at a time, and lie in memory in the
// order of the elements. From there on they are a stream like others.
#include "codegen/numerics/Integers.h"
#include "codegen/numerics/Philox.h"
#include "codegen/x86/HostLowering.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

// From the middle of a call's draws to the end of a vector of calls.
static int64_t stackBytes(SweepOp sweep, DrawOp draw) {
  return ALTGRAD_CHUNK * draw.getType().getIntOrFloatBitWidth() / 8 + (1 + sweep.getWidth()) * bytesOfCall;
}

LogicalResult altgrad::checkDraws(SweepOp sweep, const Target &target) {
  int64_t bytes = 0, draws = 0;
  Location place = sweep.getLoc(); // of the last one: a word of a storage line
  for (DrawOp draw : sweep.getBody().getOps<DrawOp>()) {
    bytes += stackBytes(sweep, draw);
    place = draw.getLoc();
    ++draws;
  }
  if (bytes <= target.cpu.drawBytes)
    return success();
  return emitError(place) << "'altgrad.sweep' op rounds " << draws << " values of an element by draws, which take "
                          << (bytes >> 10) << " KB of a thread's stack, at most " << (target.cpu.drawBytes >> 10)
                          << "; let fewer lists round stochastically";
}

// Each `draw` of the bodies ==> one more stream that they load.
void HostLowering::makeStreams(SweepOp sweep) {
  OpBuilder nowhere(builder.getContext()); // the streams are in no block
  for (DrawOp draw : llvm::to_vector(sweep.getBody().getOps<DrawOp>())) {
    int64_t bits = draw.getType().getIntOrFloatBitWidth();
    // As wide as these bits; nothing asks what its numbers are.
    auto type =
        TensorsType::get(builder.getContext(), FormatAttr::getNamed(builder.getContext(), bits == 16 ? "bf16" : "f32"));
    Value stream = SpillOp::create(nowhere, draw.getLoc(), type);
    Value memory = LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getI8Type(),
                                          kernel.i64(stackBytes(sweep, draw)), 64);
    drawn.push_back({stream, draw.getSeed(), draw.getStep(), int64_t(draw.getStore()), bits, memory});
  }
  unsigned first = sweep.getLoads().size();
  for (const Drawn &one : drawn)
    sweep.getLoadsMutable().append(one.stream);
  for (Region &body : sweep->getRegions())
    for (auto [i, draw] : llvm::enumerate(llvm::to_vector(body.getOps<DrawOp>()))) {
      draw.replaceAllUsesWith(body.insertArgument(first + i, draw.getType(), draw.getLoc()));
      draw.erase();
    }
}

void HostLowering::dropStreams(SweepOp sweep) {
  sweep.getLoadsMutable().erase(sweep.getLoads().size() - drawn.size(), drawn.size());
  for (const Drawn &one : drawn)
    one.stream.getDefiningOp()->erase();
  drawn.clear();
}

const HostLowering::Drawn *HostLowering::drawnAs(Value stream) {
  auto *it = llvm::find_if(drawn, [&](const Drawn &one) { return one.stream == stream; });
  return it == drawn.end() ? nullptr : it;
}

// Those of `count` elements from the global index `base` on; gives where the first one's is.
Value HostLowering::fill(const Drawn &of, HostChunk &chunk, Row row, Value base, Value count) {
  int64_t width = chunk.sweep.getWidth();
  Type i64 = builder.getI64Type();
  Integers one{builder, i64};
  Integers lanes{builder, VectorType::get({width}, i64)};
  auto spread = [&](Value value) -> Value { return builder.spread(lanes.type, value); };
  SmallVector<Value> scalars = cloneValues(builder, chunk.sweep.getBody(), {of.seed, of.step}, {{}, chunk.known, {}});
  Value step = spread(scalars[1]);
  Value tag = spread(philoxTag(builder, kernel.rowHeader(row, ALTGRAD_ROW_TAG), of.store));
  SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, width));
  Value number = builder.list(lanes.type, numbers);
  SmallVector<int64_t> inTurn;
  for (int64_t i : numbers)
    inTurn.append({i, width + i});

  int64_t drawsOfCall = 8 * bytesOfCall / of.bits;
  Value call = one.right(base, llvm::Log2_64(drawsOfCall));
  Value lane = one.both(base, one.constant(drawsOfCall - 1));
  Value calls = one.right(one.add(one.add(lane, count), one.constant(drawsOfCall - 1)), llvm::Log2_64(drawsOfCall));
  kernel.loop(kernel.i64(0), calls, kernel.i64(width), [&](Value from) {
    Value counter = lanes.add(spread(one.add(call, from)), number);
    PhiloxWords words = philox(builder, {counter, lanes.right(counter, 32), step, tag}, scalars[0]);
    auto pair = [&](Value low, Value high) {
      return lanes.either(lanes.both(low, lanes.constant(0xffffffff)), lanes.left(high, 32));
    };
    Value all = vector::ShuffleOp::create(builder, pair(words[0], words[1]), pair(words[2], words[3]), inTurn);
    kernel.store(all, kernel.offset(of.memory, from, bytesOfCall), 16);
  });
  return kernel.offset(of.memory, lane, of.bits / 8);
}

// Small phases on a GPU. A grid does such a phase, or the last block of the launch before it.
#include "codegen/gpu/SmallPhases.h"

using namespace mlir;
using namespace altgrad;

void SmallPhases::lower(PhaseOp phase, const WorkerRange &workers) {
  kernel.noUnroll = true;
  if (phase.count<FoldOp>())
    return FoldLowering(gpu, phase).lower(workers);
  if (phase.getDomain() == Domain::Once) {
    Value first = builder.equal(workers.block, kernel.i64(0));
    return kernel.when(first, [&] { lowerOnce(phase); });
  }
  auto getThreads = [&](Value count) -> Value { return builder.mul(count, kernel.i64(ALTGRAD_BLOCK_THREADS)); };
  Value thread = builder.add(getThreads(workers.block), gpu.inBlock);
  kernel.loop(builder.add(workers.begin, thread), workers.end, getThreads(workers.blocks),
              [&](Value index) { ScalarLowering(kernel, kernel.row(index)).lower(phase); });
}

//===-- Once ----------------------------------------------------------------===//

// All threads of the block load, the first adds, rows in order. Words behind the last row are neutral.
Value SmallPhases::total(TotalOp op) {
  constexpr int64_t unroll = 16, width = 4;
  Reduction kind = op.getReduction();
  Type type = partialType(kind, op.getValue().getType());
  Value none = neutral(builder, kind, type);
  std::pair<Value, Value> range = kernel.getRows(op.getSet());
  Value to = range.second;
  Value first = builder.equal(gpu.inBlock, kernel.i64(0));
  auto added = [&](Value at, SmallVector<Value> sum) {
    SmallVector<Value> four;
    for (int64_t i = 0; i < unroll; i += width)
      four.push_back(kernel.load(VectorType::get({width}, type), gpu.sharedWord(builder.add(at, kernel.i64(i))),
                                 width * sharedWordBytes));
    for (Value some : four)
      for (Value word : splitVector(builder, some))
        sum[0] = combine(builder, kind, sum[0], word);
    return sum;
  };
  Value sum = kernel.loopWith(
      range.first, to, kernel.i64(ALTGRAD_BLOCK_THREADS), none, [&](Value base, SmallVector<Value> sum) {
        Value index = builder.add(base, gpu.inBlock);
        Value last = builder.sub(to, kernel.i64(1));
        Row row{builder.minSigned(index, last), {}};
        Value own = kernel.load(type, kernel.word(Space::Row, op.getWord(), row), sharedWordBytes);
        Value inside = builder.less(index, to);
        if (op.getTensors())
          inside = builder.bitAnd(inside, kernel.isFirstRow(kernel.row(row.index)));
        own = builder.select(inside, own, none);
        gpu.barrier(); // nobody still reads what was there
        kernel.store(own, gpu.sharedWord(gpu.inBlock), sharedWordBytes);
        gpu.barrier();
        Value rows = builder.minSigned(builder.sub(to, base), kernel.i64(ALTGRAD_BLOCK_THREADS));
        rows = builder.select(first, rows, kernel.i64(0));
        return kernel.loopWith(kernel.i64(0), rows, kernel.i64(unroll), sum, added);
      })[0];
  return getTotal(builder, kind, sum);
}

void SmallPhases::lowerOnce(PhaseOp phase) {
  ScalarLowering scalars(kernel, Row{});
  for (auto op : phase.getBody().getOps<TotalOp>())
    scalars.known.map(op.getValue(), total(op));
  Value first = builder.equal(gpu.inBlock, kernel.i64(0));
  kernel.when(first, [&] { scalars.lower(phase); });
}

//===-- The block of a launch that ends last ----------------------------------===//

// Whether this block is the last of its grid to come here. Then it sees what
// all others have done. The count is 0 again.
Value SmallPhases::isLastBlock() {
  Type i32 = builder.getI32Type();
  Value word = gpu.sharedWord(kernel.i64(blockWord));
  gpu.barrier();
  Value first = builder.equal(gpu.inBlock, kernel.i64(0));
  kernel.when(first, [&] {
    auto fence = [&] { LLVM::FenceOp::create(builder, LLVM::AtomicOrdering::acq_rel, "device"); };
    Value most = builder.sub(builder.truncate(i32, gpu.blocks), kernel.i32(1));
    fence();
    Value before = LLVM::AtomicRMWOp::create(builder, LLVM::AtomicBinOp::uinc_wrap, kernel.member(Member::Finished),
                                             most, LLVM::AtomicOrdering::monotonic, "device");
    fence();
    Value last = builder.equal(before, most);
    kernel.store(builder.extendUnsigned(i32, last), word, sharedWordBytes);
  });
  gpu.barrier();
  return builder.notEqual(kernel.load(i32, word, sharedWordBytes), kernel.i32(0));
}

void SmallPhases::lowerEpilogue(ArrayRef<PhaseOp> phases) {
  Value count = LLVM::PtrToIntOp::create(builder, builder.getI64Type(), kernel.member(Member::Finished));
  Value asked = builder.notEqual(count, kernel.i64(0));
  kernel.when(asked, [&] {
    gpu.rereadThread();
    gpu.blocks = rereadRegister(builder, "nctaid.x");
    kernel.when(isLastBlock(), [&] {
      for (PhaseOp phase : phases) {
        auto [from, to] = kernel.getRows(PhaseOp(phase).getSet());
        lower(phase, {kernel.i64(0), kernel.i64(1), from, to});
        if (phase == phases.back())
          break;
        gpu.barrier();
        gpu.rereadThread();
      }
    });
  });
}

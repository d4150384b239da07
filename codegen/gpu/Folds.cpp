// Folds on a GPU: a tensor's partial sums in the shape of a chunk's elements.
#include "codegen/gpu/SmallPhases.h"

using namespace mlir;
using namespace altgrad;

Value FoldLowering::getPartialPointer(const Fold &fold, Value index) {
  return kernel.partial(fold.op, fold.row, builder.add(fold.first, index));
}

// A partial sum that exists, for every index.
Value FoldLowering::loadPartial(const Fold &fold, Value index) {
  Value last = builder.sub(fold.count, kernel.i64(1));
  index = builder.minSigned(index, last);
  return kernel.load(fold.type, getPartialPointer(fold, index), sharedWordBytes);
}

Value FoldLowering::selectOrNeutral(const Fold &fold, Value inside, Value partial) {
  return builder.select(inside, partial, neutral(builder, fold.kind, fold.type));
}

// One thread: the lanes beyond are neutral, and the tree begins at the fourth.
Value FoldLowering::foldByThread(const Fold &fold) {
  Value some = builder.greater(fold.count, kernel.i64(0));
  Value none = neutral(builder, fold.kind, fold.type);
  auto sum = [&] {
    SmallVector<Value> lanes, inside;
    for (int64_t i = 0; i < target.gpu.fewChunks; ++i) {
      inside.push_back(builder.greater(fold.count, kernel.i64(i)));
      lanes.push_back(loadPartial(fold, kernel.i64(i)));
    }
    for (auto [lane, exists] : llvm::zip(lanes, inside))
      lane = combine(builder, fold.kind, none, selectOrNeutral(fold, exists, lane));
    return combineElements(builder, fold.kind, lanes);
  };
  return branch(builder, some, fold.type, sum, [&] { return none; });
}

// The lanes `lane`, lane + 256 / perThread … of a tensor's partial sums: whole rounds of 256 first, then one that lacks
// some. All loads of several rounds come before their first sum.
SmallVector<Value> FoldLowering::foldLanes(const Fold &fold, Value lane, int64_t perThread) {
  int64_t ahead = target.gpu.partialsAhead / perThread, step = ALTGRAD_LANES / perThread;
  FoldOp op = fold.op;
  if (op->getParentOfType<PhaseOp>().count<FoldOp>() > 1)
    lane = launderPointer(builder, lane); // or its places would be registers for all folds
  auto combined = [&](SmallVector<Value> sums, ArrayRef<Value> partials) {
    for (auto [i, partial] : llvm::enumerate(partials))
      sums[i % perThread] = combine(builder, fold.kind, sums[i % perThread], partial);
    return sums;
  };
  Value whole = builder.bitAnd(fold.count, kernel.i64(-ahead * ALTGRAD_LANES));
  SmallVector<Value> none(perThread, neutral(builder, fold.kind, fold.type));
  SmallVector<Value> sums = kernel.loopWith(
      kernel.i64(0), whole, kernel.i64(ahead * ALTGRAD_LANES), none, [&](Value base, SmallVector<Value> sums) {
        Value own = builder.add(base, lane);
        Value from = getPartialPointer(fold, own);
        SmallVector<Value> partials;
        for (int64_t i = 0; i < target.gpu.partialsAhead; ++i) {
          Value at = op.getRows() ? getPartialPointer(fold, builder.add(own, kernel.i64(i * step)))
                                  : kernel.offset(from, kernel.i64(i * step), sharedWordBytes);
          partials.push_back(kernel.load(fold.type, at, sharedWordBytes));
        }
        return combined(sums, partials);
      });
  return kernel.loopWith(whole, fold.count, kernel.i64(ALTGRAD_LANES), sums, [&](Value base, SmallVector<Value> sums) {
    SmallVector<Value> partials;
    for (int64_t i = 0; i < perThread; ++i) {
      Value index = builder.add(builder.add(base, lane), kernel.i64(i * step));
      Value inside = builder.less(index, fold.count);
      partials.push_back(selectOrNeutral(fold, inside, loadPartial(fold, index)));
    }
    return combined(sums, partials);
  });
}

Value FoldLowering::foldByWarp(const Fold &fold) {
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  return gpu.combineLanes(fold.kind, foldLanes(fold, gpu.inWarp, perThread));
}

// Thread 0 has the result.
Value FoldLowering::foldByBlock(const Fold &fold) {
  Value own = foldLanes(fold, gpu.inBlock, 1)[0];
  gpu.barrier(); // nobody still reads what was there
  kernel.store(own, gpu.sharedWord(gpu.inBlock), sharedWordBytes);
  gpu.barrier();
  SmallVector<Value> lanes;
  for (int64_t i = 0; i < ALTGRAD_LANES / warpThreads; ++i) {
    Value lane = builder.add(gpu.inWarp, kernel.i64(i * warpThreads));
    lanes.push_back(kernel.load(fold.type, gpu.sharedWord(lane), sharedWordBytes));
  }
  return gpu.combineLanes(fold.kind, lanes);
}

// The folds of a row by whoever `sum` is, and what one of them does with them.
void FoldLowering::foldRow(Value index, Value isLeader, FoldMethod method) {
  Row row = kernel.row(index);
  ScalarLowering scalars(kernel, row);
  auto folds = phase.getBody().getOps<FoldOp>();
  Value first = kernel.firstPartial(row, *folds.begin());
  Value count = kernel.countChunks(row, *folds.begin());
  for (auto op : folds) {
    Reduction kind = op.getReduction();
    Fold fold{op, kind, partialType(kind, builder.getF32Type()), row, first, count};
    scalars.known.map(op.getValue(), (this->*method)(fold));
  }
  kernel.when(isLeader, [&] { scalars.lower(phase); });
}

void FoldLowering::forEachBit(Value mask, function_ref<void(Value)> body) {
  kernel.loop(kernel.i64(0), kernel.i64(warpThreads), kernel.i64(1), [&](Value number) {
    Type i32 = builder.getI32Type();
    Value shift = builder.truncate(i32, number);
    Value bit = builder.bitAnd(builder.shiftRight(mask, shift), kernel.i32(1));
    kernel.when(builder.notEqual(bit, kernel.i32(0)), [&] { body(number); });
  });
}

Value FoldLowering::ballot(Value vote) {
  return NVVM::VoteSyncOp::create(builder, builder.getI32Type(), kernel.i32(-1), vote, NVVM::VoteSyncKind::ballot);
}

// Thread t of a warp looks at every 32nd of its rows, does the short ones
// itself and leaves the others to the warp, or to the block.
void FoldLowering::lower(const WorkerRange &workers) {
  auto times = [&](Value a, int64_t b) -> Value { return builder.mul(a, kernel.i64(b)); };
  Value all = times(workers.blocks, warpsPerBlock);
  Value own = builder.div(gpu.inBlock, kernel.i64(warpThreads));
  Value from = builder.add(workers.begin, times(workers.block, warpsPerBlock));
  kernel.loop(from, workers.end, times(all, warpThreads), [&](Value base) {
    auto getRow = [&](Value warp, Value thread) {
      return builder.add(builder.add(base, warp), builder.mul(thread, all));
    };
    Value index = getRow(own, gpu.inWarp), inside = builder.less(index, workers.end);
    Value last = builder.sub(workers.end, kernel.i64(1));
    Value count =
        kernel.countChunks(kernel.row(builder.minSigned(index, last)), *phase.getBody().getOps<FoldOp>().begin());
    Value few = builder.lessEqual(count, kernel.i64(target.gpu.fewChunks));
    Value many = builder.greater(count, kernel.i64(target.gpu.manyChunks));
    Value yes = builder.constBool();
    auto foldShort = [&] {
      kernel.when(builder.bitAnd(inside, few), [&] { foldRow(index, yes, &FoldLowering::foldByThread); });
    };
    // Either a count or two votes are registers through the folds of short rows.
    bool several = phase.count<FoldOp>() > 1;
    if (!several)
      foldShort();
    Value longer = builder.bitAnd(inside, builder.bitXor(few, yes));
    Value mine = ballot(builder.bitAnd(longer, builder.bitXor(many, yes)));
    Value blocks = several ? ballot(builder.bitAnd(inside, many)) : Value();
    if (several)
      foldShort();
    forEachBit(mine, [&](Value number) {
      foldRow(getRow(own, number), builder.equal(gpu.inWarp, kernel.i64(0)), &FoldLowering::foldByWarp);
    });
    if (!several)
      blocks = ballot(builder.bitAnd(inside, many));
    gpu.barrier();
    gpu.onFirstThread(
        [&] { kernel.store(blocks, gpu.sharedWord(builder.add(own, kernel.i64(warpWord))), sharedWordBytes); });
    gpu.barrier();
    kernel.loop(kernel.i64(0), kernel.i64(warpsPerBlock), kernel.i64(1), [&](Value warp) {
      Value mask =
          kernel.load(builder.getI32Type(), gpu.sharedWord(builder.add(warp, kernel.i64(warpWord))), sharedWordBytes);
      kernel.when(builder.notEqual(mask, kernel.i32(0)), [&] {
        forEachBit(mask, [&](Value number) {
          foldRow(getRow(warp, number), builder.equal(gpu.inBlock, kernel.i64(0)), &FoldLowering::foldByBlock);
        });
      });
    });
  });
}

// What lies between sweeps: folds and scalars. A grid does such a phase, or the last block of the launch before it.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

Value GpuLowering::sharedWord(Value index) { return kernel.offset(words, index, sharedWordBytes); }

void GpuLowering::barrier() { NVVM::Barrier0Op::create(builder); }

void GpuLowering::lowerSmall(PhaseOp phase, const WorkerRange &crew) {
  kernel.keepsRolled = true;
  if (phase.count<FoldOp>())
    return lowerFolds(phase, crew);
  if (phase.getDomain() == Domain::Once) {
    Value first = builder.equal(crew.block, kernel.i64(0));
    return kernel.when(first, [&] { lowerOnce(phase); });
  }
  auto getThreads = [&](Value count) -> Value { return builder.mul(count, kernel.i64(ALTGRAD_BLOCK_THREADS)); };
  Value thread = builder.add(getThreads(crew.block), inBlock);
  kernel.loop(builder.add(crew.begin, thread), crew.end, getThreads(crew.blocks),
              [&](Value index) { ScalarLowering(kernel, kernel.row(index)).lower(phase); });
}

//===-- Folds ---------------------------------------------------------------===//

Value GpuLowering::partialsFrom(const Fold &fold, Value index) {
  return kernel.chunkWord(FoldOp(fold.op).getWord(), builder.add(fold.first, index));
}

// A partial sum that exists, for every index.
Value GpuLowering::partialAt(const Fold &fold, Value index) {
  Value last = builder.sub(fold.count, kernel.i64(1));
  index = builder.minSigned(index, last);
  return kernel.load(fold.type, partialsFrom(fold, index), sharedWordBytes);
}

Value GpuLowering::orNeutral(const Fold &fold, Value inside, Value partial) {
  return builder.select(inside, partial, neutral(builder, fold.kind, fold.type));
}

// One thread: the lanes beyond are neutral, and the tree begins at the fourth.
Value GpuLowering::foldFew(const Fold &fold) {
  Value some = builder.greater(fold.count, kernel.i64(0));
  Value none = neutral(builder, fold.kind, fold.type);
  auto sum = [&] {
    SmallVector<Value> lanes, inside;
    for (int64_t i = 0; i < target.gpu.fewChunks; ++i) {
      inside.push_back(builder.greater(fold.count, kernel.i64(i)));
      lanes.push_back(partialAt(fold, kernel.i64(i)));
    }
    for (auto [lane, exists] : llvm::zip(lanes, inside))
      lane = join(builder, fold.kind, none, orNeutral(fold, exists, lane));
    return joinElements(fold.kind, lanes);
  };
  return branch(builder, some, fold.type, sum, [&] { return none; });
}

// The lanes `lane`, lane + 256 / perThread … of a tensor's partial sums: whole rounds of 256 first, then one that lacks
// some. All loads of several rounds come before their first sum.
SmallVector<Value> GpuLowering::foldLanes(const Fold &fold, Value lane, int64_t perThread) {
  int64_t ahead = target.gpu.partialsAhead / perThread, step = ALTGRAD_LANES / perThread;
  FoldOp op = fold.op;
  if (op->getParentOfType<PhaseOp>().count<FoldOp>() > 1)
    lane = launderPointer(lane); // or its places would be registers for all folds
  auto joined = [&](SmallVector<Value> sums, ArrayRef<Value> partials) {
    for (auto [i, partial] : llvm::enumerate(partials))
      sums[i % perThread] = join(builder, fold.kind, sums[i % perThread], partial);
    return sums;
  };
  Value whole = builder.bitAnd(fold.count, kernel.i64(-ahead * ALTGRAD_LANES));
  SmallVector<Value> none(perThread, neutral(builder, fold.kind, fold.type));
  SmallVector<Value> sums = kernel.loopWith(
      kernel.i64(0), whole, kernel.i64(ahead * ALTGRAD_LANES), none, [&](Value base, SmallVector<Value> sums) {
        Value from = partialsFrom(fold, builder.add(base, lane));
        SmallVector<Value> partials;
        for (int64_t i = 0; i < target.gpu.partialsAhead; ++i)
          partials.push_back(
              kernel.load(fold.type, kernel.offset(from, kernel.i64(i * step), sharedWordBytes), sharedWordBytes));
        return joined(sums, partials);
      });
  return kernel.loopWith(whole, fold.count, kernel.i64(ALTGRAD_LANES), sums, [&](Value base, SmallVector<Value> sums) {
    SmallVector<Value> partials;
    for (int64_t i = 0; i < perThread; ++i) {
      Value index = builder.add(builder.add(base, lane), kernel.i64(i * step));
      Value inside = builder.less(index, fold.count);
      partials.push_back(orNeutral(fold, inside, partialAt(fold, index)));
    }
    return joined(sums, partials);
  });
}

// The rest of the tree: thread t of a warp has the lanes t, t + 32, … t + 224.
Value GpuLowering::joinLanes(Reduction kind, SmallVector<Value> lanes) {
  Value own = joinElements(kind, lanes);
  Value one = builder.fromElements(VectorType::get({1}, own.getType()), own);
  return splitVector(joinThreads(kind, one))[0];
}

Value GpuLowering::foldByWarp(const Fold &fold) {
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  return joinLanes(fold.kind, foldLanes(fold, inWarp, perThread));
}

// Thread 0 has the result.
Value GpuLowering::foldByBlock(const Fold &fold) {
  Value own = foldLanes(fold, inBlock, 1)[0];
  barrier(); // nobody still reads what was there
  kernel.store(own, sharedWord(inBlock), sharedWordBytes);
  barrier();
  SmallVector<Value> lanes;
  for (int64_t i = 0; i < ALTGRAD_LANES / warpThreads; ++i) {
    Value lane = builder.add(inWarp, kernel.i64(i * warpThreads));
    lanes.push_back(kernel.load(fold.type, sharedWord(lane), sharedWordBytes));
  }
  return joinLanes(fold.kind, lanes);
}

// The folds of a row by whoever `sum` is, and what one of them does with them.
void GpuLowering::foldRow(PhaseOp phase, Value index, Value keeper, FoldWay way) {
  Row row = kernel.row(index);
  ScalarLowering scalars(kernel, row);
  auto folds = phase.getBody().getOps<FoldOp>();
  Value first = kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
  Value count = kernel.countChunks(row, *folds.begin());
  for (auto op : folds) {
    Reduction kind = op.getReduction();
    Fold fold{op, kind, partialType(kind, builder.getF32Type()), first, count};
    scalars.known.map(op.getValue(), (this->*way)(fold));
  }
  kernel.when(keeper, [&] { scalars.lower(phase); });
}

void GpuLowering::forEachBit(Value mask, function_ref<void(Value)> body) {
  kernel.loop(kernel.i64(0), kernel.i64(warpThreads), kernel.i64(1), [&](Value number) {
    Type i32 = builder.getI32Type();
    Value shift = builder.truncate(i32, number);
    Value bit = builder.bitAnd(builder.shiftRight(mask, shift), kernel.i32(1));
    kernel.when(builder.notEqual(bit, kernel.i32(0)), [&] { body(number); });
  });
}

// Thread t of a warp looks at every 32nd of its rows, does the short ones
// itself and leaves the others to the warp, or to the block.
void GpuLowering::lowerFolds(PhaseOp phase, const WorkerRange &crew) {
  auto times = [&](Value a, int64_t b) -> Value { return builder.mul(a, kernel.i64(b)); };
  Value all = times(crew.blocks, warpsPerBlock);
  Value own = builder.div(inBlock, kernel.i64(warpThreads));
  Value from = builder.add(crew.begin, times(crew.block, warpsPerBlock));
  auto ballot = [&](Value vote) -> Value {
    return NVVM::VoteSyncOp::create(builder, builder.getI32Type(), kernel.i32(-1), vote, NVVM::VoteSyncKind::ballot);
  };
  kernel.loop(from, crew.end, times(all, warpThreads), [&](Value base) {
    auto getRow = [&](Value warp, Value thread) {
      return builder.add(builder.add(base, warp), builder.mul(thread, all));
    };
    Value index = getRow(own, inWarp), inside = builder.less(index, crew.end);
    Value last = builder.sub(crew.end, kernel.i64(1));
    Value count =
        kernel.countChunks(kernel.row(builder.minSigned(index, last)), *phase.getBody().getOps<FoldOp>().begin());
    Value few = builder.lessEqual(count, kernel.i64(target.gpu.fewChunks));
    Value many = builder.greater(count, kernel.i64(target.gpu.manyChunks));
    Value yes = builder.constBool();
    auto foldShort = [&] {
      kernel.when(builder.bitAnd(inside, few), [&] { foldRow(phase, index, yes, &GpuLowering::foldFew); });
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
      foldRow(phase, getRow(own, number), builder.equal(inWarp, kernel.i64(0)), &GpuLowering::foldByWarp);
    });
    if (!several)
      blocks = ballot(builder.bitAnd(inside, many));
    barrier();
    onFirstThread([&] { kernel.store(blocks, sharedWord(builder.add(own, kernel.i64(warpWord))), sharedWordBytes); });
    barrier();
    kernel.loop(kernel.i64(0), kernel.i64(warpsPerBlock), kernel.i64(1), [&](Value warp) {
      Value mask =
          kernel.load(builder.getI32Type(), sharedWord(builder.add(warp, kernel.i64(warpWord))), sharedWordBytes);
      kernel.when(builder.notEqual(mask, kernel.i32(0)), [&] {
        forEachBit(mask, [&](Value number) {
          foldRow(phase, getRow(warp, number), builder.equal(inBlock, kernel.i64(0)), &GpuLowering::foldByBlock);
        });
      });
    });
  });
}

//===-- Once ----------------------------------------------------------------===//

// All threads of the block load, the first adds, rows in order. Words behind the last row are neutral.
Value GpuLowering::total(TotalOp op) {
  constexpr int64_t unroll = 16, width = 4;
  Reduction kind = op.getReduction();
  Type type = partialType(kind, op.getValue().getType());
  Value none = neutral(builder, kind, type);
  std::pair<Value, Value> range = kernel.getRows(op.getSet());
  Value to = range.second;
  Value first = builder.equal(inBlock, kernel.i64(0));
  auto added = [&](Value at, SmallVector<Value> sum) {
    SmallVector<Value> four;
    for (int64_t i = 0; i < unroll; i += width)
      four.push_back(kernel.load(VectorType::get({width}, type), sharedWord(builder.add(at, kernel.i64(i))),
                                 width * sharedWordBytes));
    for (Value some : four)
      for (Value word : splitVector(some))
        sum[0] = join(builder, kind, sum[0], word);
    return sum;
  };
  Value sum = kernel.loopWith(
      range.first, to, kernel.i64(ALTGRAD_BLOCK_THREADS), none, [&](Value base, SmallVector<Value> sum) {
        Value index = builder.add(base, inBlock);
        Value last = builder.sub(to, kernel.i64(1));
        Value own = kernel.load(type, kernel.word(Space::Row, op.getWord(), Row{builder.minSigned(index, last), {}}),
                                sharedWordBytes);
        Value inside = builder.less(index, to);
        own = builder.select(inside, own, none);
        barrier(); // nobody still reads what was there
        kernel.store(own, sharedWord(inBlock), sharedWordBytes);
        barrier();
        Value rows = builder.minSigned(builder.sub(to, base), kernel.i64(ALTGRAD_BLOCK_THREADS));
        rows = builder.select(first, rows, kernel.i64(0));
        return kernel.loopWith(kernel.i64(0), rows, kernel.i64(unroll), sum, added);
      })[0];
  if (kind == Reduction::And)
    return builder.notEqual(sum, kernel.i32(0));
  return sum;
}

void GpuLowering::lowerOnce(PhaseOp phase) {
  ScalarLowering scalars(kernel, Row{});
  for (auto op : phase.getBody().getOps<TotalOp>())
    scalars.known.map(op.getValue(), total(op));
  Value first = builder.equal(inBlock, kernel.i64(0));
  kernel.when(first, [&] { scalars.lower(phase); });
}

//===-- The block of a launch that ends last ----------------------------------===//

// Whether this block is the last of its grid to come here. Then it sees what
// all others have done. The count is 0 again.
Value GpuLowering::isLastBlock() {
  Type i32 = builder.getI32Type();
  Value word = sharedWord(kernel.i64(blockWord));
  barrier();
  Value first = builder.equal(inBlock, kernel.i64(0));
  kernel.when(first, [&] {
    auto fence = [&] { LLVM::FenceOp::create(builder, LLVM::AtomicOrdering::acq_rel, "device"); };
    Value most = builder.sub(builder.truncate(i32, blocks), kernel.i32(1));
    fence();
    Value before = LLVM::AtomicRMWOp::create(builder, LLVM::AtomicBinOp::uinc_wrap, kernel.member(Member::Finished),
                                             most, LLVM::AtomicOrdering::monotonic, "device");
    fence();
    Value last = builder.equal(before, most);
    kernel.store(builder.extendUnsigned(i32, last), word, sharedWordBytes);
  });
  barrier();
  return builder.notEqual(kernel.load(i32, word, sharedWordBytes), kernel.i32(0));
}

// Reads a special register once more: its value would be a register through the whole sweep otherwise.
Value GpuLowering::rereadRegister(StringRef name) {
  Value read = assembly(builder, ("mov.u32 $0, %" + name + ";").str(), "=r", builder.getI32Type(), {})[0];
  return builder.extendUnsigned(builder.getI64Type(), read);
}

Value GpuLowering::launderPointer(Value value) {
  return assembly(builder, "mov.b64 $0, $1;", "=l,l", value.getType(), value)[0];
}

void GpuLowering::emitEpilogue(ArrayRef<PhaseOp> phases) {
  Value count = LLVM::PtrToIntOp::create(builder, builder.getI64Type(), kernel.member(Member::Finished));
  Value asked = builder.notEqual(count, kernel.i64(0));
  auto readThread = [&] {
    inBlock = rereadRegister("tid.x");
    inWarp = builder.bitAnd(inBlock, kernel.i64(warpThreads - 1));
  };
  kernel.when(asked, [&] {
    readThread();
    blocks = rereadRegister("nctaid.x");
    kernel.when(isLastBlock(), [&] {
      for (PhaseOp phase : phases) {
        auto [from, to] = kernel.getRows(PhaseOp(phase).getSet());
        lowerSmall(phase, {kernel.i64(0), kernel.i64(1), from, to});
        if (phase == phases.back())
          break;
        barrier();
        readThread();
      }
    });
  });
}

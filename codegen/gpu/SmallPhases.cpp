// What lies between sweeps: folds and scalars. A grid does such a phase, or the
// last block of the launch before it.
#include "codegen/gpu/GpuLowering.h"
#include "codegen/common/Launches.h"

using namespace mlir;
using namespace altgrad;

constexpr unsigned wordBytes = 4;

bool GpuLowering::sharesWords(PhaseOp phase) {
  auto shares = [](PhaseOp small) {
    return small.count<FoldOp>() || small.count<TotalOp>();
  };
  return shares(phase) || !finishedBy(phase).empty();
}

void GpuLowering::allocateWords() {
  words = shared->allocate("words", wordCount * wordBytes, 16);
}

Value GpuLowering::sharedWord(KernelBuilder &kernel, Value index) {
  return kernel.offset(words, index, wordBytes);
}

void GpuLowering::barrier() { NVVM::Barrier0Op::create(builder); }

void GpuLowering::lowerSmall(KernelBuilder &kernel, PhaseOp phase,
                             const Crew &crew) {
  kernel.keepsRolled = true;
  if (phase.count<FoldOp>())
    return lowerFolds(kernel, phase, crew);
  if (phase.getDomain() == Domain::Once) {
    Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                        crew.block, kernel.i64(0));
    return kernel.when(first, [&] { lowerOnce(kernel, phase); });
  }
  auto threadsOf = [&](Value count) -> Value {
    return arith::MulIOp::create(builder, count,
                                 kernel.i64(ALTGRAD_BLOCK_THREADS));
  };
  Value thread = arith::AddIOp::create(builder, threadsOf(crew.block), inBlock);
  kernel.loop(arith::AddIOp::create(builder, crew.begin, thread), crew.end,
              threadsOf(crew.blocks), [&](Value index) {
                ScalarLowering(kernel, kernel.row(index)).lower(phase);
              });
}

//===-- Folds ---------------------------------------------------------------===//

Value GpuLowering::partialsFrom(KernelBuilder &kernel, const Fold &fold,
                                Value index) {
  return kernel.chunkWord(FoldOp(fold.op).getWord(),
                          arith::AddIOp::create(builder, fold.first, index));
}

// A partial sum that exists, for every index.
Value GpuLowering::partialAt(KernelBuilder &kernel, const Fold &fold,
                             Value index) {
  Value last = arith::SubIOp::create(builder, fold.count, kernel.i64(1));
  index = arith::MinSIOp::create(builder, index, last);
  return kernel.load(fold.type, partialsFrom(kernel, fold, index), wordBytes);
}

Value GpuLowering::orNeutral(KernelBuilder &kernel, const Fold &fold,
                             Value inside, Value partial) {
  return arith::SelectOp::create(builder, inside, partial,
                                 neutral(builder, fold.kind, fold.type));
}

// One thread: the lanes beyond are neutral, and the tree begins at the fourth.
Value GpuLowering::foldFew(KernelBuilder &kernel, const Fold &fold) {
  Value some = arith::CmpIOp::create(builder, arith::CmpIPredicate::sgt,
                                     fold.count, kernel.i64(0));
  Value none = neutral(builder, fold.kind, fold.type);
  auto branch = scf::IfOp::create(builder, TypeRange{fold.type}, some,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> lanes, inside;
  for (int64_t i = 0; i < target.gpu.fewChunks; ++i) {
    inside.push_back(arith::CmpIOp::create(builder, arith::CmpIPredicate::sgt,
                                           fold.count, kernel.i64(i)));
    lanes.push_back(partialAt(kernel, fold, kernel.i64(i)));
  }
  for (auto [lane, exists] : llvm::zip(lanes, inside))
    lane =
        join(builder, fold.kind, none, orNeutral(kernel, fold, exists, lane));
  scf::YieldOp::create(builder, joinElements(fold.kind, lanes));
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, none);
  return branch.getResult(0);
}

// The lanes `lane`, lane + 256 / perThread … of a tensor's partial sums: whole
// rounds of 256 first, then one that lacks some. All loads of several rounds
// come before their first sum.
SmallVector<Value> GpuLowering::foldLanes(KernelBuilder &kernel,
                                          const Fold &fold, Value lane,
                                          int64_t perThread) {
  int64_t ahead = target.gpu.partialsAhead / perThread, step = ALTGRAD_LANES / perThread;
  FoldOp op = fold.op;
  if (op->getParentOfType<PhaseOp>().count<FoldOp>() > 1)
    lane = opaque(lane); // or its places would be registers for all folds
  auto joined = [&](SmallVector<Value> sums, ArrayRef<Value> partials) {
    for (auto [i, partial] : llvm::enumerate(partials))
      sums[i % perThread] =
          join(builder, fold.kind, sums[i % perThread], partial);
    return sums;
  };
  Value whole = arith::AndIOp::create(builder, fold.count,
                                      kernel.i64(-ahead * ALTGRAD_LANES));
  SmallVector<Value> none(perThread, neutral(builder, fold.kind, fold.type));
  SmallVector<Value> sums = kernel.loopWith(
      kernel.i64(0), whole, kernel.i64(ahead * ALTGRAD_LANES), none,
      [&](Value base, SmallVector<Value> sums) {
        Value from = partialsFrom(kernel, fold,
                                  arith::AddIOp::create(builder, base, lane));
        SmallVector<Value> partials;
        for (int64_t i = 0; i < target.gpu.partialsAhead; ++i)
          partials.push_back(kernel.load(
              fold.type, kernel.offset(from, kernel.i64(i * step), wordBytes),
              wordBytes));
        return joined(sums, partials);
      });
  return kernel.loopWith(
      whole, fold.count, kernel.i64(ALTGRAD_LANES), sums,
      [&](Value base, SmallVector<Value> sums) {
        SmallVector<Value> partials;
        for (int64_t i = 0; i < perThread; ++i) {
          Value index = arith::AddIOp::create(
              builder, arith::AddIOp::create(builder, base, lane),
              kernel.i64(i * step));
          Value inside = arith::CmpIOp::create(
              builder, arith::CmpIPredicate::slt, index, fold.count);
          partials.push_back(
              orNeutral(kernel, fold, inside, partialAt(kernel, fold, index)));
        }
        return joined(sums, partials);
      });
}

// The rest of the tree: thread t of a warp has the lanes t, t + 32, … t + 224.
Value GpuLowering::joinLanes(KernelBuilder &kernel, Reduction kind,
                             SmallVector<Value> lanes) {
  Value own = joinElements(kind, lanes);
  Value one = vector::FromElementsOp::create(
      builder, VectorType::get({1}, own.getType()), own);
  return elementsOf(joinThreads(kernel, kind, one))[0];
}

Value GpuLowering::foldByWarp(KernelBuilder &kernel, const Fold &fold) {
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  return joinLanes(kernel, fold.kind,
                   foldLanes(kernel, fold, inWarp, perThread));
}

// Thread 0 has the result.
Value GpuLowering::foldByBlock(KernelBuilder &kernel, const Fold &fold) {
  Value own = foldLanes(kernel, fold, inBlock, 1)[0];
  barrier(); // nobody still reads what was there
  kernel.store(own, sharedWord(kernel, inBlock), wordBytes);
  barrier();
  SmallVector<Value> lanes;
  for (int64_t i = 0; i < ALTGRAD_LANES / warpThreads; ++i) {
    Value lane =
        arith::AddIOp::create(builder, inWarp, kernel.i64(i * warpThreads));
    lanes.push_back(
        kernel.load(fold.type, sharedWord(kernel, lane), wordBytes));
  }
  return joinLanes(kernel, fold.kind, lanes);
}

// The folds of a row by whoever `sum` is, and what one of them does with them.
void GpuLowering::foldRow(KernelBuilder &kernel, PhaseOp phase, Value index,
                          Value keeper, FoldWay way) {
  Row row = kernel.row(index);
  ScalarLowering scalars(kernel, row);
  auto folds = phase.getBody().getOps<FoldOp>();
  Value first = kernel.rowHeader(row, ALTGRAD_ROW_FIRST_CHUNK);
  Value count = kernel.chunksOf(row, *folds.begin());
  for (auto op : folds) {
    Reduction kind = op.getReduction();
    Fold fold{op, kind, partialType(kind, builder.getF32Type()), first, count};
    scalars.known.map(op.getValue(), (this->*way)(kernel, fold));
  }
  kernel.when(keeper, [&] { scalars.lower(phase); });
}

void GpuLowering::forEachBit(KernelBuilder &kernel, Value mask,
                             function_ref<void(Value)> body) {
  kernel.loop(
      kernel.i64(0), kernel.i64(warpThreads), kernel.i64(1), [&](Value number) {
        Type i32 = builder.getI32Type();
        Value shift = arith::TruncIOp::create(builder, i32, number);
        Value bit = arith::AndIOp::create(
            builder, arith::ShRUIOp::create(builder, mask, shift),
            kernel.i32(1));
        kernel.when(arith::CmpIOp::create(builder, arith::CmpIPredicate::ne,
                                          bit, kernel.i32(0)),
                    [&] { body(number); });
      });
}

// Thread t of a warp looks at every 32nd of its rows, does the short ones
// itself and leaves the others to the warp, or to the block.
void GpuLowering::lowerFolds(KernelBuilder &kernel, PhaseOp phase,
                             const Crew &crew) {
  auto times = [&](Value a, int64_t b) -> Value {
    return arith::MulIOp::create(builder, a, kernel.i64(b));
  };
  auto plus = [&](Value a, Value b) -> Value {
    return arith::AddIOp::create(builder, a, b);
  };
  auto is = [&](arith::CmpIPredicate how, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, how, a, b);
  };
  auto both = [&](Value a, Value b) -> Value {
    return arith::AndIOp::create(builder, a, b);
  };
  using P = arith::CmpIPredicate;
  Value all = times(crew.blocks, warpsPerBlock);
  Value own = arith::DivUIOp::create(builder, inBlock, kernel.i64(warpThreads));
  Value from = plus(crew.begin, times(crew.block, warpsPerBlock));
  auto ballot = [&](Value vote) -> Value {
    return NVVM::VoteSyncOp::create(builder, builder.getI32Type(),
                                    kernel.i32(-1), vote,
                                    NVVM::VoteSyncKind::ballot);
  };
  kernel.loop(from, crew.end, times(all, warpThreads), [&](Value base) {
    auto rowOf = [&](Value warp, Value thread) -> Value {
      return plus(plus(base, warp),
                  arith::MulIOp::create(builder, thread, all));
    };
    Value index = rowOf(own, inWarp), inside = is(P::slt, index, crew.end);
    Value last = arith::SubIOp::create(builder, crew.end, kernel.i64(1));
    Value count = kernel.chunksOf(
        kernel.row(arith::MinSIOp::create(builder, index, last)),
        *phase.getBody().getOps<FoldOp>().begin());
    Value few = is(P::sle, count, kernel.i64(target.gpu.fewChunks));
    Value many = is(P::sgt, count, kernel.i64(target.gpu.manyChunks));
    Value yes = arith::ConstantIntOp::create(builder, true, 1);
    auto foldShort = [&] {
      kernel.when(both(inside, few), [&] {
        foldRow(kernel, phase, index, yes, &GpuLowering::foldFew);
      });
    };
    // Either a count or two votes are registers through the folds of short rows.
    bool several = phase.count<FoldOp>() > 1;
    if (!several)
      foldShort();
    Value longer = both(inside, arith::XOrIOp::create(builder, few, yes));
    Value mine =
        ballot(both(longer, arith::XOrIOp::create(builder, many, yes)));
    Value blocks = several ? ballot(both(inside, many)) : Value();
    if (several)
      foldShort();
    forEachBit(kernel, mine, [&](Value number) {
      foldRow(kernel, phase, rowOf(own, number),
              is(P::eq, inWarp, kernel.i64(0)), &GpuLowering::foldByWarp);
    });
    if (!several)
      blocks = ballot(both(inside, many));
    barrier();
    onFirstThread(kernel, [&] {
      kernel.store(blocks, sharedWord(kernel, plus(own, kernel.i64(warpWord))),
                   wordBytes);
    });
    barrier();
    kernel.loop(kernel.i64(0), kernel.i64(warpsPerBlock), kernel.i64(1),
                [&](Value warp) {
                  Value mask = kernel.load(
                      builder.getI32Type(),
                      sharedWord(kernel, plus(warp, kernel.i64(warpWord))),
                      wordBytes);
                  kernel.when(is(P::ne, mask, kernel.i32(0)), [&] {
                    forEachBit(kernel, mask, [&](Value number) {
                      foldRow(kernel, phase, rowOf(warp, number),
                              is(P::eq, inBlock, kernel.i64(0)),
                              &GpuLowering::foldByBlock);
                    });
                  });
                });
  });
}

//===-- Once ----------------------------------------------------------------===//

// All threads of the block load, the first adds, rows in order. Words behind
// the last row are neutral.
Value GpuLowering::total(KernelBuilder &kernel, TotalOp op) {
  constexpr int64_t unroll = 16, width = 4;
  Reduction kind = op.getReduction();
  Type type = partialType(kind, op.getValue().getType());
  Value none = neutral(builder, kind, type);
  std::pair<Value, Value> range = kernel.rowsOf(op.getSet());
  Value to = range.second;
  Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                      inBlock, kernel.i64(0));
  auto added = [&](Value at, SmallVector<Value> sum) {
    SmallVector<Value> four;
    for (int64_t i = 0; i < unroll; i += width)
      four.push_back(kernel.load(
          VectorType::get({width}, type),
          sharedWord(kernel, arith::AddIOp::create(builder, at, kernel.i64(i))),
          width * wordBytes));
    for (Value some : four)
      for (Value word : elementsOf(some))
        sum[0] = join(builder, kind, sum[0], word);
    return sum;
  };
  Value sum = kernel.loopWith(
      range.first, to, kernel.i64(ALTGRAD_BLOCK_THREADS), none,
      [&](Value base, SmallVector<Value> sum) {
        Value index = arith::AddIOp::create(builder, base, inBlock);
        Value last = arith::SubIOp::create(builder, to, kernel.i64(1));
        Value own = kernel.load(
            type,
            kernel.word(Space::Row, op.getWord(),
                        Row{arith::MinSIOp::create(builder, index, last), {}}),
            wordBytes);
        Value inside = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt,
                                             index, to);
        own = arith::SelectOp::create(builder, inside, own, none);
        barrier(); // nobody still reads what was there
        kernel.store(own, sharedWord(kernel, inBlock), wordBytes);
        barrier();
        Value rows = arith::MinSIOp::create(
            builder, arith::SubIOp::create(builder, to, base),
            kernel.i64(ALTGRAD_BLOCK_THREADS));
        rows = arith::SelectOp::create(builder, first, rows, kernel.i64(0));
        return kernel.loopWith(kernel.i64(0), rows, kernel.i64(unroll), sum,
                               added);
      })[0];
  if (kind == Reduction::And)
    return arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, sum,
                                 kernel.i32(0));
  return sum;
}

void GpuLowering::lowerOnce(KernelBuilder &kernel, PhaseOp phase) {
  ScalarLowering scalars(kernel, Row{});
  for (auto op : phase.getBody().getOps<TotalOp>())
    scalars.known.map(op.getValue(), total(kernel, op));
  Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                      inBlock, kernel.i64(0));
  kernel.when(first, [&] { scalars.lower(phase); });
}

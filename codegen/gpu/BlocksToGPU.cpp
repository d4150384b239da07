// Blocks of elements on a GPU, each done by a few neighbouring threads. What a
// block has stored its first thread reads, for the others too: it may overwrite
// it. A reduction is each thread's over its own elements, then the threads'
// among themselves.
//
// All threads of a warp take part, those behind the tensor's end with nothing.
// A thread's elements are read once for each reduction and once more for the
// body.
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

// The elements of one thread: as vectors where all of them exist and are
// aligned.
GpuLowering::Carried GpuLowering::threadInBlock(KernelBuilder &kernel,
                                                Chunk &chunk, Value at,
                                                Carried carried,
                                                unsigned part) {
  int32_t first = part * warpThreads * chunk.width;
  loadShared(kernel, chunk, at, part);
  reduceBlocks(kernel, chunk, at, part);
  Value inside =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::sle, at,
                            kernel.i32(-first - int32_t(chunk.width)));
  inside = arith::AndIOp::create(builder, inside, chunk.aligned);
  return either(
      inside, carried,
      [&](Carried carried) {
        return vectorsAt(kernel, chunk, at, carried, part);
      },
      [&](Carried carried) {
        Value from = arith::AddIOp::create(builder, at, kernel.i32(first));
        Value to = arith::MinSIOp::create(
            builder,
            arith::AddIOp::create(builder, from, kernel.i32(chunk.width)),
            kernel.i32(0));
        return oneByOne(kernel, chunk, from, to, 1, first, carried,
                        part * chunk.vectors());
      });
}

Value GpuLowering::leads(KernelBuilder &kernel, Chunk &chunk, unsigned block) {
  int64_t threads = block / chunk.width;
  Value number =
      arith::AndIOp::create(builder, again("tid.x"), kernel.i64(threads - 1));
  return arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, number,
                               kernel.i64(0));
}

// Threads join magnitudes as numbers: that is one instruction, too, and a NaN is canonical.
static Reduction joinedBy(ReduceOp reduce) {
  Reduction kind = reduce.getReduction();
  return kind == Reduction::AbsMax ? Reduction::Max : kind;
}

static Value grown(ImplicitLocOpBuilder &builder, ReduceOp reduce, Value partial, Value element) {
  if (reduce.getReduction() == Reduction::AbsMax)
    element = math::AbsFOp::create(builder, element);
  return accumulate(builder, joinedBy(reduce), partial, element);
}

void GpuLowering::reduceBlocks(KernelBuilder &kernel, Chunk &chunk, Value at,
                               unsigned part) {
  SmallVector<ReduceOp> all = blockReductions(chunk.sweep.getBody());
  for (unsigned first = 0; first < all.size();) {
    unsigned count = reducedTogether(chunk, first);
    SmallVector<Value> own = reduceOwn(kernel, chunk, at, part, first, count);
    for (unsigned i = first; i < first + count; ++i) {
      Value one = joinBlock(kernel, chunk, all[i], own[i - first]);
      chunk.known.map(all[i].getResult(), one);
      for (Region &wide : chunk.sweep.getWide())
        chunk.known.map(blockReductions(wide)[i].getResult(), one);
    }
    first += count;
  }
}

// The code that the first thread of a block has.
Value GpuLowering::fromFirst(KernelBuilder &kernel, Chunk &chunk, Value code,
                             unsigned block) {
  Type type = code.getType(), i32 = builder.getI32Type();
  Value word = type.isF32()
                   ? arith::BitcastOp::create(builder, i32, code).getResult()
                   : arith::ExtUIOp::create(builder, i32, code).getResult();
  int32_t threads = block / chunk.width;
  // Lane 0 of as many as a block has, by the mask of such segments of a warp.
  int32_t segments = (warpThreads - threads) << 8 | (warpThreads - 1);
  word = shuffled(kernel, NVVM::ShflKind::idx, word, 0, segments);
  if (type.isF32())
    return arith::BitcastOp::create(builder, type, word);
  return arith::TruncIOp::create(builder, type, word);
}

void GpuLowering::loadShared(KernelBuilder &kernel, Chunk &chunk, Value at,
                             unsigned part) {
  int64_t first = part * warpThreads * chunk.width;
  for (auto [argument, tensors] : llvm::zip(
           chunk.sweep.getBody().getArguments(), chunk.sweep.getLoads())) {
    if (blockOf(tensors) == 1)
      continue;
    Type type = argument.getType();
    Value exists = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, at,
                                         kernel.i32(-int32_t(first)));
    auto branch = scf::IfOp::create(
        builder, TypeRange{type},
        arith::AndIOp::create(builder, exists,
                               leads(kernel, chunk, blockOf(tensors))),
        /*addThenBlock=*/true, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder,
                         kernel.load(type, address(kernel, chunk, tensors, first),
                                     bytesOf(tensors)));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, ValueRange{arith::ConstantOp::create(
                                      builder, builder.getZeroAttr(type))});
    builder.setInsertionPointAfter(branch);
    chunk.shared.map(tensors,
                     fromFirst(kernel, chunk, branch.getResult(0),
                               blockOf(tensors)));
  }
}

// The threads of a block are neighbours, a power of two of them.
Value GpuLowering::joinBlock(KernelBuilder &kernel, Chunk &chunk,
                             ReduceOp reduce, Value own) {
  int32_t threads = reduce.getRun() / chunk.width;
  for (int32_t distance = threads / 2; distance; distance /= 2)
    own = join(builder, joinedBy(reduce), own,
               exchanged(kernel, own, distance));
  return own;
}

// The number of the thread whose place in the warp differs in that bit.
Value GpuLowering::exchanged(KernelBuilder &kernel, Value own, int32_t distance) {
  return shuffled(kernel, NVVM::ShflKind::bfly, own, distance);
}

Value GpuLowering::shuffled(KernelBuilder &kernel, NVVM::ShflKind kind, Value own,
                            int32_t by, int32_t clamp) {
  return NVVM::ShflOp::create(builder, own.getType(), kernel.i32(-1), own,
                              kernel.i32(by), kernel.i32(clamp), kind,
                              /*return_value_and_is_valid=*/UnitAttr());
}

// A vector of each stream. LLVM makes accesses of several, where nothing is stored
// between them, and leaves out what a reduction does not read.
SmallVector<Value> GpuLowering::loadAlone(KernelBuilder &kernel, Chunk &chunk,
                                          int64_t element) {
  SweepOp sweep = chunk.sweep;
  SmallVector<Value> loaded;
  for (auto [argument, tensors] : llvm::zip(
           sweep.getWide().front().getArguments(), sweep.getLoads())) {
    Type type = argument.getType();
    Value one = chunk.shared.lookupOrNull(tensors);
    loaded.push_back(
        one ? Value(vector::BroadcastOp::create(builder, type, one))
            : loadCodes(kernel, tensors, cast<VectorType>(type),
                        address(kernel, chunk, tensors, element),
                        sweep.getWidth() * bytesOf(tensors)));
  }
  return loaded;
}

// What a thread's own elements give, for `count` reductions: as vectors where all
// of them exist and are aligned, otherwise one after the other.
SmallVector<Value> GpuLowering::reduceOwn(KernelBuilder &kernel, Chunk &chunk,
                                          Value at, unsigned part,
                                          unsigned reduction, unsigned count) {
  SweepOp sweep = chunk.sweep;
  Type f32 = builder.getF32Type();
  int64_t first = part * warpThreads * chunk.width;
  Value inside = arith::CmpIOp::create(
      builder, arith::CmpIPredicate::sle, at,
      kernel.i32(-int32_t(first) - int32_t(chunk.width)));
  auto branch = scf::IfOp::create(
      builder, SmallVector<Type>(count, f32),
      arith::AndIOp::create(builder, inside, chunk.aligned),
      /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  auto reductionsOf = [&](Region &body) {
    SmallVector<ReduceOp> all = blockReductions(body);
    return SmallVector<ReduceOp>(ArrayRef(all).slice(reduction, count));
  };
  Region &wide = sweep.getWide().front();
  SmallVector<ReduceOp> reduces = reductionsOf(wide);
  SmallVector<Value> sums, wanted;
  for (ReduceOp reduce : reduces) {
    sums.push_back(neutral(builder, joinedBy(reduce), reduce.getType()));
    wanted.push_back(reduce.getValue());
  }
  SmallVector<Kept> kept = keptBy(chunk, reduction, count);
  for (const Kept &one : kept)
    wanted.push_back(one.values.front());
  SmallVector<Value> words(sweep.getLoads().size());
  for (unsigned number = 0; number < chunk.vectors(); ++number) {
    int64_t element = first + number * sweep.getWidth();
    SmallVector<Value> loaded =
        kept.empty()
            ? loadAlone(kernel, chunk, element)
            : loadVector(kernel, chunk, words, first, number, /*again=*/false);
    Value index = indexOf(kernel, chunk, at, element);
    SmallVector<Value> draws = drawApart(chunk, wide, index, 1);
    SmallVector<Value> values = cloneValues(
        builder, wide, wanted, {loaded, chunk.known, index, 1, draws});
    for (auto [sum, reduce, value] : llvm::zip(sums, reduces, values))
      sum = grown(builder, reduce, sum, value);
    unsigned width = sweep.getWidth();
    for (auto [one, value] : llvm::zip(kept, ArrayRef(values).drop_front(count)))
      kernel.store(value, slotOf(kernel, one, number, width),
                   width * sizeof(float));
  }
  for (auto [sum, reduce] : llvm::zip(sums, reduces))
    sum = joinElements(joinedBy(reduce), elementsOf(sum));
  scf::YieldOp::create(builder, sums);

  builder.setInsertionPointToStart(branch.elseBlock());
  Region &narrow = sweep.getBody();
  reduces = reductionsOf(narrow);
  sums.clear(), wanted.clear();
  for (ReduceOp reduce : reduces) {
    sums.push_back(neutral(builder, joinedBy(reduce), f32));
    wanted.push_back(reduce.getValue());
  }
  Value from = arith::AddIOp::create(builder, at, kernel.i32(first));
  Value to = arith::MinSIOp::create(
      builder, arith::AddIOp::create(builder, from, kernel.i32(chunk.width)),
      kernel.i32(0));
  sums = kernel.loopWith(
      from, to, kernel.i32(1), sums,
      [&](Value index, SmallVector<Value> before) -> SmallVector<Value> {
        Value offset = arith::SubIOp::create(builder, index, from);
        SmallVector<Value> loaded;
        for (auto [argument, tensors] :
             llvm::zip(narrow.getArguments(), sweep.getLoads()))
          loaded.push_back(loadElement(kernel, chunk, tensors, first, offset,
                                       argument.getType()));
        Value global = indexOf(kernel, chunk, index, 0);
        SmallVector<Value> draws = drawApart(chunk, narrow, global, 1);
        SmallVector<Value> values = cloneValues(
            builder, narrow, wanted, {loaded, chunk.known, global, 1, draws});
        for (auto [sum, reduce, value] : llvm::zip(before, reduces, values))
          sum = grown(builder, reduce, sum, value);
        return before;
      });
  scf::YieldOp::create(builder, sums);
  return branch.getResults();
}

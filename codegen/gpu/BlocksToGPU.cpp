// Reductions of blocks on a GPU. What a block has stored its first thread reads, for the others too: it may overwrite
// it. A thread's elements are read once for each reduction and once more for the body.
#include "codegen/gpu/ChunkLowering.h"

using namespace mlir;
using namespace altgrad;

// Threads join magnitudes as numbers: that is one instruction, too, and a NaN is canonical.
static Reduction getCombiningKind(ReduceOp reduce) {
  Reduction kind = reduce.getReduction();
  return kind == Reduction::AbsMax ? Reduction::Max : kind;
}

static Value accumulateTerm(CodeBuilder &builder, ReduceOp reduce, Value partial, Value element) {
  if (reduce.getReduction() == Reduction::AbsMax)
    element = builder.absF(element);
  return accumulate(builder, getCombiningKind(reduce), partial, element);
}

// At once where something waits: what they read is loaded once then. Otherwise one by one, which has fewer registers.
void BlockReducer::reduce(Value at, int64_t first) {
  for (auto [number, stage] : llvm::enumerate(getStages(sweep.getBody()))) {
    unsigned all = stage.getReductions().size(), count = chunk.kept.empty() ? 1 : all;
    for (unsigned begin = 0; begin < all; begin += count) {
      SmallVector<Value> own = reduceThread(at, first, {unsigned(number), begin, count});
      for (unsigned i = begin; i < begin + count; ++i) {
        ReduceOp reduce = stage.getReduceOps()[i];
        Value one = own[i - begin]; // the threads of a block are neighbours, a power of two of them
        int32_t threads = reduce.getRun() / chunk.width;
        for (int32_t distance = 1; distance < std::min<int32_t>(threads, warpThreads); distance *= 2)
          one = combine(builder, getCombiningKind(reduce), one, gpu.shuffleXor(one, distance));
        if (threads > warpThreads)
          one = gpu.combineWarps(getCombiningKind(reduce), one, threads / warpThreads);
        for (Region &body : sweep->getRegions())
          chunk.known.map(getStages(body)[number].getReductions()[i], one);
      }
    }
  }
}

SmallVector<ReduceOp> BlockReducer::getReductions(Region &body, Reduced some) {
  SmallVector<ReduceOp> all = getStages(body)[some.stage].getReduceOps();
  return SmallVector<ReduceOp>(ArrayRef(all).slice(some.begin, some.count));
}

// What is added in order has a place for each element.
SmallVector<Value> BlockReducer::begin(ArrayRef<ReduceOp> reduces) {
  SmallVector<Value> sums;
  for (ReduceOp reduce : reduces) {
    Type type =
        isOrdered(reduce.getReduction()) ? VectorType::get({chunk.width}, builder.getF32Type()) : reduce.getType();
    sums.push_back(neutral(builder, getCombiningKind(reduce), type));
  }
  return sums;
}

void BlockReducer::add(MutableArrayRef<Value> sums, ArrayRef<ReduceOp> reduces, ArrayRef<Value> values,
                       InsertTerm insert) {
  for (auto [sum, reduce, value] : llvm::zip(sums, reduces, values)) {
    Reduction kind = ReduceOp(reduce).getReduction();
    sum =
        isOrdered(kind) ? insert(sum, getBlockTerm(builder, kind, value)) : accumulateTerm(builder, reduce, sum, value);
  }
}

SmallVector<Value> BlockReducer::finish(SmallVector<Value> sums, ArrayRef<ReduceOp> reduces) {
  for (auto [sum, reduce] : llvm::zip(sums, reduces))
    if (Reduction kind = ReduceOp(reduce).getReduction(); isOrdered(kind))
      sum = combineNeighbours(builder, kind, splitVector(builder, sum));
    else if (isa<VectorType>(sum.getType()))
      sum = combineElements(builder, getCombiningKind(reduce), splitVector(builder, sum));
  return sums;
}

static SmallVector<Value> getReduced(ArrayRef<ReduceOp> reduces) {
  return llvm::map_to_vector(reduces, [](ReduceOp reduce) -> Value { return reduce.getValue(); });
}

SmallVector<Value> BlockReducer::reduceVectors(Value at, int64_t first, Reduced some) {
  Region &wide = sweep.getWide().front();
  SmallVector<ReduceOp> reduces = getReductions(wide, some);
  SmallVector<Value> sums = begin(reduces), wanted = getReduced(reduces), kept = chunk.kept.getStageValues(some.stage);
  llvm::append_range(wanted, kept);
  SmallVector<Value> words(sweep.getLoads().size());
  unsigned width = sweep.getWidth();
  for (unsigned number = 0; number < chunk.vectors(); ++number) {
    int64_t element = first + number * width;
    SmallVector<Value> loaded = kept.empty() ? chunk.streams.loadSeparateVector(element)
                                             : chunk.streams.loadVector(words, first, number, /*reload=*/false);
    Value index = chunk.draws.getIndex(at, element);
    SmallVector<Value> draws = chunk.draws.drawStrided(wide, index, 1);
    SmallVector<Value> values = cloneValues(builder, wide, wanted, {loaded, chunk.known, index, 1, draws});
    add(sums, reduces, values, [&](Value all, Value terms) {
      SmallVector<Value> elements = splitVector(builder, all);
      llvm::copy(splitVector(builder, terms), elements.begin() + number * width);
      return builder.fromElements(all.getType(), elements);
    });
    chunk.kept.store(some.stage, number, ArrayRef(values).drop_front(some.count));
  }
  return finish(sums, reduces);
}

SmallVector<Value> BlockReducer::reduceElements(Value at, int64_t first, Reduced some) {
  Region &narrow = sweep.getBody();
  SmallVector<ReduceOp> reduces = getReductions(narrow, some);
  SmallVector<Value> sums = begin(reduces), wanted = getReduced(reduces);
  Value from = builder.add(at, kernel.i32(first));
  Value to = builder.minSigned(builder.add(from, kernel.i32(chunk.width)), kernel.i32(0));
  Value positions =
      arith::ConstantOp::create(builder, builder.getI32VectorAttr(llvm::to_vector(llvm::seq<int32_t>(0, chunk.width))));
  sums = kernel.loopWith(from, to, kernel.i32(1), sums, [&](Value index, SmallVector<Value> before) {
    Value offset = builder.sub(index, from);
    SmallVector<Value> loaded = chunk.streams.loadElement(first, offset);
    Value global = chunk.draws.getIndex(index, 0);
    SmallVector<Value> draws = chunk.draws.drawStrided(narrow, global, 1);
    SmallVector<Value> values = cloneValues(builder, narrow, wanted, {loaded, chunk.known, global, 1, draws});
    add(before, reduces, values, [&](Value all, Value term) {
      Value here = builder.equal(positions, builder.broadcast(positions.getType(), offset));
      return builder.select(here, builder.broadcast(all.getType(), term), all);
    });
    return before;
  });
  return finish(sums, reduces);
}

// As vectors where all of a thread's elements exist and are aligned, otherwise one after the other.
SmallVector<Value> BlockReducer::reduceThread(Value at, int64_t first, Reduced some) {
  Value inside = builder.lessEqual(at, kernel.i32(-int32_t(first) - int32_t(chunk.width)));
  SmallVector<Type> types(some.count, builder.getF32Type());
  return branch(
      builder, builder.bitAnd(inside, chunk.aligned), types, [&] { return reduceVectors(at, first, some); },
      [&] { return reduceElements(at, first, some); });
}

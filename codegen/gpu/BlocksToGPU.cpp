// Blocks of elements on a GPU, each done by a few neighbouring threads. What a block has stored its first thread reads,
// for the others too: it may overwrite it. A reduction is each thread's over its own elements, then the threads' among
// themselves.
//
// All threads of a warp take part, those behind the tensor's end with nothing. A thread's elements are read once for
// each reduction and once more for the body.
#include "codegen/common/PackedCodes.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// The elements of one thread: as vectors where all of them exist and are aligned.
GpuLowering::Carried GpuLowering::threadInBlock(Chunk &chunk, Value at, Carried carried, unsigned part) {
  int32_t first = part * warpThreads * chunk.width;
  loadShared(chunk, at, part);
  reduceBlocks(chunk, at, part);
  Value inside = builder.lessEqual(at, kernel.i32(-first - int32_t(chunk.width)));
  inside = builder.bitAnd(inside, chunk.aligned);
  return ifElse(
      inside, carried, [&](Carried carried) { return vectorsAt(chunk, at, carried, part); },
      [&](Carried carried) {
        Value from = builder.add(at, kernel.i32(first));
        Value to = builder.minSigned(builder.add(from, kernel.i32(chunk.width)), kernel.i32(0));
        return oneByOne(chunk, from, to, 1, first, carried, part * chunk.vectors());
      });
}

Value GpuLowering::leads(Chunk &chunk, unsigned block) {
  int64_t threads = block / chunk.width;
  Value number = builder.bitAnd(rereadRegister("tid.x"), kernel.i64(threads - 1));
  return builder.equal(number, kernel.i64(0));
}

// Threads join magnitudes as numbers: that is one instruction, too, and a NaN is canonical.
static Reduction joinedBy(ReduceOp reduce) {
  Reduction kind = reduce.getReduction();
  return kind == Reduction::AbsMax ? Reduction::Max : kind;
}

static Value grown(CodeBuilder &builder, ReduceOp reduce, Value partial, Value element) {
  if (reduce.getReduction() == Reduction::AbsMax)
    element = builder.absF(element);
  return accumulate(builder, joinedBy(reduce), partial, element);
}

// At once where something waits: what they read is loaded once then. Otherwise one by one, which has fewer registers.
void GpuLowering::reduceBlocks(Chunk &chunk, Value at, unsigned part) {
  for (auto [number, stage] : llvm::enumerate(getStages(chunk.sweep.getBody()))) {
    unsigned all = stage.getReductions().size(), count = chunk.kept.empty() ? 1 : all;
    for (unsigned first = 0; first < all; first += count) {
      SmallVector<Value> own = reduceOwn(chunk, at, part, {unsigned(number), first, count});
      for (unsigned i = first; i < first + count; ++i) {
        ReduceOp reduce = stage.getReduceOps()[i];
        Value one = own[i - first]; // the threads of a block are neighbours, a power of two of them
        for (int32_t distance = 1; distance < reduce.getRun() / chunk.width; distance *= 2)
          one = join(builder, joinedBy(reduce), one, exchanged(one, distance));
        for (Region &body : chunk.sweep->getRegions())
          chunk.known.map(getStages(body)[number].getReductions()[i], one);
      }
    }
  }
}

// The code that the first thread of a block has.
Value GpuLowering::fromFirst(Chunk &chunk, Value code, unsigned block) {
  Type type = code.getType(), i32 = builder.getI32Type();
  Value word = type.isF32() ? builder.cast(i32, code) : builder.extendUnsigned(i32, code);
  int32_t threads = block / chunk.width;
  // Lane 0 of as many as a block has, by the mask of such segments of a warp.
  int32_t segments = (warpThreads - threads) << 8 | (warpThreads - 1);
  word = shuffled(NVVM::ShflKind::idx, word, 0, segments);
  if (type.isF32())
    return builder.cast(type, word);
  return builder.truncate(type, word);
}

// What blocks share, where a condition holds, and 0 elsewhere.
Value GpuLowering::codeIf(Value condition, Type type, Value tensors, function_ref<Value()> at) {
  auto read = [&] { return kernel.load(type, at(), getBytes(tensors)); };
  return branch(builder, condition, type, read, [&] { return builder.splat({}, builder.getZeroAttr(type)); });
}

void GpuLowering::loadShared(Chunk &chunk, Value at, unsigned part) {
  int64_t first = part * warpThreads * chunk.width;
  for (auto [argument, tensors] : llvm::zip(chunk.sweep.getBody().getArguments(), chunk.sweep.getLoads())) {
    if (getBlock(tensors) == 1)
      continue;
    Type type = argument.getType();
    Value exists = builder.less(at, kernel.i32(-int32_t(first)));
    Value reads = builder.bitAnd(exists, leads(chunk, getBlock(tensors)));
    Value code = codeIf(reads, type, tensors, [&, tensors = tensors] { return address(chunk, tensors, first); });
    chunk.shared.map(tensors, fromFirst(chunk, code, getBlock(tensors)));
  }
}

// The number of the thread whose place in the warp differs in that bit.
Value GpuLowering::exchanged(Value own, int32_t distance) { return shuffled(NVVM::ShflKind::bfly, own, distance); }

Value GpuLowering::shuffled(NVVM::ShflKind kind, Value own, int32_t by, int32_t clamp) {
  return NVVM::ShflOp::create(builder, own.getType(), kernel.i32(-1), own, kernel.i32(by), kernel.i32(clamp), kind,
                              /*return_value_and_is_valid=*/UnitAttr());
}

// A vector of each stream. LLVM makes accesses of several, where nothing is stored
// between them, and leaves out what a reduction does not read.
SmallVector<Value> GpuLowering::loadAlone(Chunk &chunk, int64_t element) {
  SweepOp sweep = chunk.sweep;
  SmallVector<Value> loaded;
  for (auto [argument, tensors] : llvm::zip(sweep.getWide().front().getArguments(), sweep.getLoads())) {
    Type type = argument.getType();
    Value one = chunk.shared.lookupOrNull(tensors);
    loaded.push_back(one ? builder.broadcast(type, one)
                         : loadCodes(kernel, tensors, cast<VectorType>(type), address(chunk, tensors, element),
                                     sweep.getWidth() * getBytes(tensors)));
  }
  return loaded;
}

// The tree over neighbours.
static Value joinNeighbours(CodeBuilder &builder, Reduction kind, SmallVector<Value> elements) {
  for (; elements.size() > 1; elements.truncate(elements.size() / 2))
    for (size_t i = 0; i < elements.size() / 2; ++i)
      elements[i] = join(builder, kind, elements[2 * i], elements[2 * i + 1]);
  return elements[0];
}

// What a thread's own elements give, for some reductions: as vectors where all
// of them exist and are aligned, otherwise one after the other. What is added in order has a place for each element.
SmallVector<Value> GpuLowering::reduceOwn(Chunk &chunk, Value at, unsigned part, Reduced some) {
  SweepOp sweep = chunk.sweep;
  int64_t first = part * warpThreads * chunk.width;
  auto getReductions = [&](Region &body) {
    SmallVector<ReduceOp> all = getStages(body)[some.stage].getReduceOps();
    return SmallVector<ReduceOp>(ArrayRef(all).slice(some.begin, some.count));
  };
  SmallVector<Value> sums, wanted;
  auto begin = [&](ArrayRef<ReduceOp> reduces) {
    sums.clear(), wanted.clear();
    for (ReduceOp reduce : reduces) {
      Type type =
          isOrdered(reduce.getReduction()) ? VectorType::get({chunk.width}, builder.getF32Type()) : reduce.getType();
      sums.push_back(neutral(builder, joinedBy(reduce), type));
      wanted.push_back(reduce.getValue());
    }
  };
  auto grow = [&](MutableArrayRef<Value> sums, ArrayRef<ReduceOp> reduces, ArrayRef<Value> values,
                  function_ref<Value(Value, Value)> place) {
    for (auto [sum, reduce, value] : llvm::zip(sums, reduces, values)) {
      Reduction kind = ReduceOp(reduce).getReduction();
      sum = isOrdered(kind) ? place(sum, getBlockTerm(builder, kind, value)) : grown(builder, reduce, sum, value);
    }
  };
  auto finish = [&](MutableArrayRef<Value> sums, ArrayRef<ReduceOp> reduces) {
    for (auto [sum, reduce] : llvm::zip(sums, reduces))
      if (Reduction kind = ReduceOp(reduce).getReduction(); isOrdered(kind))
        sum = joinNeighbours(builder, kind, splitVector(sum));
      else if (isa<VectorType>(sum.getType()))
        sum = joinElements(joinedBy(reduce), splitVector(sum));
  };
  auto ofVectors = [&] {
    Region &wide = sweep.getWide().front();
    SmallVector<ReduceOp> reduces = getReductions(wide);
    begin(reduces);
    SmallVector<Kept> kept;
    llvm::copy_if(chunk.kept, std::back_inserter(kept), [&](const Kept &one) { return one.stage == some.stage; });
    for (const Kept &one : kept)
      wanted.push_back(one.values.front());
    SmallVector<Value> words(sweep.getLoads().size());
    unsigned width = sweep.getWidth();
    for (unsigned number = 0; number < chunk.vectors(); ++number) {
      int64_t element = first + number * width;
      SmallVector<Value> loaded =
          kept.empty() ? loadAlone(chunk, element) : loadVector(chunk, words, first, number, /*again=*/false);
      Value index = getIndex(chunk, at, element);
      SmallVector<Value> draws = drawApart(chunk, wide, index, 1);
      SmallVector<Value> values = cloneValues(builder, wide, wanted, {loaded, chunk.known, index, 1, draws});
      grow(sums, reduces, values, [&](Value all, Value terms) {
        SmallVector<Value> elements = splitVector(all);
        llvm::copy(splitVector(terms), elements.begin() + number * width);
        return builder.fromElements(all.getType(), elements);
      });
      for (auto [one, value] : llvm::zip(kept, ArrayRef(values).drop_front(some.count)))
        kernel.store(value, getSlot(one, number, width), width * sizeof(float));
    }
    finish(sums, reduces);
    return sums;
  };
  auto oneByOne = [&] {
    Region &narrow = sweep.getBody();
    SmallVector<ReduceOp> reduces = getReductions(narrow);
    begin(reduces);
    Value from = builder.add(at, kernel.i32(first));
    Value to = builder.minSigned(builder.add(from, kernel.i32(chunk.width)), kernel.i32(0));
    Value places = arith::ConstantOp::create(
        builder, builder.getI32VectorAttr(llvm::to_vector(llvm::seq<int32_t>(0, chunk.width))));
    sums = kernel.loopWith(from, to, kernel.i32(1), sums, [&](Value index, SmallVector<Value> before) {
      Value offset = builder.sub(index, from);
      SmallVector<Value> loaded = loadElement(chunk, first, offset);
      Value global = getIndex(chunk, index, 0);
      SmallVector<Value> draws = drawApart(chunk, narrow, global, 1);
      SmallVector<Value> values = cloneValues(builder, narrow, wanted, {loaded, chunk.known, global, 1, draws});
      grow(before, reduces, values, [&](Value all, Value term) {
        Value here = builder.equal(places, builder.broadcast(places.getType(), offset));
        return builder.select(here, builder.broadcast(all.getType(), term), all);
      });
      return before;
    });
    finish(sums, reduces);
    return sums;
  };
  Value inside = builder.lessEqual(at, kernel.i32(-int32_t(first) - int32_t(chunk.width)));
  SmallVector<Type> types(some.count, builder.getF32Type());
  return branch(builder, builder.bitAnd(inside, chunk.aligned), types, ofVectors, oneByOne);
}

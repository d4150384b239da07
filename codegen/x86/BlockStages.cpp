// Block by block on a host: what a block reduces, then what depends on it. Values that
// are computed before and asked for after wait in the caches, so none is computed twice.
#include "codegen/x86/HostLowering.h"

#include "dialect/Codecs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

// How many codes of a book are decoded at once.
static constexpr int64_t codesAtOnce = 32;

// By permutations, of which there are fewer the more codes they are for.
static bool isBookDecoded(Value value) {
  auto decode = value.getDefiningOp<DecodeOp>();
  return decode && tableOf(decode) && decode.getFormat().getBits() == 8 && isa<BlockArgument>(decode.getCode());
}

BlockStages::BlockStages(SweepOp sweep, Region &body, bool booksFirst) : sweep(sweep), body(body) {
  llvm::SetVector<unsigned> found;
  for (ValueRange streams : {ValueRange(sweep.getLoads()), ValueRange(sweep.getStores())})
    for (Value stream : streams)
      found.insert(blockOf(stream));
  for (ReduceOp reduce : blockReductions(body))
    found.insert(reduce.getRun());
  found.insert(sweep.getBlock()); // of packed codes without scales
  found.remove(1);
  sizes = found.takeVector();
  llvm::sort(sizes, std::greater<>());
  this->booksFirst = booksFirst && sizes[0] % codesAtOnce == 0 && llvm::any_of(body.getOps<DecodeOp>(), isBookDecoded);
  unsigned begin = first();
  for (auto [argument, stream] : llvm::zip(body.getArguments(), sweep.getLoads()))
    places[argument] = {begin, blockOf(stream) == 1};
  for (Operation &op : body.front().without_terminator()) {
    Place place{begin, isa<IndexOp>(op)};
    for (Value operand : op.getOperands()) {
      Place of = placeOf(operand);
      place = {std::max(place.stage, of.stage), place.varies || of.varies};
    }
    if (isa<ReduceOp>(op))
      place = {place.stage + 1, false};
    for (Value result : op.getResults())
      places[result] = begin > 0 && isBookDecoded(result) ? Place{0, true} : place;
  }
  unsigned last = begin;
  for (auto &[value, place] : places)
    last = std::max(last, place.stage);
  stages.resize(last + 1);
  auto stageOf = [&](Value value) -> Stage & { return stages[std::max(placeOf(value).stage, begin)]; };
  for (ReduceOp reduce : blockReductions(body))
    stageOf(reduce.getValue()).reductions.push_back(reduce);
  for (auto [index, value] : llvm::enumerate(body.front().getTerminator()->getOperands()))
    stageOf(value).emitted.push_back(index);
  for (unsigned stage = 1; stage <= last; ++stage)
    keepFor(stage);
}

BlockStages::Place BlockStages::placeOf(Value value) const {
  return places.lookup(value); // scalars of the step: the first stage, the same
}

// What is the same for a block's elements is computed where it is asked for.
void BlockStages::keepFor(unsigned stage) {
  SmallVector<Value> work;
  for (ReduceOp reduce : stages[stage].reductions)
    work.push_back(reduce.getValue());
  for (size_t index : stages[stage].emitted)
    work.push_back(body.front().getTerminator()->getOperand(index));
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Place place = placeOf(value);
    if (place.varies && place.stage < stage)
      stages[place.stage].kept.insert(value);
    else if (Operation *op = value.getDefiningOp(); op && op->getParentRegion() == &body && !isa<ReduceOp>(op))
      llvm::append_range(work, op->getOperands());
  }
}

// A truth value takes a byte.
static Type keptType(Type type) {
  if (!getElementTypeOrSelf(type).isInteger(1))
    return type;
  Type byte = IntegerType::get(type.getContext(), 8);
  auto vector = dyn_cast<VectorType>(type);
  return vector ? VectorType::get(vector.getShape(), byte) : byte;
}

// Of a number or a code, wherever its blocks share it.
static constexpr unsigned sharedBytes = 4;

static unsigned keptBytes(Value value) {
  return getElementTypeOrSelf(keptType(value.getType())).getIntOrFloatBitWidth() / 8;
}

void BlockStages::allocate(KernelBuilder &kernel) {
  auto allocate = [&](Value value, unsigned count, unsigned bytes) {
    memory[value] = LLVM::AllocaOp::create(kernel.builder, kernel.pointerType(), kernel.builder.getI8Type(),
                                           kernel.i64(count * bytes), /*alignment=*/64);
  };
  for (const Stage &stage : stages)
    for (Value value : stage.kept)
      allocate(value, sizes[0], keptBytes(value));
  for (unsigned size : ArrayRef(sizes).drop_front()) {
    for (unsigned number : sharedBy(size))
      allocate(body.getArgument(number), sizes[0] / size, sharedBytes);
    for (ReduceOp reduce : reducedBefore(stages.size(), size))
      allocate(reduce, sizes[0] / size, sharedBytes);
  }
}

SmallVector<unsigned> BlockStages::sharedBy(unsigned size) const {
  SmallVector<unsigned> numbers;
  for (auto [number, stream] : llvm::enumerate(SweepOp(sweep).getLoads()))
    if (blockOf(stream) == size)
      numbers.push_back(number);
  return numbers;
}

SmallVector<ReduceOp> BlockStages::reducedBefore(unsigned stage, unsigned size) const {
  SmallVector<ReduceOp> found;
  for (ReduceOp reduce : blockReductions(body))
    if (reduce.getRun() == size && placeOf(reduce).stage <= stage)
      found.push_back(reduce);
  return found;
}

void BlockStages::keepShared(KernelBuilder &kernel, Value value, Value now, Value place) const {
  kernel.store(now, kernel.offset(memory.lookup(value), place, sharedBytes), sharedBytes);
}

Value BlockStages::takeShared(KernelBuilder &kernel, Value value, Value place) const {
  Type type = value.getType();
  if (auto vector = dyn_cast<VectorType>(type))
    type = vector.getElementType();
  return kernel.load(type, kernel.offset(memory.lookup(value), place, sharedBytes), sharedBytes);
}

Value BlockStages::slot(KernelBuilder &kernel, Value value, Value place) const {
  return kernel.offset(memory.lookup(value), place, keptBytes(value));
}

void BlockStages::keep(KernelBuilder &kernel, Value value, Value now, Value place) const {
  Type type = keptType(value.getType());
  if (type != now.getType())
    now = kernel.builder.widen(type, now);
  kernel.store(now, slot(kernel, value, place), keptBytes(value));
}

Value BlockStages::take(KernelBuilder &kernel, Value value, Value place) const {
  Type type = keptType(value.getType());
  Value kept = kernel.load(type, slot(kernel, value, place), keptBytes(value));
  if (type == value.getType())
    return kept;
  return kernel.builder.narrow(value.getType(), kept);
}

// The codes of a block.
void HostLowering::decodeBooks(HostChunk &chunk, const BlockStages &stages, Value from, Value to) {
  constexpr int64_t many = codesAtOnce;
  for (Value number : stages.at(0).kept)
    kernel.loop(from, to, kernel.i64(many), [&](Value index) {
      auto decode = number.getDefiningOp<DecodeOp>();
      unsigned which = cast<BlockArgument>(decode.getCode()).getArgNumber();
      Value stream = chunk.sweep.getLoads()[which];
      auto codes = VectorType::get({many}, getElementTypeOrSelf(decode.getCode()));
      Value code = kernel.load(codes, elementAt(kernel, stream, chunk.loads[which], index), bytesOf(stream));
      Value place = builder.sub(index, from);
      kernel.store(DecodeOp::create(builder, VectorType::get({many}, builder.getF32Type()), code, decode.getFormat()),
                   stages.slot(kernel, number, place), sizeof(float));
    });
}

// The elements from `from` to `to`, all of one block of each size, in one stage.
SmallVector<Value> HostLowering::blockElements(HostChunk &chunk, const BlockStages &stages, BlockRange range,
                                               ArrayRef<ReduceOp> reductions, SmallVector<Value> most) {
  const BlockStages::Stage &stage = stages.at(range.number);
  Region &body = stages.getBody();
  int64_t width = range.width;
  SmallVector<Value> wanted;
  for (ReduceOp reduce : reductions)
    wanted.push_back(reduce.getValue());
  for (size_t index : stage.emitted)
    wanted.push_back(body.front().getTerminator()->getOperand(index));
  llvm::append_range(wanted, stage.kept);
  auto once = [&](Value index, SmallVector<Value> most) {
    Value place = builder.sub(index, range.first);
    IRMapping known(chunk.known);
    // Behind codes that were decoded before, prefetches cost a Zen 4 a twelfth.
    SmallVector<Value> loaded = load(chunk, body, width, index, width > 1 && range.number == 0);
    for (unsigned before = 0; before < range.number; ++before)
      for (Value value : stages.at(before).kept) {
        Value kept = stages.take(kernel, value, place);
        if (auto argument = dyn_cast<BlockArgument>(value))
          loaded[argument.getArgNumber()] = kept;
        else
          known.map(value, kept);
      }
    SmallVector<Value> values = cloneValues(builder, body, wanted, {loaded, known, indexOf(chunk, index)});
    for (auto [i, before] : llvm::enumerate(most)) {
      ReduceOp reduce = reductions[i];
      before = accumulate(builder, reduce.getReduction(), before, values[i]);
    }
    auto rest = ArrayRef(values).drop_front(most.size());
    // Before an element that is read again is overwritten.
    for (auto [value, now] : llvm::zip(stage.kept, rest.drop_front(stage.emitted.size())))
      stages.keep(kernel, value, now, place);
    for (auto [which, value] : llvm::zip(stage.emitted, rest))
      emit(chunk, which, width, index, value);
    return most;
  };
  return kernel.loopWith(range.from, range.to, kernel.i64(width), most, once);
}

// What a block of this size shares, before one of its elements overwrites it.
void HostLowering::share(HostChunk &chunk, const BlockStages &stages, const BlockRange &range, unsigned size) {
  bool largest = size == stages.getSizes().front();
  bool later = range.number > stages.first();
  if (largest && later)
    return;
  Value place = builder.right(builder.sub(range.from, range.first), kernel.i64(llvm::Log2_32(size)));
  Region &narrow = chunk.sweep.getBody();
  for (unsigned number : stages.sharedBy(size)) {
    Value stream = chunk.sweep.getLoads()[number];
    Value argument = stages.getBody().getArgument(number), code;
    if (later) {
      code = stages.takeShared(kernel, argument, place);
    } else {
      code = kernel.load(narrow.getArgument(number).getType(),
                         elementAt(kernel, stream, chunk.loads[number], range.from), bytesOf(stream));
      if (!largest)
        stages.keepShared(kernel, argument, code, place);
    }
    chunk.shared.map(stream, code);
  }
  if (!largest)
    for (ReduceOp reduce : stages.reducedBefore(range.number, size))
      chunk.known.map(reduce.getResult(), stages.takeShared(kernel, reduce, place));
}

// One stage of a block, and of the smaller ones inside it; gives what reductions over
// larger ones, `outer`, have so far.
SmallVector<Value> HostLowering::blocksOf(HostChunk &chunk, const BlockStages &stages, BlockRange range,
                                          ArrayRef<unsigned> sizes, ArrayRef<ReduceOp> outer, SmallVector<Value> most) {
  unsigned size = sizes[0];
  share(chunk, stages, range, size);
  SmallVector<ReduceOp> all(outer);
  for (ReduceOp reduce : stages.at(range.number).reductions)
    if (reduce.getRun() == size) {
      all.push_back(reduce);
      most.push_back(neutral(builder, reduce.getReduction(), reduce.getType()));
    }
  if (sizes.size() == 1) {
    most = blockElements(chunk, stages, range, all, most);
  } else {
    unsigned inner = sizes[1];
    most = kernel.loopWith(range.from, range.to, kernel.i64(inner), most, [&](Value from, SmallVector<Value> most) {
      Value to = builder.add(from, kernel.i64(inner));
      if (range.width == 1) // the last one may be short
        to = builder.least(to, range.to);
      return blocksOf(chunk, stages, {range.number, range.width, range.first, from, to}, sizes.drop_front(), all, most);
    });
  }
  for (auto [reduce, value] : llvm::drop_begin(llvm::zip(all, most), outer.size())) {
    Value one = range.width > 1 ? joinLanes(reduce.getReduction(), value) : value;
    if (size == stages.getSizes().front())
      chunk.known.map(reduce.getResult(), one);
    else
      stages.keepShared(kernel, reduce, one,
                        builder.right(builder.sub(range.from, range.first), kernel.i64(llvm::Log2_32(size))));
  }
  most.truncate(outer.size());
  return most;
}

// The last block may be short.
void HostLowering::blocks(HostChunk &chunk, ArrayRef<BlockStages> bodies, Value count) {
  SweepOp sweep = chunk.sweep;
  int64_t block = sweep.getBlock();
  auto all = [&](const BlockStages &stages, int64_t width, Value from, Value to) {
    if (stages.first() > 0)
      decodeBooks(chunk, stages, from, to);
    for (unsigned number = stages.first(); number < stages.size(); ++number)
      blocksOf(chunk, stages, {number, width, from, from, to}, stages.getSizes(), {}, {});
  };
  Value whole = builder.both(count, kernel.i64(-block));
  kernel.loop(kernel.i64(0), whole, kernel.i64(block),
              [&](Value from) { all(bodies[1], sweep.getWidth(), from, builder.add(from, kernel.i64(block))); });
  Value some = builder.less(whole, count);
  kernel.when(some, [&] { all(bodies[0], 1, whole, count); });
}

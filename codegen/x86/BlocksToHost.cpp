// Block by block on a host.
#include "codegen/x86/HostBlocks.h"

using namespace mlir;
using namespace altgrad;

// A truth value takes a byte.
static Type getMemoryType(Type type) {
  if (!getElementTypeOrSelf(type).isInteger(1))
    return type;
  Type byte = IntegerType::get(type.getContext(), 8);
  auto vector = dyn_cast<VectorType>(type);
  return vector ? VectorType::get(vector.getShape(), byte) : byte;
}

// Of a number or a code, wherever its blocks share it.
static constexpr unsigned sharedEntryBytes = 4;

static unsigned getMemoryBytes(Value value) {
  return getElementTypeOrSelf(getMemoryType(value.getType())).getIntOrFloatBitWidth() / 8;
}

BlockBody::BlockBody(KernelBuilder &kernel, SweepOp sweep, Region &body)
    : body(body), stages(getStages(body)), first(&body != &sweep.getBody() && stages[0].hasOnlyKept()), kernel(kernel),
      sweep(sweep) {
  llvm::SetVector<unsigned> found;
  for (Value stream : getStreams(sweep))
    found.insert(isPerTileBlock(stream) ? 1 : getBlock(stream));
  for (ReduceOp reduce : getBlockReductions(body))
    found.insert(reduce.getRun());
  found.insert(sweep.getBlock()); // of packed codes without scales
  found.remove(1);
  sizes = found.takeVector();
  llvm::sort(sizes, std::greater<>());
  auto allocateStack = [&](unsigned count, unsigned bytes) -> Value {
    return LLVM::AllocaOp::create(kernel.builder, kernel.pointerType(), kernel.builder.getI8Type(),
                                  kernel.i64(count * bytes), /*alignment=*/64);
  };
  auto allocate = [&](Value value, unsigned count, unsigned bytes) { memory[value] = allocateStack(count, bytes); };
  for (StageOp stage : stages) {
    for (Value value : stage.getKept())
      allocate(value, sizes[0], getMemoryBytes(value));
    for (ReduceOp reduce : stage.getReduceOps())
      if (Reduction kind = reduce.getReduction(); isOrdered(kind))
        terms[reduce] =
            Lanes(kernel, kind, SweepOp(sweep).getWidth(), reduce.getRun(), allocateStack(reduce.getRun(), laneBytes));
  }
  for (unsigned size : ArrayRef(sizes).drop_front()) {
    for (unsigned number : getSharedLoads(size))
      allocate(body.getArgument(number), sizes[0] / size, sharedEntryBytes);
    for (ReduceOp reduce : getEarlierReductions(stages.size(), size))
      allocate(reduce, sizes[0] / size, sharedEntryBytes);
  }
}

SmallVector<unsigned> BlockBody::getSharedLoads(unsigned size) const {
  SmallVector<unsigned> numbers;
  for (auto [number, stream] : llvm::enumerate(SweepOp(sweep).getLoads()))
    if (getBlock(stream) == size && !isPerTileBlock(stream))
      numbers.push_back(number);
  return numbers;
}

SmallVector<ReduceOp> BlockBody::getEarlierReductions(unsigned stage, unsigned size) const {
  SmallVector<ReduceOp> found;
  for (StageOp before : ArrayRef(stages).take_front(stage))
    llvm::copy_if(before.getReduceOps(), std::back_inserter(found),
                  [&](ReduceOp reduce) { return reduce.getRun() == size; });
  return found;
}

void BlockBody::storeShared(Value value, Value now, Value position) const {
  kernel.store(now, kernel.offset(memory.lookup(value), position, sharedEntryBytes), sharedEntryBytes);
}

Value BlockBody::loadShared(Value value, Value position) const {
  Type type = value.getType();
  if (auto vector = dyn_cast<VectorType>(type))
    type = vector.getElementType();
  return kernel.load(type, kernel.offset(memory.lookup(value), position, sharedEntryBytes), sharedEntryBytes);
}

Value BlockBody::slot(Value value, Value position) const {
  return kernel.offset(memory.lookup(value), position, getMemoryBytes(value));
}

void BlockBody::storeKept(Value value, Value now, Value position) const {
  Type type = getMemoryType(value.getType());
  if (type != now.getType())
    now = kernel.builder.extendUnsigned(type, now);
  kernel.store(now, slot(value, position), getMemoryBytes(value));
}

Value BlockBody::loadKept(Value value, Value position) const {
  Type type = getMemoryType(value.getType());
  Value kept = kernel.load(type, slot(value, position), getMemoryBytes(value));
  if (type == value.getType())
    return kept;
  return kernel.builder.truncate(value.getType(), kept);
}

// The codes of a block.
void HostBlocks::decodeBooks(HostChunk &chunk, const BlockBody &body, Value from, Value to) {
  constexpr int64_t many = codesPerDecode;
  for (Value number : StageOp(body.stages[0]).getKept())
    kernel.loop(from, to, kernel.i64(many), [&](Value index) {
      auto decode = number.getDefiningOp<DecodeOp>();
      unsigned which = cast<BlockArgument>(decode.getCode()).getArgNumber();
      Value stream = sweep.getLoads()[which];
      auto codes = VectorType::get({many}, getElementTypeOrSelf(decode.getCode()));
      Value code =
          kernel.load(codes, getElementPointer(kernel, stream, chunk.loadPointers[which], index), getBytes(stream));
      Value position = builder.sub(index, from);
      kernel.store(DecodeOp::create(builder, VectorType::get({many}, builder.getF32Type()), code, decode.getFormat()),
                   body.slot(number, position), sizeof(float));
    });
}

// The elements from `from` to `to`, all of one block of each size, in one stage.
SmallVector<Value> HostBlocks::lowerElements(HostChunk &chunk, const BlockBody &body, BlockRange range,
                                             ArrayRef<ReduceOp> reductions, SmallVector<Value> most) {
  StageOp stage = body.stages[range.number];
  int64_t width = range.width;
  SmallVector<Value> wanted;
  for (ReduceOp reduce : reductions)
    wanted.push_back(reduce.getValue());
  llvm::append_range(wanted, llvm::drop_begin(stage.getRequired(), stage.getReductions().size()));
  auto once = [&](Value index, SmallVector<Value> most) {
    Value position = builder.sub(index, range.first);
    IRMapping known(chunk.known);
    // Behind codes that were decoded before, prefetches cost a Zen 4 a twelfth.
    SmallVector<Value> loaded = elements.load(chunk, body.body, width, index, width > 1 && range.number == 0);
    for (StageOp before : ArrayRef(body.stages).take_front(range.number))
      for (Value value : before.getKept()) {
        Value kept = body.loadKept(value, position);
        if (auto argument = dyn_cast<BlockArgument>(value))
          loaded[argument.getArgNumber()] = kept;
        else
          known.map(value, kept);
      }
    SmallVector<Value> draws = elements.draws.loadDraws(chunk, body.body, index);
    SmallVector<Value> values =
        cloneValues(builder, body.body, wanted, {loaded, known, elements.getIndex(chunk, index), 1, draws});
    for (auto [reduce, before, value] : llvm::zip(reductions, most, values))
      if (Reduction kind = ReduceOp(reduce).getReduction(); isOrdered(kind))
        kernel.store(getBlockTerm(builder, kind, value), body.terms.lookup(reduce).at(position), laneBytes);
      else
        before = accumulate(builder, kind, before, value);
    auto rest = ArrayRef(values).drop_front(most.size());
    // Before an element that is read again is overwritten.
    for (auto [value, now] : llvm::zip(stage.getKept(), rest.drop_front(stage.getEmitted().size())))
      body.storeKept(value, now, position);
    for (auto [which, value] : llvm::zip(stage.getEmitted(), rest))
      elements.emit(chunk, which, width, index, value);
    return most;
  };
  return kernel.loopWith(range.from, range.to, kernel.i64(width), most, once);
}

// What a block of this size shares, before one of its elements overwrites it.
void HostBlocks::loadBlockShared(HostChunk &chunk, const BlockBody &body, const BlockRange &range, unsigned size) {
  bool largest = size == body.sizes.front();
  bool later = range.number > body.first;
  if (largest && later)
    return;
  Value position = builder.shiftRight(builder.sub(range.from, range.first), kernel.i64(llvm::Log2_32(size)));
  Region &narrow = sweep.getBody();
  for (unsigned number : body.getSharedLoads(size)) {
    Value stream = sweep.getLoads()[number];
    Value argument = body.body.getArgument(number), code;
    if (later) {
      code = body.loadShared(argument, position);
    } else {
      code = kernel.load(narrow.getArgument(number).getType(),
                         getElementPointer(kernel, stream, chunk.loadPointers[number], range.from), getBytes(stream));
      if (!largest)
        body.storeShared(argument, code, position);
    }
    chunk.shared.map(stream, code);
  }
  if (!largest)
    for (ReduceOp reduce : body.getEarlierReductions(range.number, size))
      chunk.known.map(reduce.getResult(), body.loadShared(reduce, position));
}

// One stage of a block, and of the smaller ones inside it; gives what reductions over
// larger ones, `outer`, have so far.
SmallVector<Value> HostBlocks::lowerStage(HostChunk &chunk, const BlockBody &body, BlockRange range,
                                          ArrayRef<unsigned> sizes, ArrayRef<ReduceOp> outer, SmallVector<Value> most) {
  unsigned size = sizes[0];
  loadBlockShared(chunk, body, range, size);
  SmallVector<ReduceOp> all(outer);
  for (ReduceOp reduce : StageOp(body.stages[range.number]).getReduceOps())
    if (reduce.getRun() == size) {
      all.push_back(reduce);
      if (isOrdered(reduce.getReduction()) && range.width == 1) // it may be short
        body.terms.lookup(reduce).clear();
      most.push_back(neutral(builder, reduce.getReduction(), reduce.getType()));
    }
  if (sizes.size() == 1) {
    most = lowerElements(chunk, body, range, all, most);
  } else {
    unsigned inner = sizes[1];
    most = kernel.loopWith(range.from, range.to, kernel.i64(inner), most, [&](Value from, SmallVector<Value> most) {
      Value to = builder.add(from, kernel.i64(inner));
      if (range.width == 1) // the last one may be short
        to = builder.minSigned(to, range.to);
      return lowerStage(chunk, body, {range.number, range.width, range.first, from, to}, sizes.drop_front(), all, most);
    });
  }
  for (auto [reduce, value] : llvm::drop_begin(llvm::zip(all, most), outer.size())) {
    Value one = isOrdered(reduce.getReduction()) ? body.terms.lookup(reduce).totalOfNeighbours()
                : range.width > 1                ? combineLanes(builder, reduce.getReduction(), value)
                                                 : value;
    if (size == body.sizes.front())
      chunk.known.map(reduce.getResult(), one);
    else
      body.storeShared(reduce, one,
                       builder.shiftRight(builder.sub(range.from, range.first), kernel.i64(llvm::Log2_32(size))));
  }
  most.truncate(outer.size());
  return most;
}

HostBlocks::HostBlocks(const HostEmitter &emitter, HostElements &elements)
    : HostEmitter(emitter), elements(elements), narrow(kernel, sweep, sweep.getBody()),
      wide(kernel, sweep, sweep.getWide().front()) {}

void HostBlocks::lowerStages(HostChunk &chunk, const BlockBody &body, int64_t width, Value from, Value to) {
  if (body.first > 0)
    decodeBooks(chunk, body, from, to);
  for (unsigned number = body.first; number < body.stages.size(); ++number)
    lowerStage(chunk, body, {number, width, from, from, to}, body.sizes, {}, {});
}

void HostBlocks::lower(HostChunk &chunk, Value count) {
  int64_t block = sweep.getBlock();
  Value whole = builder.bitAnd(count, kernel.i64(-block));
  kernel.loop(kernel.i64(0), whole, kernel.i64(block), [&](Value from) {
    lowerStages(chunk, wide, sweep.getWidth(), from, builder.add(from, kernel.i64(block)));
  });
  Value some = builder.less(whole, count);
  kernel.when(some, [&] { lowerStages(chunk, narrow, 1, whole, count); });
}

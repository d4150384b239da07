// Block by block on a host: what a block reduces, then what depends on it. Values that
// are computed before and asked for after wait in the caches, so none is computed twice.
#include "codegen/kernels/host/HostLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

// By permutations, of which there are fewer the more codes they are for.
static bool isBookDecoded(Value value) {
  auto decode = value.getDefiningOp<DecodeOp>();
  return decode && decode.getFormat().isBook() &&
         decode.getFormat().toFormat().bits() == 8 &&
         isa<BlockArgument>(decode.getCode());
}

BlockStages::BlockStages(SweepOp sweep, Region &body, bool booksFirst)
    : body(body),
      booksFirst(booksFirst && llvm::any_of(body.getOps<DecodeOp>(),
                                            isBookDecoded)) {
  unsigned begin = first();
  for (auto [argument, stream] :
       llvm::zip(body.getArguments(), sweep.getLoads()))
    places[argument] = {begin, blockOf(stream) == 1};
  for (Operation &op : body.front().without_terminator()) {
    Place place{begin, isa<IndexOp>(op)};
    for (Value operand : op.getOperands()) {
      Place of = placeOf(operand);
      place = {std::max(place.stage, of.stage), place.varies || of.varies};
    }
    if (isa<BlockReduceOp>(op))
      place = {place.stage + 1, false};
    for (Value result : op.getResults())
      places[result] =
          begin > 0 && isBookDecoded(result) ? Place{0, true} : place;
  }
  unsigned last = begin;
  for (auto &[value, place] : places)
    last = std::max(last, place.stage);
  stages.resize(last + 1);
  auto stageOf = [&](Value value) -> Stage & {
    return stages[std::max(placeOf(value).stage, begin)];
  };
  for (BlockReduceOp reduce : blockReductions(body))
    stageOf(reduce.getValue()).reductions.push_back(reduce);
  for (auto [index, value] :
       llvm::enumerate(body.front().getTerminator()->getOperands()))
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
  for (BlockReduceOp reduce : stages[stage].reductions)
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
    else if (Operation *op = value.getDefiningOp();
             op && op->getParentRegion() == &body && !isa<BlockReduceOp>(op))
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

static unsigned keptBytes(Value value) {
  return getElementTypeOrSelf(keptType(value.getType()))
             .getIntOrFloatBitWidth() /
         8;
}

void BlockStages::allocate(KernelBuilder &kernel, int64_t block) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  for (const Stage &stage : stages)
    for (Value value : stage.kept)
      memory[value] = LLVM::AllocaOp::create(
          builder, kernel.pointerType(), builder.getI8Type(),
          kernel.i64(block * keptBytes(value)), /*alignment=*/64);
}

Value BlockStages::slot(KernelBuilder &kernel, Value value, Value place) const {
  return kernel.offset(memory.lookup(value), place, keptBytes(value));
}

void BlockStages::keep(KernelBuilder &kernel, Value value, Value now,
                       Value place) const {
  Type type = keptType(value.getType());
  if (type != now.getType())
    now = arith::ExtUIOp::create(kernel.builder, type, now);
  kernel.store(now, slot(kernel, value, place), keptBytes(value));
}

Value BlockStages::take(KernelBuilder &kernel, Value value, Value place) const {
  Type type = keptType(value.getType());
  Value kept = kernel.load(type, slot(kernel, value, place), keptBytes(value));
  if (type == value.getType())
    return kept;
  return arith::TruncIOp::create(kernel.builder, value.getType(), kept);
}

// Whether a value has no sign: a magnitude, or one that was chosen before 0.
static bool isMagnitude(Value value) {
  if (auto chosen = value.getDefiningOp<arith::SelectOp>()) {
    FloatAttr number;
    DenseFPElementsAttr numbers;
    bool zero = matchPattern(chosen.getFalseValue(), m_Constant(&numbers))
                    ? numbers.isSplat() &&
                          numbers.getSplatValue<APFloat>().isPosZero()
                    : matchPattern(chosen.getFalseValue(), m_Constant(&number)) &&
                          number.getValue().isPosZero();
    return zero && isMagnitude(chosen.getTrueValue());
  }
  return value.getDefiningOp<math::AbsFOp>() != nullptr;
}

// The codes of a block, 32 at once.
void HostLowering::decodeBooks(KernelBuilder &kernel, HostChunk &chunk,
                               const BlockStages &stages, Value from,
                               Value to) {
  constexpr int64_t many = 32;
  for (Value number : stages.at(0).kept)
    kernel.loop(from, to, kernel.i64(many), [&](Value index) {
      auto decode = number.getDefiningOp<DecodeOp>();
      unsigned which = cast<BlockArgument>(decode.getCode()).getArgNumber();
      Value stream = chunk.sweep.getLoads()[which];
      auto codes = VectorType::get({many}, getElementTypeOrSelf(decode.getCode()));
      Value code = kernel.load(
          codes, elementAt(kernel, stream, chunk.loads[which], index),
          bytesOf(stream));
      Value place = arith::SubIOp::create(builder, index, from);
      kernel.store(DecodeOp::create(builder,
                                    VectorType::get({many}, builder.getF32Type()),
                                    code, decode.getFormat()),
                   stages.slot(kernel, number, place), sizeof(float));
    });
}

// One stage of the elements from `from` to `to`, all of one block.
void HostLowering::stage(KernelBuilder &kernel, HostChunk &chunk,
                         const BlockStages &stages, unsigned number,
                         int64_t width, Value from, Value to) {
  const BlockStages::Stage &stage = stages.at(number);
  Region &body = stages.getBody();
  SmallVector<Value> wanted, neutrals;
  for (BlockReduceOp reduce : stage.reductions) {
    wanted.push_back(reduce.getValue());
    neutrals.push_back(
        neutral(builder, reduce.getReduction(), reduce.getType()));
  }
  for (size_t index : stage.emitted)
    wanted.push_back(body.front().getTerminator()->getOperand(index));
  llvm::append_range(wanted, stage.kept);
  auto once = [&](Value index, SmallVector<Value> most) {
    Value place = arith::SubIOp::create(builder, index, from);
    IRMapping known(chunk.known);
    SmallVector<Value> loaded = load(kernel, chunk, body, width, index,
                                     width > 1 && number == stages.first());
    for (unsigned before = 0; before < number; ++before)
      for (Value value : stages.at(before).kept) {
        Value kept = stages.take(kernel, value, place);
        if (auto argument = dyn_cast<BlockArgument>(value))
          loaded[argument.getArgNumber()] = kept;
        else
          known.map(value, kept);
      }
    SmallVector<Value> values = cloneValues(builder, body, wanted,
                                            {loaded, known, indexOf(chunk, index)});
    for (auto [i, before] : llvm::enumerate(most)) {
      BlockReduceOp reduce = stage.reductions[i];
      before = join(builder, reduce.getReduction(), before, values[i],
                    isMagnitude(reduce.getValue()));
    }
    auto rest = ArrayRef(values).drop_front(most.size());
    // Before an element that is read again is overwritten.
    for (auto [value, now] :
         llvm::zip(stage.kept, rest.drop_front(stage.emitted.size())))
      stages.keep(kernel, value, now, place);
    for (auto [which, value] : llvm::zip(stage.emitted, rest))
      emit(kernel, chunk, which, width, index, value);
    return most;
  };
  SmallVector<Value> most =
      kernel.loopWith(from, to, kernel.i64(width), neutrals, once);
  for (auto [i, result] : llvm::enumerate(most)) {
    BlockReduceOp reduce = stage.reductions[i];
    chunk.known.map(reduce.getResult(),
                    width > 1 ? joinLanes(reduce.getReduction(), result,
                                          isMagnitude(reduce.getValue()))
                              : result);
  }
}

// The last block may be short.
void HostLowering::blocks(KernelBuilder &kernel, HostChunk &chunk,
                          ArrayRef<BlockStages> bodies, Value count) {
  SweepOp sweep = chunk.sweep;
  int64_t block = sweep.getBlock();
  auto all = [&](const BlockStages &stages, int64_t width, Value from,
                 Value to) {
    loadShared(kernel, chunk, from);
    if (stages.first() > 0)
      decodeBooks(kernel, chunk, stages, from, to);
    for (unsigned number = stages.first(); number < stages.size(); ++number)
      stage(kernel, chunk, stages, number, width, from, to);
  };
  Value whole = arith::AndIOp::create(builder, count, kernel.i64(-block));
  kernel.loop(kernel.i64(0), whole, kernel.i64(block), [&](Value from) {
    all(bodies[1], sweep.getWidth(), from,
        arith::AddIOp::create(builder, from, kernel.i64(block)));
  });
  Value some =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, whole, count);
  kernel.when(some, [&] { all(bodies[0], 1, whole, count); });
}

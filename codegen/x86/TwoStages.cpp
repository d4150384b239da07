// A long body in two stages: the second one of a vector beside the first one of the
// next, which does not wait for it. A CPU looks ahead for less than two such bodies.
#include "codegen/x86/HostLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace altgrad;

// Cycles from an operand to the result, about.
static unsigned latency(Operation &op) {
  if (auto decode = dyn_cast<DecodeOp>(op))
    return decode.getFormat().getCodeType().getIntOrFloatBitWidth() == 8 ? 16 : 2;
  if (auto encode = dyn_cast<EncodeOp>(op))
    return encode.getFormat().isF32() ? 3 : 16;
  if (isa<arith::DivFOp, math::SqrtOp>(op))
    return 16;
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, math::FmaOp,
             arith::CmpFOp>(op)
             ? 4
             : 2;
}

// Bits that a value takes in a register until the second stage.
static unsigned bitsOfLane(Value value) {
  unsigned bits = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  return bits == 1 ? 32 : bits;
}

TwoStages::TwoStages(Region &region, unsigned longest) : body(region.front()) {
  ValueRange emitted = body.getTerminator()->getOperands();
  llvm::MapVector<Value, unsigned> depths;
  for (Value argument : body.getArguments())
    depths[argument] = 0;
  unsigned most = 0;
  for (Operation &op : body.without_terminator()) {
    std::optional<unsigned> begin;
    for (Value operand : op.getOperands())
      if (auto *it = depths.find(operand); it != depths.end())
        begin = std::max(begin.value_or(0), it->second);
    if (begin)
      most = std::max(most, depths[op.getResult(0)] = *begin + latency(op));
  }
  if (!longest || most < longest)
    return;
  for (auto [value, depth] : depths)
    if (value.getDefiningOp() && depth <= most / 2)
      first.insert(value);
  for (auto [value, depth] : llvm::reverse(depths))
    if (first.contains(value))
      sink(value);
  // What the first stage stores over it has loaded, too.
  llvm::SmallPtrSet<Value, 8> overwritten;
  auto sweep = cast<SweepOp>(region.getParentOp());
  for (auto [value, stream] :
       llvm::zip(emitted.drop_front(sweep.getNumResults()), sweep.getStores()))
    if (first.contains(value))
      overwritten.insert(stream);
  for (auto [argument, stream] :
       llvm::zip(body.getArguments(), sweep.getLoads()))
    if (isUsed(argument, false) &&
        (isUsed(argument, true) || overwritten.contains(stream)))
      crossing.push_back(argument);
  for (Value value : first)
    if (isUsed(value, false))
      crossing.push_back(value);
}

// Whether an operation of the first stage, or one of the second, takes it, or that stage
// emits it.
bool TwoStages::isUsed(Value value, bool byFirst) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    bool early = user == body.getTerminator()
                     ? first.contains(value)
                     : first.contains(user->getResult(0));
    return early == byFirst;
  });
}

// What only the second stage asks for is left to it, where that takes no more to keep.
void TwoStages::sink(Value value) {
  if (isUsed(value, true))
    return;
  first.remove(value);
  unsigned needed = 0;
  for (Value operand : value.getDefiningOp()->getOperands())
    if (operand.getParentBlock() == &body && !isConstant(operand)) {
      bool kept = first.contains(operand) || isa<BlockArgument>(operand);
      bool others = llvm::any_of(operand.getUsers(), [&](Operation *user) {
        return user != value.getDefiningOp() && user != body.getTerminator() &&
               !first.contains(user->getResult(0));
      });
      if (kept && !others && (isUsed(operand, true) || operand.getDefiningOp()))
        needed += bitsOfLane(operand);
    }
  if (needed > bitsOfLane(value))
    first.insert(value);
}

bool TwoStages::isConstant(Value value) const {
  return value.getDefiningOp() && value.getDefiningOp()->getNumOperands() == 0;
}

SmallVector<size_t> TwoStages::emittedBy(bool byFirst) const {
  SmallVector<size_t> which;
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (first.contains(value) == byFirst)
      which.push_back(i);
  return which;
}

void HostLowering::overlapped(KernelBuilder &kernel, HostChunk &chunk,
                              const TwoStages &stages, Value from, Value to) {
  Region &region = chunk.sweep.getWide().front();
  Block &body = region.front();
  int64_t width = chunk.sweep.getWidth();
  ValueRange crossing = stages.getCrossing();
  auto run = [&](bool first, Value index, ValueRange kept) {
    IRMapping known(chunk.known);
    SmallVector<Value> loaded =
        load(kernel, chunk, region, width, index, true, [&](Value argument) {
          bool crosses = llvm::is_contained(crossing, argument);
          return first ? crosses || stages.isUsed(argument, true)
                       : !crosses && stages.isUsed(argument, false);
        });
    for (auto [value, now] : llvm::zip(crossing, kept))
      if (auto argument = dyn_cast<BlockArgument>(value))
        loaded[argument.getArgNumber()] = now;
      else
        known.map(value, now);
    SmallVector<size_t> emitted = stages.emittedBy(first);
    SmallVector<Value> wanted;
    for (size_t which : emitted)
      wanted.push_back(body.getTerminator()->getOperand(which));
    if (first)
      wanted.append(crossing.begin(), crossing.end());
    SmallVector<Value> values = cloneValues(
        builder, region, wanted, {loaded, known, indexOf(chunk, index)});
    for (auto [i, which] : llvm::enumerate(emitted))
      emit(kernel, chunk, which, width, index, values[i]);
    values.erase(values.begin(), values.begin() + emitted.size());
    return values;
  };
  Value some = arith::CmpIOp::create(builder, arith::CmpIPredicate::slt, from, to);
  kernel.when(some, [&] {
    Value by = kernel.i64(width), last = arith::SubIOp::create(builder, to, by);
    SmallVector<Value> kept = kernel.loopWith(
        from, last, by, run(true, from, {}),
        [&](Value index, SmallVector<Value> before) {
          Value next = arith::AddIOp::create(builder, index, by);
          SmallVector<Value> following = run(true, next, {});
          run(false, index, before);
          return following;
        });
    run(false, last, kept);
  });
}

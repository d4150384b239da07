// A sweep between bf16 streams alone.
#include "codegen/x86/WordSweep.h"

#include "codegen/common/SweepBody.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace altgrad;

// A value of 64 bits would not fit its place in the memory between two passes.
static bool isWide(Operation &op) {
  return llvm::any_of(op.getResultTypes(),
                      [](Type type) { return getElementTypeOrSelf(type).getIntOrFloatBitWidth() > 32; });
}

bool WordSweep::takesHalves(SweepOp sweep, const Target &target) {
  auto bf16 = [](Value stream) {
    auto type = cast<TensorsType>(stream.getType());
    return type.getFormat().getKnownName() == "bf16" && !type.isShared();
  };
  return target.cpu.bf16ByHalves && llvm::all_of(sweep.getLoads(), bf16) && llvm::all_of(sweep.getStores(), bf16) &&
         blockReductions(sweep.getBody()).empty();
}

// The order of elements is free without a reduction: the low halves of words
// are one vector, the high halves another.
bool WordSweep::fits(SweepOp sweep, const Target &target) {
  return takesHalves(sweep, target) && sweep.getReduced().empty() &&
         llvm::none_of(sweep.getWide().front().front(), isWide);
}

static constexpr int64_t stashBytes = 4;

WordSweep::WordSweep(KernelBuilder &kernel, SweepOp sweep, const CpuTuning &tuning, Value ahead)
    : kernel(kernel), builder(kernel.builder), sweep(sweep), tuning(tuning), body(sweep.getWide().front().front()),
      width(sweep.getWidth()), ahead(ahead) {
  cut();
  for (size_t i = 0; i < crossing.size(); ++i)
    stash.push_back(LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getI32Type(),
                                           kernel.i64(tuning.passElements), /*alignment=*/64));
}

static bool isSlow(Operation *op) { return isa_and_present<arith::DivFOp, math::SqrtOp>(op); }

// Slow operations on the way to each value that differs between elements.
static llvm::MapVector<Value, unsigned> slowPaths(Block &body) {
  llvm::MapVector<Value, unsigned> paths;
  for (Value argument : body.getArguments())
    paths[argument] = 0;
  for (Operation &op : body.without_terminator()) {
    std::optional<unsigned> longest;
    for (Value operand : op.getOperands())
      if (auto *path = paths.find(operand); path != paths.end())
        longest = std::max(longest.value_or(0), path->second);
    if (longest)
      paths[op.getResult(0)] = *longest + isSlow(&op);
  }
  return paths;
}

// Cut before the last of slow operations in a row, each pass has several
// elements under way.
void WordSweep::cut() {
  auto paths = slowPaths(body);
  unsigned most = 0;
  for (auto [value, slow] : paths) {
    varying.insert(value);
    most = std::max(most, slow);
  }
  auto isEarly = [&](Value value) {
    return !tuning.slowInARow || most < tuning.slowInARow || paths.lookup(value) < most;
  };
  ValueRange emitted = body.getTerminator()->getOperands();
  for (Value value : emitted)
    (isEarly(value) ? first : last).insert(value);
  for (Value value : varying)
    if (isSlow(value.getDefiningOp()) && isEarly(value))
      first.insert(value);
  addOperands(first);
  // The first pass overwrites streams that it stores: it loads them, too.
  for (auto [argument, stream] : llvm::zip(body.getArguments(), sweep.getLoads()))
    for (auto [value, stored] : llvm::zip(emitted, sweep.getStores()))
      if (stored == stream && first.contains(value))
        first.insert(argument);
  addOperands(last);
  for (Value value : last)
    if (first.contains(value))
      crossing.push_back(value);
}

// Of what the first pass has, the last takes the value.
void WordSweep::addOperands(llvm::SetVector<Value> &values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (Operation *op = values[i].getDefiningOp(); op && (&values == &first || !first.contains(values[i])))
      for (Value operand : op->getOperands())
        if (varying.contains(operand))
          values.insert(operand);
}

bool WordSweep::isIn(Pass pass, Value value) const {
  return pass == Pass::First ? first.contains(value) : last.contains(value) && !first.contains(value);
}

void WordSweep::lower(Value to, ArrayRef<Value> loadPointers, ArrayRef<Value> storePointers, const IRMapping &known) {
  auto pass = [&](Pass which, Value from, Value end) {
    lowerPass(which, from, end, loadPointers, storePointers, known);
  };
  if (last.empty())
    return pass(Pass::First, kernel.i64(0), to);
  Value step = kernel.i64(tuning.passElements);
  kernel.loop(kernel.i64(0), to, step, [&](Value from) {
    Value end = builder.add(from, step);
    end = builder.least(end, to);
    pass(Pass::First, from, end);
    pass(Pass::Last, from, end);
  });
}

void WordSweep::lowerPass(Pass pass, Value from, Value to, ArrayRef<Value> loadPointers, ArrayRef<Value> storePointers,
                          const IRMapping &known) {
  auto words = VectorType::get({width}, builder.getI32Type());
  Value sixteen = builder.integer(words, 16);
  kernel.loop(from, to, kernel.i64(2 * width), [&](Value index) {
    IRMapping low(known), high(known);
    for (auto [argument, pointer] : llvm::zip(body.getArguments(), loadPointers)) {
      if (!isIn(pass, argument))
        continue;
      Type codes = argument.getType();
      Value at = kernel.offset(pointer, index, 2);
      prefetchAhead(kernel, at, ahead);
      Value word = kernel.load(words, at, 2);
      low.map(argument, builder.narrow(codes, word));
      word = builder.right(word, sixteen);
      high.map(argument, builder.narrow(codes, word));
    }
    auto eachStash = [&](auto visit) {
      Value place = builder.both(index, kernel.i64(tuning.passElements - 1));
      for (auto [value, memory] : llvm::zip(crossing, stash)) {
        Value at = kernel.offset(memory, place, stashBytes);
        visit(value, low, at);
        visit(value, high, kernel.offset(at, kernel.i64(width), stashBytes));
      }
    };
    if (pass == Pass::Last)
      eachStash([&](Value value, IRMapping &map, Value at) {
        map.map(value, kernel.load(value.getType(), at, width * stashBytes));
      });
    // In turn: one waits for a division while the other goes on.
    for (Operation &op : body.without_terminator())
      if (isIn(pass, op.getResult(0)) || !varying.contains(op.getResult(0))) {
        builder.clone(op, low);
        builder.clone(op, high);
      }
    if (pass == Pass::First)
      eachStash(
          [&](Value value, IRMapping &map, Value at) { kernel.store(map.lookup(value), at, width * stashBytes); });
    for (auto [value, pointer] : llvm::zip(body.getTerminator()->getOperands(), storePointers)) {
      if (!isIn(pass, value))
        continue;
      Value even = builder.widen(words, low.lookup(value));
      Value odd = builder.widen(words, high.lookup(value));
      odd = builder.left(odd, sixteen);
      kernel.store(builder.either(even, odd), kernel.offset(pointer, index, 2), 2);
    }
  });
}

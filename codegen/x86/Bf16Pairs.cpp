// A sweep between bf16 streams alone.
#include "codegen/x86/RowSums.h"

using namespace mlir;
using namespace altgrad;

static constexpr int64_t stashBytes = 4;

Bf16PairSweep::Bf16PairSweep(const HostEmitter &emitter, Value ahead)
    : HostEmitter(emitter), body(sweep.getWide().front()), stages(getStages(body)), width(sweep.getWidth()),
      ahead(ahead) {
  for (size_t i = 0; i < stages[0].getKept().size(); ++i)
    stash.push_back(LLVM::AllocaOp::create(builder, kernel.pointerType(), builder.getI32Type(),
                                           kernel.i64(target.cpu.passElements), /*alignment=*/64));
}

void Bf16PairSweep::lower(Value to, const HostChunk &chunk) {
  auto lowerAll = [&](Value from, Value end) {
    for (unsigned number = 0; number < stages.size(); ++number)
      lowerStage(number, from, end, chunk);
  };
  if (stages.size() == 1)
    return lowerAll(kernel.i64(0), to);
  Value step = kernel.i64(target.cpu.passElements);
  kernel.loop(kernel.i64(0), to, step, [&](Value from) {
    Value end = builder.add(from, step);
    lowerAll(from, builder.minSigned(end, to));
  });
}

void Bf16PairSweep::lowerStage(unsigned number, Value from, Value to, const HostChunk &chunk) {
  auto words = VectorType::get({width}, builder.getI32Type());
  Value sixteen = builder.integer(words, 16);
  StageOp stage = stages[number];
  IRMapping before(chunk.known);
  if (number)
    before.map(stages[0].getKept(), stages[0].getKept());
  SmallVector<Value> wanted = stage.getRequired();
  llvm::SetVector<Operation *> needed = findOperations(wanted, body, before);
  llvm::BitVector read = findArguments(wanted, body, before);
  kernel.loop(from, to, kernel.i64(2 * width), [&](Value index) {
    IRMapping low(chunk.known), high(chunk.known);
    auto loadPair = [&](Value value, Value pointer) {
      Value at = kernel.offset(pointer, index, 2);
      prefetchAhead(kernel, at, ahead);
      auto [even, odd] = loadEvenOdd(kernel, value.getType(), at);
      low.map(value, even), high.map(value, odd);
    };
    for (auto [argument, pointer] : llvm::zip(body.getArguments(), chunk.loadPointers))
      if (read[argument.getArgNumber()])
        loadPair(argument, pointer);
    for (auto [draw, pointer] : llvm::zip(body.getOps<DrawOp>(), chunk.draws))
      if (needed.contains(draw))
        loadPair(draw.getBits(), pointer);
    auto eachStash = [&](auto visit) {
      Value slot = builder.bitAnd(index, kernel.i64(target.cpu.passElements - 1));
      for (auto [value, memory] : llvm::zip(stages[0].getKept(), stash)) {
        Value at = kernel.offset(memory, slot, stashBytes);
        visit(value, low, at);
        visit(value, high, kernel.offset(at, kernel.i64(width), stashBytes));
      }
    };
    if (number)
      eachStash([&](Value value, IRMapping &map, Value at) {
        map.map(value, kernel.load(value.getType(), at, width * stashBytes));
      });
    // In turn: one waits for a division while the other goes on.
    for (Operation &op : body.front())
      if (needed.contains(&op) && !isa<DrawOp>(op)) {
        builder.clone(op, low);
        builder.clone(op, high);
      }
    if (!number)
      eachStash(
          [&](Value value, IRMapping &map, Value at) { kernel.store(map.lookup(value), at, width * stashBytes); });
    for (int64_t store : stage.getEmitted()) {
      Value value = body.front().getTerminator()->getOperand(store);
      Value even = builder.extendUnsigned(words, low.lookup(value));
      Value odd = builder.extendUnsigned(words, high.lookup(value));
      odd = builder.shiftLeft(odd, sixteen);
      kernel.store(builder.bitOr(even, odd), kernel.offset(chunk.storePointers[store], index, 2), 2);
    }
  });
}

// What a block's reduction and the body behind it both compute of an element, where
// it comes from a code book: it waits in shared memory, as far as there is room. So
// an element's codes are read and looked up once.
#include "codegen/gpu/GpuLowering.h"

#include "dialect/Codecs.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace altgrad;

// The way from a reduction back to a value: of each operation on it the name and
// the operand that is next.
using Way = SmallVector<std::pair<StringRef, unsigned>>;

// What is decoded by a book, and what is computed from that.
static DenseSet<Value> lookedUp(Block &body) {
  DenseSet<Value> values;
  for (Operation &op : body) {
    auto follows = [&](Value value) { return values.contains(value); };
    if (isa<DecodeOp>(op) ? tableOf(&op) != nullptr : !isa<ReduceOp>(op) && llvm::any_of(op.getOperands(), follows))
      values.insert_range(op.getResults());
  }
  return values;
}

namespace {
// The ways from a reduction to the values that it has in common with others.
class Ways {
public:
  explicit Ways(ReduceOp reduce) : lookups(lookedUp(*reduce->getBlock())) {
    own.insert(reduce);
    for (Operation &op : llvm::reverse(*reduce->getBlock()))
      if (!op.use_empty() && llvm::all_of(op.getUsers(), [&](Operation *user) { return own.contains(user); }))
        own.insert(&op);
    find(reduce, {});
  }

  SmallVector<Way> all;

private:
  void find(Operation *op, Way way) {
    if (!seen.insert(op).second)
      return;
    way.emplace_back(op->getName().getStringRef(), 0);
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      way.back().second = number;
      Operation *from = operand.getDefiningOp();
      if (!from || !lookups.contains(operand))
        continue;
      if (own.contains(from))
        find(from, way);
      else if (found.insert(operand).second)
        all.push_back(way);
    }
  }

  DenseSet<Value> lookups;
  DenseSet<Operation *> own, seen; // what nobody else needs
  DenseSet<Value> found;
};
} // namespace

// The value at the end of a way in a body; null where the body has another way.
static Value follow(const Way &way, ReduceOp reduce) {
  Value value = reduce.getResult();
  for (auto [name, number] : way) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getName().getStringRef() != name)
      return {};
    value = op->getOperand(number);
  }
  return value;
}

void GpuLowering::allocateKept(Chunk &chunk, ThreadMemory &memory) {
  SweepOp sweep = chunk.sweep;
  unsigned bytes = sweep.getWidth() * sizeof(float);
  for (auto [number, reduce] : llvm::enumerate(blockReductions(sweep.getWide().front())))
    for (const Way &way : Ways(reduce).all) {
      Kept kept{unsigned(number), {}, {}};
      for (Region &body : sweep.getWide())
        kept.values.push_back(follow(way, blockReductions(body)[number]));
      bool isKnown =
          llvm::any_of(chunk.kept, [&](const Kept &other) { return other.values.front() == kept.values.front(); });
      if (isKnown || llvm::is_contained(kept.values, Value()) || !memory.grow(chunk.vectors(), bytes))
        continue;
      std::string name = "kept" + std::to_string(chunk.kept.size());
      kept.slots = memory.allocate(name, chunk.vectors(), bytes);
      chunk.kept.push_back(kept);
    }
}

Value GpuLowering::slotOf(const Kept &kept, unsigned number, unsigned width) {
  return kernel.offset(kept.slots, kernel.i64(number), ThreadMemory::stride(width * sizeof(float)));
}

SmallVector<GpuLowering::Kept> GpuLowering::keptBy(const Chunk &chunk, unsigned reduction, unsigned count) {
  SmallVector<Kept> some;
  for (const Kept &kept : chunk.kept)
    if (kept.reduction >= reduction && kept.reduction < reduction + count)
      some.push_back(kept);
  return some;
}

unsigned GpuLowering::reducedTogether(const Chunk &chunk, unsigned first) {
  SmallVector<ReduceOp> all = blockReductions(SweepOp(chunk.sweep).getBody());
  if (chunk.kept.empty())
    return 1;
  unsigned end = first + 1;
  DenseSet<Value> after{all[first].getResult()};
  for (Operation *op = all[first]; end < all.size(); op = op->getNextNode()) {
    if (llvm::any_of(op->getOperands(), [&](Value value) { return after.contains(value); }))
      after.insert_range(op->getResults());
    if (op != all[end])
      continue;
    if (after.contains(op->getResult(0)))
      break;
    after.insert(op->getResult(0));
    ++end;
  }
  return end - first;
}

// The streams that a body still reads, its arguments, where what is in `known` is at
// hand.
static llvm::BitVector stillRead(Region &body, const IRMapping &known) {
  llvm::BitVector read(body.getNumArguments());
  Operation *end = body.front().getTerminator();
  llvm::SetVector<Operation *> readers = neededFor(end->getOperands(), body, known);
  readers.insert(end);
  for (Operation *reader : readers)
    for (Value value : reader->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(value); argument && argument.getOwner() == &body.front())
        read.set(argument.getArgNumber());
  return read;
}

static bool haveRegisters(SweepOp sweep, int64_t words, const GpuTuning &tuning) {
  Block &body = sweep.getWide().front().front();
  int64_t searches = llvm::count_if(body.getOps<EncodeOp>(), tableOf);
  bool isGuarded = sweep.getWide().size() > 1;
  return words + tuning.ofSearch * searches + tuning.ofGuard * isGuarded <= tuning.aheadWords;
}

void GpuLowering::loadAhead(Chunk &chunk, int64_t first) {
  if (chunk.kept.empty())
    return;
  SweepOp sweep = chunk.sweep;
  Region &wide = sweep.getWide().front();
  IRMapping known(chunk.known);
  for (const Kept &one : chunk.kept)
    known.map(one.values.front(), one.slots);
  llvm::BitVector read = stillRead(wide, known);
  int64_t words = 0;
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
    if (chunk.shared.contains(tensors))
      read.reset(index);
    if (read[index])
      words += chunk.width * bitsOf(tensors) / 32;
  }
  if (!haveRegisters(sweep, words, target.gpu))
    return;
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
    SmallVector<Value> &ahead = chunk.ahead.emplace_back();
    for (int64_t element = 0; read[index] && element < chunk.width; element += periodOf(chunk, tensors))
      ahead.push_back(loadAccess(chunk, tensors, first + element));
  }
}

// A volatile load: kept in registers all of them would be more than there are.
IRMapping GpuLowering::knownOf(const Chunk &chunk, Region &body, unsigned number) {
  IRMapping known(chunk.known);
  unsigned width = SweepOp(chunk.sweep).getWidth();
  for (const Kept &kept : chunk.kept)
    for (Value value : kept.values)
      if (value.getParentRegion() == &body)
        known.map(value, LLVM::LoadOp::create(builder, value.getType(), slotOf(kept, number, width),
                                              /*alignment=*/width * sizeof(float),
                                              /*isVolatile=*/true)
                             .getResult());
  return known;
}

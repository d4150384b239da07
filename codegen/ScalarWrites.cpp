// Writes move to later phases until nobody reads what they overwrite after them.
#include "codegen/ScalarWrites.h"

using namespace mlir;
using namespace altgrad;

unsigned altgrad::rankOf(Domain domain, std::optional<unsigned> set) {
  return domain == Domain::Once ? 0 : set ? *set + 2 : 1;
}

std::optional<unsigned> altgrad::setOfScalar(const RowSets &sets, Value value) {
  return sets.count() == 1 ? std::nullopt : sets.of(value);
}

namespace {
class Placer {
public:
  Placer(StepOp step, const RowSets &sets, const ScalarOrder &order)
      : step(step), sets(sets), order(order) {}
  FailureOr<SmallVector<PlacedWrite>> run();

private:
  LogicalResult add(Value value, Value target, Value condition);
  bool wait(PlacedWrite &write, int batch, unsigned rank);
  bool waitForReaders(PlacedWrite &write);

  StepOp step;
  const RowSets &sets;
  const ScalarOrder &order;
  SmallVector<PlacedWrite> writes;
};
} // namespace

LogicalResult Placer::add(Value value, Value target, Value condition) {
  if (isa<TensorsType>(target.getType()))
    return success(); // a sweep has stored it
  auto argument = cast<BlockArgument>(target);
  Scope scope = step.getScope(argument);
  if (scope == Scope::Group)
    return step.getCommit().emitOpError()
           << "writes '%" << step.getName(argument)
           << "', which is per_group; only scalars of the step and per_tensor "
              "ones are written";
  bool rows = scope == Scope::Tensor;
  if (!rows && (order.perRow(value) || (condition && order.perRow(condition))))
    return step.getCommit().emitOpError()
           << "writes a value that differs between tensors to '%"
           << step.getName(argument) << "', which is one for the step";
  std::optional<unsigned> set;
  if (rows)
    set = setOfScalar(sets, value);
  if (rows && !set && condition)
    set = setOfScalar(sets, condition);
  int at = order.batchOf(value);
  if (condition)
    at = std::max(at, order.batchOf(condition));
  writes.push_back({{value, argument, condition},
                    rows ? Domain::Rows : Domain::Once,
                    set,
                    at});
  return success();
}

// Makes a write come no earlier than a reader; a phase reads before it writes.
bool Placer::wait(PlacedWrite &write, int batch, unsigned rank) {
  int least = rank > rankOf(write.domain, write.set) ? batch + 1 : batch;
  if (write.batch >= least)
    return false;
  write.batch = least;
  return true;
}

bool Placer::waitForReaders(PlacedWrite &write) {
  bool moved = false;
  Block *block = &step.getBody().front();
  for (Operation *user : write.write.target.getUsers()) {
    Operation *top = block->findAncestorOpInBlock(*user);
    if (isa<CommitOp>(top))
      continue;
    unsigned rank = 0;
    if (!isa<SweepOp>(top)) {
      Value result = top->getResult(0);
      rank = rankOf(order.perRow(result) ? Domain::Rows : Domain::Once,
                    setOfScalar(sets, result));
    }
    moved |= wait(write, order.batchOfOp(top), rank);
  }
  for (const PlacedWrite &other : writes)
    if (other.write.value == write.write.target && &other != &write)
      moved |= wait(write, other.batch, rankOf(other.domain, other.set));
  return moved;
}

FailureOr<SmallVector<PlacedWrite>> Placer::run() {
  CommitOp commit = step.getCommit();
  for (auto [value, target] :
       llvm::zip(commit.getAlwaysValues(), commit.getAlwaysTargets()))
    if (failed(add(value, target, {})))
      return failure();
  for (auto [value, target] :
       llvm::zip(commit.getValues(), commit.getTargets()))
    if (failed(add(value, target, commit.getCondition())))
      return failure();
  // Each round that is not the last moves a write; only a circle goes on.
  for (size_t round = 0; round <= 2 * writes.size() + 1; ++round) {
    bool moved = false;
    for (PlacedWrite &write : writes)
      moved |= waitForReaders(write);
    if (!moved)
      return writes;
  }
  return commit.emitOpError("exchanges scalars that no single phase can write");
}

FailureOr<SmallVector<PlacedWrite>>
altgrad::placeWrites(StepOp step, const RowSets &sets,
                     const ScalarOrder &order) {
  return Placer(step, sets, order).run();
}

// Writes move to later phases until nobody reads what they overwrite after them.
#include "passes/phases/ScalarWrites.h"

using namespace mlir;
using namespace altgrad;

namespace {
class Placer {
public:
  Placer(StepOp step, const Schedule &schedule) : step(step), schedule(schedule) {}
  FailureOr<SmallVector<PlacedWrite>> run();

private:
  LogicalResult add(Value value, Value target, Value condition);
  bool wait(PlacedWrite &write, int batch, unsigned rank);
  bool waitForReaders(PlacedWrite &write);

  StepOp step;
  const Schedule &schedule;
  bool units = step.hasUnits();
  SmallVector<PlacedWrite> writes;
};
} // namespace

LogicalResult Placer::add(Value value, Value target, Value condition) {
  if (isa<TensorsType>(target.getType()))
    return success(); // a sweep has stored it
  auto argument = cast<BlockArgument>(target);
  Scope scope = step.getScope(argument);
  if (scope == Scope::Group)
    return step.getCommit().emitOpError() << "writes '%" << step.getName(argument)
                                          << "', which is per_group; only scalars of the step, per_tensor "
                                             "and per_unit ones are written";
  bool rows = scope != Scope::Step;
  auto differs = [&](Value one) { return one && schedule.getHome(one).domain == Domain::Rows; };
  if (!rows && (differs(value) || differs(condition)))
    return step.getCommit().emitOpError() << "writes a value that differs between tensors to '%"
                                          << step.getName(argument) << "', which is one for the step";
  std::optional<unsigned> set;
  for (Value one : {target, value, condition})
    if (rows && !set && one)
      set = schedule.getHome(one).set;
  int at = schedule.getBatch(value);
  if (condition)
    at = std::max(at, schedule.getBatch(condition));
  ScalarHome home{rows ? Domain::Rows : Domain::Once, set};
  writes.push_back({{value, argument, condition}, home, at});
  return success();
}

// Makes a write come no earlier than a reader; a phase reads before it writes.
bool Placer::wait(PlacedWrite &write, int batch, unsigned rank) {
  // Other units of a tensor read in the same phase what the first one writes.
  bool beside = units && step.getScope(write.write.target) == Scope::Tensor && rank == write.home.rank();
  int least = beside || rank > write.home.rank() ? batch + 1 : batch;
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
    unsigned rank = isa<SweepOp>(top) ? 0 : schedule.getHome(top->getResult(0)).rank();
    moved |= wait(write, schedule.getBatch(top), rank);
  }
  for (const PlacedWrite &other : writes)
    if (other.write.value == write.write.target && &other != &write)
      moved |= wait(write, other.batch, other.home.rank());
  return moved;
}

FailureOr<SmallVector<PlacedWrite>> Placer::run() {
  CommitOp commit = step.getCommit();
  for (auto [value, target, condition] : commit.writes())
    if (failed(add(value, target, condition)))
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

FailureOr<SmallVector<PlacedWrite>> altgrad::placeWrites(StepOp step, const Schedule &schedule) {
  return Placer(step, schedule).run();
}

// Homes and batches of scalars.
#include "passes/phases/Schedule.h"

using namespace mlir;
using namespace altgrad;

// One set's rows are all rows.
ScalarHome Schedule::getHome(Value value) const {
  bool rows = variances.getScope(value) != Scope::Step;
  return {rows ? Domain::Rows : Domain::Once, sets.count() == 1 ? std::nullopt : sets.of(value)};
}

int Schedule::getBatch(Value value) const {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<SweepOp>(op))
    return folded.lookup_or(op, last);
  return op ? batches.lookup(op) : 0;
}

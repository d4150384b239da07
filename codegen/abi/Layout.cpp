// Words of rows and groups for the arguments of a step.
#include "codegen/abi/Layout.h"

#include <map>

using namespace mlir;
using namespace altgrad;

// Words of a row or a group are counted from 0 in each set, behind those that
// every set has: tensors and groups of different sets share them.
namespace {
class Slots {
public:
  unsigned allocate(std::optional<unsigned> set) {
    if (!set)
      return shared++;
    return shared + own[*set]++;
  }
  unsigned count() const {
    unsigned most = 0;
    for (auto [set, used] : own)
      most = std::max(most, used);
    return shared + most;
  }

private:
  unsigned shared = 0;
  std::map<unsigned, unsigned> own;
};
} // namespace

Layout altgrad::getLayout(StepOp step) {
  bool oneSet = step.getSetCount() == 1;
  Slots inputs, rows, groups, steps;
  auto bind = [&](BlockArgument argument) -> Binding {
    bool stream = isa<TensorsType>(argument.getType());
    std::optional<unsigned> set = step.getSet(argument);
    Scope scope = step.getScope(argument);
    if (oneSet && (stream || scope != Scope::Step))
      set = 0;
    Slots &slots = stream                  ? (step.getAccess(argument) == Access::In ? inputs : rows)
                   : scope == Scope::Step  ? steps
                   : scope == Scope::Group ? groups
                                           : rows;
    return {argument, stream, slots.allocate(set), set};
  };
  Layout layout;
  Block::BlockArgListType arguments = step.getBody().getArguments();
  layout.bindings.resize(arguments.size());
  for (bool shared : {true, false})
    for (BlockArgument argument : arguments)
      if (shared == (!oneSet && !step.getSet(argument)))
        layout.bindings[argument.getArgNumber()] = bind(argument);
  layout.inputs = inputs.count();
  layout.rowPointers = rows.count();
  if (getColumnLists(step).lists)
    layout.columnSlot = layout.rowPointers++;
  if (getSquareLists(step))
    layout.squareSlot = layout.rowPointers++;
  layout.groupScalars = groups.count();
  layout.stepScalars = steps.count();
  return layout;
}

static BlockAttr getBlock(SpillOp spill) { return spill.getTensors().getType().getBlock(); }
static bool isPerColumn(SpillOp spill) { return getBlock(spill).isColumn(); }

ColumnLists altgrad::getColumnLists(StepOp step) {
  ColumnLists columns;
  for (auto spill : step.getBody().getOps<SpillOp>())
    if (isPerColumn(spill))
      ++(spill.getRuns() ? columns.runs : columns.lists);
  return columns;
}

// Whose chunks have the word of a store; that of anything else is no square's.
static Walk getFoldedWalk(WorkspaceStoreOp store) {
  auto sweep = store.getValue().getDefiningOp<SweepOp>();
  return sweep ? sweep.getFoldedWalk() : Walk::Chunks;
}

SquareLists altgrad::getSquareLists(StepOp step) {
  SquareLists squares;
  for (auto spill : step.getBody().getOps<SpillOp>())
    if (getBlock(spill).isSquare())
      ++(getBlock(spill).isRowSquare() ? squares.ofRows : squares.ofColumns);
  step.walk([&](WorkspaceStoreOp store) {
    Walk walk = getFoldedWalk(store);
    if (unsigned &words = walk == Walk::RowSquares ? squares.rowWords : squares.columnWords; walk != Walk::Chunks)
      words = std::max<unsigned>(words, store.getWord() + 1);
  });
  return squares;
}

unsigned altgrad::getColumnIndex(SpillOp spill) {
  unsigned index = 0;
  for (auto other : spill->getParentOfType<StepOp>().getBody().getOps<SpillOp>())
    index += getBlock(other) == getBlock(spill) && other.getRuns() == spill.getRuns() && other->isBeforeInBlock(spill);
  return index;
}

// Those per column and of squares have a place of their own.
static unsigned getBytes(SpillOp spill) {
  return getBlock(spill).hasOwnWalk() ? 0 : spill.getTensors().getType().getFormat().getBytes();
}

unsigned altgrad::bytesBefore(SpillOp spill) {
  unsigned bytes = 0;
  for (auto other : spill->getParentOfType<StepOp>().getBody().getOps<SpillOp>())
    if (getBytes(other) > getBytes(spill) || (getBytes(other) == getBytes(spill) && other->isBeforeInBlock(spill)))
      bytes += getBytes(other);
  return bytes;
}

Workspace altgrad::getWorkspace(StepOp step) {
  Workspace space;
  for (auto spill : step.getBody().getOps<SpillOp>())
    space.spills += getBytes(spill);
  space.spills = llvm::divideCeil(space.spills, sizeof(float));
  step.walk([&](WorkspaceStoreOp store) {
    if (getFoldedWalk(store) != Walk::Chunks)
      return;
    unsigned &words = store.getSpace() == Space::Step  ? space.stepWords
                      : store.getSpace() == Space::Row ? space.rowWords
                                                       : space.chunkWords;
    words = std::max<unsigned>(words, store.getWord() + 1);
  });
  return space;
}

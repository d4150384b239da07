// What passes and code generation ask of a sweep and of its streams.
#ifndef ALTGRAD_PASSES_SWEEPQUERIES_H
#define ALTGRAD_PASSES_SWEEPQUERIES_H

#include "dialect/Dialect.h"
#include "dialect/Target.h"
#include "dialect/builders/CodeBuilder.h"
#include "llvm/ADT/BitVector.h"

namespace altgrad {

/// Whether a sweep asks for the indices of its elements.
bool usesIndex(SweepOp sweep);
/// Whether it draws random bits for them.
bool usesDraws(SweepOp sweep);
/// Whether elements are done block by block: values go from one to another, or they
/// share bytes.
bool isBlockwise(SweepOp sweep);
/// Whether its streams are bf16 alone, of which words of 32 bits have two.
bool isAllBf16(SweepOp sweep);
/// The reductions over blocks of neighbours in a body, in order.
SmallVector<ReduceOp> getBlockReductions(Region &body);

/// How each block goes through a body, if `altgrad-cut-stages` found stages.
SmallVector<StageOp> getStages(Region &body);
/// How many codes of a book a CPU decodes at once.
constexpr int64_t codesPerDecode = 32;

/// Calls `of` for each phase of a step and its sweep, or null; fails after an error, as of an unknown target.
LogicalResult forEachPhase(StepOp step, StringRef target,
                           function_ref<LogicalResult(PhaseOp, SweepOp, const Target &)> of);
/// Emits an error and fails if a target cannot lower a sweep: passes before have not run.
LogicalResult checkSweep(SweepOp sweep, const Target &target);

/// What a sweep loads, then what it stores.
inline mlir::OperandRange getStreams(SweepOp sweep) {
  return sweep->getOperands().drop_front(sweep.getCondition() ? 1 : 0);
}
/// Whether a stream has one value for each column of a tile, or for a square: where it lies is said for each tile.
bool isPerTileBlock(Value stream);
/// Whether it has one for each of several squares in a tile.
bool isSmallSquare(Value stream);
/// Whether a stream has one value for each column of a matrix.
bool isPerColumn(Value stream);
/// Over which items a sweep goes that stores to a list.
Walk getWalk(Value stream);
/// Whether an operation makes a matrix of others.
bool isMatrixProduct(Operation *op);
/// Neighbours that share a value of a stream, and bytes of that value or of two
/// packed codes.
unsigned getBlock(Value stream);
unsigned getBytes(Value stream);
/// Elements of which getBytes() says the memory: a block's, or two where codes are packed.
unsigned getElementsPerEntry(Value stream);
/// Bits that a stream has for an element that shares no value.
unsigned getBits(Value stream);
/// Whether two codes of a stream share a byte.
bool isPacked(Value stream);

/// Whether a sweep leaves the values of a reduction in a list per column, which later ones load.
bool isOverColumn(Operation *op);
/// Whether a list is a matrix as a whole, which a sweep leaves in the workspace.
bool isMatrixInput(Operation *op);

/// In which format the workspace can keep a value: an f32, or a code of 16 bits; null: in none.
FormatAttr getWorkspaceFormat(Value value);

/// The operations of a body that compute `wanted` from what `known` holds.
SetVector<Operation *> findOperations(ValueRange wanted, Region &body, const IRMapping &known);
/// The arguments of a body that they read.
llvm::BitVector findArguments(ValueRange wanted, Region &body, const IRMapping &known);

} // namespace altgrad

#endif // ALTGRAD_PASSES_SWEEPQUERIES_H

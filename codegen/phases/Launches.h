// Which phases a launch of a GPU does, and how many items a block of it.
#ifndef ALTGRAD_CODEGEN_PHASES_LAUNCHES_H
#define ALTGRAD_CODEGEN_PHASES_LAUNCHES_H

#include "dialect/Dialect.h"

namespace altgrad {

/// The phases after this one that the last block of its launch may do as well:
/// all up to the next sweep or exchange. Empty for a phase that is itself in
/// such a list, and for a sweep that stores.
llvm::SmallVector<PhaseOp> finishedBy(PhaseOp phase);
/// How many launches the phases of a step are, where last blocks do what they
/// may.
unsigned countLaunches(StepOp step);

/// Whether the launch of a phase may come after another one of the same run,
/// and whether another one may come after it and what its last block does. A
/// run ends at an exchange.
bool followsLaunch(PhaseOp phase);
bool precedesLaunch(PhaseOp phase);

/// How many threads of a block do a chunk: a warp where there are sums to keep
/// apart, otherwise all.
int64_t chunkThreads(SweepOp sweep);
/// How many items of a phase a block does at a time.
int64_t itemsPerBlock(PhaseOp phase);
/// Whether a sweep begins with the last chunk: the one before it over the same
/// set did not, and has left that in the cache.
bool runsBackwards(PhaseOp phase);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PHASES_LAUNCHES_H

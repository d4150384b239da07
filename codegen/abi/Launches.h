// Which phases a launch of a GPU does, and how many items a block of it.
#ifndef ALTGRAD_CODEGEN_ABI_LAUNCHES_H
#define ALTGRAD_CODEGEN_ABI_LAUNCHES_H

#include "dialect/Dialect.h"
#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

constexpr int64_t warpThreads = 32;

/// The phases after this one that the last block of its launch may do as well:
/// all up to the next one that starts a launch. Empty for a phase that is itself in
/// such a list, and for one that ends its launch.
SmallVector<PhaseOp> getEpiloguePhases(PhaseOp phase);
/// How many launches the phases of a step are, where last blocks do what they
/// may.
unsigned countLaunches(StepOp step);

/// Whether the launch of a phase may come after another one of the same run,
/// and whether another one may come after it and what its last block does. A
/// run ends at an exchange.
bool followsLaunch(PhaseOp phase);
bool precedesLaunch(PhaseOp phase);

/// How many threads of a block do one item.
int64_t getThreads(PhaseWork work);
/// How many items of a phase a block does at a time.
int64_t itemsPerBlock(PhaseOp phase);
/// Whether a sweep begins with the last chunk: the one before it over the same
/// set did not, and has left that in the cache.
bool runsInReverse(PhaseOp phase);

/// "altgrad_<step>_<phase>"
std::string getSymbol(PhaseOp phase);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_ABI_LAUNCHES_H

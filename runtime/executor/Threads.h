// The runtime's own threads for host phases.
#ifndef ALTGRAD_RUNTIME_THREADS_H
#define ALTGRAD_RUNTIME_THREADS_H

#include "altgrad/altgrad.h"

#include <cstdint>

namespace altgrad::runtime {

constexpr int mostThreads = 1024;

// CPUs this process may run on.
int availableThreads();

// Runs body over parts of [begin, end) on at most `threads` threads, the caller
// among them; parts have `piece` items. At most `grain` items run inline, and
// so does everything while another caller has the threads.
void parallelFor(int threads, int64_t begin, int64_t end, int64_t grain, int64_t piece,
                 void (*body)(int64_t, int64_t, void *), void *context);

// The same on the threads of a caller, whose `run` need not share out evenly:
// threads that other processes keep from a core are helped by the rest.
// Answers what `run` does.
int32_t parallelFor(altgrad_parallel_for run, int threads, int64_t begin, int64_t end, int64_t grain, int64_t piece,
                    void (*body)(int64_t, int64_t, void *), void *context);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_THREADS_H

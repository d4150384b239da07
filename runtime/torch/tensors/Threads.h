// Work on torch's own threads: a second pool beside it would fight for the
// cores.
#ifndef ALTGRAD_TORCH_THREADS_H
#define ALTGRAD_TORCH_THREADS_H

#include "core/Threads.h"

#include <c10/util/Exception.h>
#include <torch/csrc/stable/c/shim.h>

#include <cstdint>

namespace altgrad::optim {

// core::onThreads, which throws where torch's threads have failed.
template <typename Body> void onThreads(int64_t count, const Body &body) {
  TORCH_CHECK(core::onThreads(count, body) == 0, "altgrad: torch's threads have failed");
}

// The same as an altgrad_parallel_for, for kernels.
inline int32_t runOnThreads(int64_t begin, int64_t end, int64_t grain, void (*body)(int64_t, int64_t, void *),
                            void *context) {
  return torch_parallel_for(begin, end, grain, body, context);
}

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_THREADS_H

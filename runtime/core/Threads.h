// Work on torch's own threads: a second pool beside it would fight for the
// cores.
#ifndef ALTGRAD_CORE_THREADS_H
#define ALTGRAD_CORE_THREADS_H

#include <torch/csrc/stable/c/shim.h>

#include <exception>
#include <mutex>

namespace altgrad::core {

// Rows for which it pays to wake another thread, even where others have its core now and then.
constexpr int64_t rowsOfAThread = 512;

// Calls body(begin, end) for parts of [0, count), of `grain` or more. What one part throws is
// thrown here when all are done. The result is not 0 where torch's threads have
// failed.
template <typename Body>
[[nodiscard]] int32_t onThreads(int64_t count, const Body &body, int64_t grain = rowsOfAThread) {
  struct Context {
    const Body &body;
    std::mutex lock;
    std::exception_ptr thrown;
  } context{body, {}, {}};
  auto part = [](int64_t begin, int64_t end, void *given) {
    auto &context = *static_cast<Context *>(given);
    try {
      context.body(begin, end);
    } catch (...) {
      std::lock_guard<std::mutex> held(context.lock);
      context.thrown = std::current_exception();
    }
  };
  int32_t status = 0;
  if (count <= grain)
    part(0, count, &context);
  else
    status = torch_parallel_for(0, count, grain, part, &context);
  if (context.thrown)
    std::rethrow_exception(context.thrown);
  return status;
}

} // namespace altgrad::core

#endif // ALTGRAD_CORE_THREADS_H

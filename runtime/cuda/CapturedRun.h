// What a captured graph uses of a plan lives as long as the graph.
#ifndef ALTGRAD_RUNTIME_CAPTUREDRUN_H
#define ALTGRAD_RUNTIME_CAPTUREDRUN_H

#include "cuda/CudaTables.h"
#include "cuda/Kernels.h"

namespace altgrad::runtime {

// A graph runs again and again, later and among other runs, when the plan and
// its caller may be gone: it has tables of its own, which nobody changes.
class CapturedRun {
public:
  // `last` is the event that the plan's runs and replays follow each other by.
  CapturedRun(std::shared_ptr<Gpu> gpu, std::shared_ptr<const Kernels> kernels, SharedEvent last, uint64_t capture)
      : capture(capture), gpu(std::move(gpu)), kernels(std::move(kernels)), last(std::move(last)), held(*this->gpu) {}
  CapturedRun(const CapturedRun &) = delete;
  ~CapturedRun();

  // Sends the tables now, beside the capture, and waits for them: no replay
  // has to.
  altgrad_status fill(const Tables &tables);
  // Keeps memory of the caller's.
  altgrad_status keep(const Owner &owner);
  CudaTables &tables() { return held; }

  const uint64_t capture; // the driver's number of it

private:
  struct HeldMemory {
    void *memory;
    void (*release)(void *);
  };
  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<const Kernels> kernels;
  SharedEvent last;
  CudaTables held;
  std::vector<HeldMemory> kept;
};

// From now on the graph under capture, and what is instantiated from it, keep
// the run. The driver says that they are gone in a thread of its own, in which
// nobody may call it: the run is destroyed by the next `destroyReleased`.
altgrad_status keepWithGraph(const Driver &driver, Graph graph, std::shared_ptr<CapturedRun> run);
void destroyReleased();

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_CAPTUREDRUN_H

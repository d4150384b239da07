// A plan's tables in device memory and the pinned memory they travel through.
#ifndef ALTGRAD_RUNTIME_CUDATABLES_H
#define ALTGRAD_RUNTIME_CUDATABLES_H

#include "cuda/Gpu.h"
#include "executor/Executor.h"

#include <deque>

namespace altgrad::runtime {

// The context must be current in all of this.
class CudaTables {
public:
  explicit CudaTables(Gpu &gpu) : gpu(gpu) {}
  CudaTables(const CudaTables &) = delete;

  // Makes room; the only place that allocates. `after`: when the kernels that
  // read the tables until now are done.
  altgrad_status reserve(const Tables &tables, const SharedEvent &after);
  // Sends the tables in `changed` and the mirrored values if they are others,
  // all in one copy, and clears it. Values alone are parameters of `kernel`, if
  // there is one and they fit.
  altgrad_status upload(const Tables &tables, CudaStream stream, unsigned &changed, Function kernel = nullptr);
  // Waits until everything sent is there.
  altgrad_status wait();
  // Whether this is what was sent first.
  bool hold(const Tables &tables);
  DevicePointer address(int table) const { return block.device + offsets[table]; }
  void giveBack(const SharedEvent &after);

private:
  // A part of the pinned memory that the device still reads.
  struct Flight {
    size_t begin, end;
    Event event;
  };
  altgrad_status findRoom(size_t bytes, size_t &begin);
  altgrad_status waitForOldest();
  void fill(const Tables &tables, int table, char *to);
  altgrad_status launchValues(const Tables &tables, CudaStream stream, Function kernel);
  altgrad_status copy(const Tables &tables, CudaStream stream, int first, int last);

  Gpu &gpu;
  Block block;
  size_t offsets[tableCount + 1] = {};
  std::vector<char> sent; // the mirrored values as they were last sent
  std::deque<Flight> flights;
  size_t nextByte = 0, nextEvent = 0;
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_CUDATABLES_H

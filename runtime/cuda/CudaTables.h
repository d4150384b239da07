// A plan's tables in device memory and the pinned memory they travel through.
#ifndef ALTGRAD_RUNTIME_CUDATABLES_H
#define ALTGRAD_RUNTIME_CUDATABLES_H

#include "cuda/Driver.h"
#include "plan/Plan.h"

namespace altgrad::runtime {

class CudaTables {
public:
  explicit CudaTables(const Driver &driver) : driver(driver) {}

  // Makes room; the only place that allocates. The context must be current
  // here and below.
  altgrad_status reserve(const Tables &tables);
  // Sends the tables in `changed` and clears it.
  altgrad_status upload(const Tables &tables, CudaStream stream,
                        unsigned &changed);
  DevicePointer address(int table) const { return device + offsets[table]; }
  void release();

private:
  // While the device still reads one stage, the host fills the next: only a
  // host that is this many uploads ahead has to wait.
  static constexpr int stageCount = 4;
  struct Stage {
    char *memory = nullptr;
    Event copied = nullptr;
    bool inFlight = false;
  };

  const Driver &driver;
  DevicePointer device = 0;
  size_t capacity = 0;
  size_t offsets[tableCount] = {};
  Stage stages[stageCount];
  int next = 0;
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_CUDATABLES_H

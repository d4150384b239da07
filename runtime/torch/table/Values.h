// The numbers of a step, which the library keeps: what the kernels read of
// groups and of the whole step, and what the step says of itself.
#ifndef ALTGRAD_TORCH_VALUES_H
#define ALTGRAD_TORCH_VALUES_H

#include "core/altgrad_core.h"
#include "table/Program.h"
#include "tensors/Owned.h"

#include <map>

namespace altgrad::optim {

class Values {
public:
  // `groups` has the set of each group of the plan.
  Values(const Program &program, const std::vector<int32_t> &groups, const DeviceContext &context);

  // Hyper-parameters of groups, each in the order of its set.
  void set(const std::vector<int64_t> &groups, const std::vector<double> &numbers);
  double hyper(int64_t group, size_t index) const {
    return altgrad_core_values_get(values.get(), group, int64_t(index));
  }
  // One that lies in a tensor, until it is set.
  void take(int64_t group, size_t index, const at::Tensor &value);
  // Step-wide values, by role.
  void give(int32_t role, double value);
  void give(int32_t role, const at::Tensor &value);

  // From now on the `index`-th of the program's singles lies in `memory`, on
  // the plan's device, where the step reads it and writes it.
  void bind(size_t index, const at::Tensor &memory);

  // Binds what is not bound to its cells yet, and queues copies of the tensors.
  void send(altgrad_plan *plan);

  // The memory on the device that the step reads and writes now.
  void addTo(Owned &owned) const;

  // What the step says: a number that has been computed, on the host; elsewhere
  // a 0-dim tensor that the next step overwrites. Without the role: 0,
  // undefined.
  double number(int32_t role) const;
  at::Tensor tensor(int32_t role) const;

private:
  // One that is given to the step, or is a result of it; -1 without.
  int64_t find(int32_t role, bool result) const;

  const Program &program;
  std::unique_ptr<altgrad_core_values, void (*)(altgrad_core_values *)> values{nullptr, altgrad_core_values_free};
  at::Tensor device;                                      // cells of 8 bytes; undefined on the host
  std::map<std::pair<int64_t, int64_t>, at::Tensor> held; // that are no cells
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_VALUES_H

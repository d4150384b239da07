// Brings numbers to where the kernels read them.
#include "table/Values.h"
#include "tensors/Objects.h"

using namespace altgrad::optim;
using at::Tensor;

// The library's index for the numbers of the whole step.
static constexpr int64_t step = -1;

Values::Values(const Program &program, const std::vector<int32_t> &groups, const DeviceContext &context)
    : program(program) {
  altgrad_core_values *made = nullptr;
  checkTable(altgrad_core_values_create(program.bundle.get(), groups.data(), int64_t(groups.size()), &made));
  values.reset(made);
  if (context.isHost())
    return;
  const auto last = int64_t(program.singles.size());
  device = context.allocate(8 * (altgrad_core_values_cell(made, step, last) + 1));
  checkTable(altgrad_core_values_use(made, handleOf(device)));
}

void Values::set(const std::vector<int64_t> &groups, const std::vector<double> &numbers) {
  for (int64_t group : groups)
    held.erase(held.lower_bound({group, 0}), held.lower_bound({group + 1, 0}));
  checkTable(altgrad_core_values_set(values.get(), groups.data(), int64_t(groups.size()), numbers.data()));
}

void Values::take(int64_t group, size_t index, const Tensor &value) {
  held[{group, int64_t(index)}] = value;
  checkTable(altgrad_core_values_take(values.get(), group, int64_t(index), handleOf(value)));
}

void Values::bind(size_t index, const Tensor &memory) {
  checkTable(altgrad_core_values_bind(values.get(), int64_t(index), handleOf(memory)));
  held[{step, int64_t(index)}] = memory;
}

void Values::send(altgrad_plan *plan) { checkTable(altgrad_core_values_send(values.get(), plan)); }

void Values::addTo(Owned &owned) const {
  owned.add(device);
  for (auto &[place, tensor] : held)
    owned.add(tensor);
}

int64_t Values::find(int32_t role, bool result) const {
  for (size_t i = 0; i < program.singles.size(); ++i)
    if (program.singles[i].role == role && program.singles[i].access != (result ? ALTGRAD_IN : ALTGRAD_OUT))
      return int64_t(i);
  return -1;
}

void Values::give(int32_t role, double value) {
  int64_t index = find(role, false);
  if (index < 0)
    return;
  held.erase({step, index});
  checkTable(altgrad_core_values_give(values.get(), index, value));
}

void Values::give(int32_t role, const Tensor &value) {
  if (!device.defined())
    return give(role, value.item<double>());
  if (int64_t index = find(role, false); index >= 0)
    take(step, size_t(index), value);
}

double Values::number(int32_t role) const {
  int64_t index = find(role, true);
  return index < 0 ? 0 : hyper(step, size_t(index));
}

Tensor Values::tensor(int32_t role) const {
  int64_t index = find(role, true);
  if (index < 0 || !device.defined())
    return Tensor();
  return wordIn(device, 8 * altgrad_core_values_cell(values.get(), step, index),
                typeOf(program.singles[size_t(index)]));
}

// Brings the sums of several devices together.
#include "Together.h"

using namespace altgrad::optim;
using at::Tensor;

// A copy to the CPU is read by the next instruction; elsewhere the streams
// order it.
static Tensor to(const Tensor &value, const at::Device &device) {
  return value.to(device, /*non_blocking=*/!device.is_cpu());
}

// The kernels add the words of their sets: the total goes into the first.
static void join(std::vector<std::vector<Tensor>> &words) {
  at::Device device = words[0][0].device();
  Tensor total;
  for (const std::vector<Tensor> &of : words)
    for (const Tensor &word : of)
      total = total.defined() ? total.add(to(word, device)) : word.clone();
  for (std::vector<Tensor> &of : words) {
    Tensor own = to(total, of[0].device());
    for (Tensor &word : of)
      word.zero_();
    of[0].copy_(own);
  }
}

void altgrad::optim::runTogether(const std::vector<TensorTable *> &tables) {
  if (tables.size() == 1)
    return tables[0]->run();
  for (TensorTable *table : tables)
    table->begin();
  bool more = !tables.empty();
  while (more) {
    std::vector<std::vector<Tensor>> words(tables.size());
    more = false;
    for (size_t i = 0; i < tables.size(); ++i)
      more |= tables[i]->advance(&words[i]);
    if (more)
      join(words);
  }
}

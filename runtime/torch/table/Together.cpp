// Brings the sums of several devices together.
#include "table/Together.h"

using namespace altgrad::optim;
using at::Tensor;

// A copy to the CPU is read by the next instruction; elsewhere the streams
// order it.
static Tensor to(const Tensor &value, const at::Device &device) {
  return value.to(device, /*non_blocking=*/!device.is_cpu());
}

// What all devices have together; of a sum the total goes into a device's first
// word and 0 into its others, because the kernels add the words of their sets.
static void join(std::vector<std::vector<Share>> &words, bool verdicts) {
  auto belongs = [&](const Share &share) { return (share.reduction == ALTGRAD_AND) == verdicts; };
  Tensor all;
  for (const std::vector<Share> &of : words)
    for (const auto &[word, reduction] : of) {
      if (!belongs({word, reduction}))
        continue;
      TORCH_CHECK(reduction != ALTGRAD_MAX, "altgrad: an exchange of other reductions than sums");
      if (!all.defined())
        all = word.clone();
      else if (verdicts)
        all = all.bitwise_and(to(word, all.device()));
      else
        all = all.add(to(word, all.device()));
    }
  for (std::vector<Share> &of : words) {
    bool first = true;
    for (Share &share : of)
      if (belongs(share)) {
        if (verdicts || first)
          share.word.copy_(to(all, share.word.device()));
        else
          share.word.zero_();
        first = false;
      }
  }
}

void altgrad::optim::runTogether(const std::vector<TensorTable *> &tables) {
  if (tables.size() == 1)
    return tables[0]->run();
  for (TensorTable *table : tables)
    table->begin();
  bool more = !tables.empty();
  while (more) {
    std::vector<std::vector<Share>> words(tables.size());
    more = false;
    for (size_t i = 0; i < tables.size(); ++i)
      more |= tables[i]->advance(&words[i]);
    for (bool verdicts : {false, true})
      if (more)
        join(words, verdicts);
  }
}

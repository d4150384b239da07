// Brings the sums of several devices and ranks together.
#include "table/JointStep.h"

#include <ATen/ops/zeros.h>
#include <set>

using namespace altgrad::optim;
using at::Tensor;

// A copy to the CPU is read by the next instruction; elsewhere the streams
// order it.
static Tensor to(const Tensor &value, const at::Device &device) {
  return value.to(device, /*non_blocking=*/!device.is_cpu());
}

namespace {
enum class Kind { Sum, Verdict, Maximum };
} // namespace

static Kind kindOf(const Share &share) {
  if (share.reduction == ALTGRAD_MAX)
    return Kind::Maximum;
  return share.reduction == ALTGRAD_AND ? Kind::Verdict : Kind::Sum;
}

static Tensor joined(Kind kind, const Tensor &all, const Tensor &own) {
  if (kind == Kind::Sum)
    return all.add(own);
  return kind == Kind::Verdict ? all.minimum(own) : all.maximum(own);
}

static Tensor overRanks(const RuleSpec::all_gather_t &gather, Kind kind, const Tensor &mine) {
  Tensor all;
  for (const Tensor &part : gather(mine.to(at::kDouble).reshape({1})))
    all = all.defined() ? joined(kind, all, part) : part;
  return all.select(0, 0);
}

void altgrad::optim::addNothing(const RuleSpec::all_gather_t &gather) { overRanks(gather, Kind::Sum, at::zeros({})); }

// What all devices have together of one sum; of an addition the total goes into a device's first
// word and 0 into its others, because the kernels add the words of their sets.
static void join(std::vector<std::vector<Share>> &words, Kind kind, const std::string &sum,
                 const RuleSpec::all_gather_t &gather) {
  Tensor all;
  auto isOf = [&](const Share &share) { return kindOf(share) == kind && share.sum == sum; };
  for (const std::vector<Share> &of : words)
    for (const Share &share : of)
      if (isOf(share))
        all = all.defined() ? joined(kind, all, to(share.word, all.device())) : share.word.clone();
  if (all.defined() && gather)
    all = overRanks(gather, kind, all);
  for (std::vector<Share> &of : words) {
    bool first = true;
    for (Share &share : of)
      if (isOf(share)) {
        if (kind != Kind::Sum || first)
          share.word.copy_(to(all, share.word.device()));
        else
          share.word.zero_();
        first = false;
      }
  }
}

void altgrad::optim::runJointStep(const std::vector<TensorTable *> &tables, const RuleSpec::all_gather_t &gather) {
  if (tables.size() == 1 && !gather)
    return tables[0]->run();
  for (TensorTable *table : tables)
    table->begin();
  bool more = !tables.empty();
  while (more) {
    std::vector<std::vector<Share>> words(tables.size());
    more = false;
    for (size_t i = 0; i < tables.size(); ++i)
      more |= tables[i]->advance(&words[i], gather);
    std::set<std::string> sums{""};
    for (const std::vector<Share> &of : words)
      for (const Share &share : of)
        sums.insert(share.sum);
    for (const std::string &sum : sums)
      for (Kind kind : {Kind::Sum, Kind::Verdict, Kind::Maximum})
        if (more)
          join(words, kind, sum, gather);
  }
}

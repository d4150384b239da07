// Optimizers of several ranks that step together.
//
//   altgrad::optim::RuleSpec spec("adamw");
//   spec.max_grad_norm(1.0).all_gather(altgrad::distributed::over(group));
#ifndef ALTGRAD_DISTRIBUTED_H
#define ALTGRAD_DISTRIBUTED_H

#include "altgrad/rule_spec.h"

#include <ATen/ops/empty_like.h>
#include <c10/util/intrusive_ptr.h>

namespace altgrad::distributed {

// What RuleSpec::all_gather takes, of a c10d::ProcessGroup or a c10d::Backend, whose header you include. A step
// exchanges one number for its norm and one for its found_inf, and those of sums over tensors in parts, in tensors on
// the device of the parameters, for which the group has to have a backend.
template <typename Group> optim::RuleSpec::all_gather_t over(c10::intrusive_ptr<Group> group) {
  return [group](const at::Tensor &mine) {
    std::vector<at::Tensor> given{mine};
    std::vector<std::vector<at::Tensor>> all(1);
    for (int rank = 0; rank < group->getSize(); ++rank)
      all[0].push_back(at::empty_like(mine));
    group->allgather(all, given, {})->wait();
    return all[0];
  };
}

} // namespace altgrad::distributed

#endif // ALTGRAD_DISTRIBUTED_H

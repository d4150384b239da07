// Entries of a rule: further steps over the parameters and states of an optimizer, each a program of its own.
#include "altgrad/optim.h"
#include "optim/Binding.h"
#include "tensors/Errors.h"

#include <ATen/ops/empty_like.h>
#include <c10/util/ScopeExit.h>

using namespace altgrad::optim;
using at::Tensor;
using torch::optim::OptimizerParamGroup;

namespace {

// Gives the parameters that have all states a gradient, whatever it is, and the others none, as long as it lives.
class GivenGradients {
public:
  GivenGradients(std::vector<OptimizerParamGroup> &groups, const std::function<bool(const Tensor &)> &takes) {
    for (OptimizerParamGroup &group : groups)
      for (Tensor &param : group.params()) {
        held.emplace_back(param, param.grad());
        param.mutable_grad() = takes(param) ? at::empty_like(param) : Tensor();
      }
  }
  ~GivenGradients() {
    for (auto &[param, grad] : held)
      param.mutable_grad() = grad;
  }

private:
  std::vector<std::pair<Tensor, Tensor>> held;
};

// What a rule asks of its gradients is asked of none in an entry.
RuleSpec specOf(const RuleSpec &rule) {
  RuleSpec spec = rule;
  return spec.max_grad_norm({}).clip("").norm_in_backward(false).statistics(false).profile("");
}

} // namespace

bool Binding::hasStates(const States &states, const Tensor &param) const {
  const RuleParamState *state = stateOf(states, param);
  const Set &set = first->sets[0];
  const c10::ArrayRef<Stream> all = entries(set.states);
  return state &&
         std::all_of(all.begin(), all.end(),
                     [&](const Stream &stream) {
                       return stream.role != ALTGRAD_ROLE_STATE || state->tensor(stream.state).defined();
                     }) &&
         (!set.step || state->tensor(set.count).defined());
}

void RuleOptimizer::enter(const std::string &entry, bool gradients, std::map<std::string, double> hypers) {
  ALTGRAD_CHECK(!entry.empty(), "altgrad: an entry has a name");
  at::NoGradGuard disabled;
  auto lock = binding->hooks.lock();
  std::unique_ptr<Binding> &known = binding->ofEntries[entry];
  std::unique_ptr<Binding> own = known ? std::move(known) : std::make_unique<Binding>(specOf(binding->spec), entry);
  readOptions();
  if (gradients && binding->take(param_groups_, state_))
    giveHypers(/*all=*/true);
  own->own = binding->own;
  std::swap(binding, own); // `own` is the rule's while the entry runs
  const auto back = c10::make_scope_exit([&] {
    own->own = binding->own;
    std::swap(binding, own);
    binding->ofEntries[entry] = std::move(own);
  });
  readOptions();
  if (!binding->isPrepared())
    binding->prepare(param_groups_, optionsOf(*defaults_));
  std::optional<GivenGradients> given;
  if (!gradients)
    given.emplace(param_groups_, [&](const Tensor &param) { return binding->hasStates(state_, param); });
  for (auto &[name, value] : hypers) {
    const c10::ArrayRef<Scalar> known = binding->hypers(binding->matrixOptions.at(0));
    ALTGRAD_CHECK(
        std::any_of(known.begin(), known.end(), [&, key = &name](const Scalar &of) { return of.key == *key; }),
        "altgrad: the entry '", entry, "' has no hyper-parameter '", name, "'");
  }
  binding->given = std::move(hypers);
  binding->take(param_groups_, state_);
  giveHypers(/*all=*/true);
  binding->run();
}

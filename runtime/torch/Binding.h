// Parameters, their states and gradients in the tables of plans, kept from step
// to step: one plan for every parameter type and choice of options.
#ifndef ALTGRAD_TORCH_BINDING_H
#define ALTGRAD_TORCH_BINDING_H

#include "Checks.h"
#include "Program.h"
#include "altgrad/optim.h"

#include <c10/util/DimVector.h>

namespace altgrad::optim {

struct Plan {
  std::shared_ptr<const Program> program;
  std::unique_ptr<altgrad_plan, void (*)(altgrad_plan *)> handle{
      nullptr, altgrad_plan_free};
  std::vector<at::Tensor> params; // a row each
  std::vector<Place> places;
  std::vector<c10::DimVector> sizes;
  std::vector<std::vector<int64_t>> strides; // empty: contiguous
  std::vector<const void *> grads;
  std::vector<double> hypers;   // [group][hyper]
  std::vector<at::Tensor> held; // states, so that their memory stays
  at::Tensor memory;
  void *workspace = nullptr;
  uint64_t bytes = 0;
  float maxNorm = 0, norm = 0;
};

class Binding {
public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using States =
      ska::flat_hash_map<void *,
                         std::unique_ptr<torch::optim::OptimizerParamState>>;

  explicit Binding(RuleSpec given) : spec(std::move(given)) {}

  const std::shared_ptr<const Program> &program(const std::string &options,
                                                c10::ScalarType type);
  // What the rule takes; the same for every type and choice of options.
  const std::vector<Hyper> &hypers() const;
  // Takes the gradients of a step, and binds again where anything but their
  // addresses has changed. Throws before a tensor is changed. `options` are the
  // compile-time options of each group.
  void take(const Groups &groups, States &states,
            const std::vector<std::string> &options);
  // Runs the step on what was taken, with the values in plans[i]->hypers.
  void run();
  void forget() { bound = false; }

  RuleSpec spec;
  std::vector<std::unique_ptr<Plan>> plans;
  float norm = 0;

private:
  struct Slot { // a parameter, in the order of the groups
    c10::TensorImpl *param;
    Plan *plan = nullptr; // null: had no gradient
    const void *data = nullptr;
    const void *grad = nullptr; // known to overlap nothing
    int64_t numel = 0;
    uint32_t row = 0, group = 0;
    caffe2::TypeMeta type = {};
    bool contiguous = true;
  };

  bool sameParameters(const Groups &groups) const;
  bool gather(const Groups &groups);
  bool gather(Slot &slot, const at::Tensor &grad);
  const void *pointerTo(Slot &slot, const at::Tensor &grad);
  void bind(const Groups &groups, States &states,
            const std::vector<std::string> &options);
  void sort(const Groups &groups, const std::vector<std::string> &options);
  void checkStates(const States &states);
  void makeStates(States &states);
  void runClipped();
  void fill(Plan &plan, const States &states, size_t groups);

  std::map<std::pair<std::string, c10::ScalarType>,
           std::shared_ptr<const Program>>
      programs;
  std::vector<Slot> slots;
  Written written;
  std::vector<std::string> boundOptions;
  std::vector<at::Tensor> copies; // gradients that were laid out otherwise
  size_t boundStates = 0;
  bool bound = false;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_BINDING_H

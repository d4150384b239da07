// A step without a rule, bound to lists of one kind.
#ifndef ALTGRAD_TORCH_GRADIENTSTEP_H
#define ALTGRAD_TORCH_GRADIENTSTEP_H

#include "table/Values.h"
#include "tensors/Lists.h"

#include <string_view>

namespace altgrad::optim {

struct GradientResults {
  at::Tensor norm, found; // undefined where the step says none
};

// It keeps no tensor: addresses are bound where they are others than last time.
class GradientStep {
public:
  // `program` has a set for each format of the list, in the order of their
  // words; `rows`: of each tensor as a matrix, where that matters.
  GradientStep(std::shared_ptr<const Program> program, const CheckedList &listed, at::Device device,
               const std::vector<int64_t> &rows);
  // Of this thread and for such lists, made where there is none. `flags` are
  // altgrad-opt's, a line each; `copies`: results go elsewhere, as the word
  // `into` says they are stored, or as what they come from.
  static GradientStep &of(const CheckedList &listed, at::Device device, const std::string &flags, bool copies,
                          const std::string &into = "", const std::vector<int64_t> &rows = {});

  // What else each tensor has, by key: where results go, "copy" and its
  // scales, and what they are divided by, "grad_scale".
  using Pointers = std::vector<uint64_t>;
  struct Other {
    std::string_view key;
    Pointers pointers;
  };
  GradientResults run(const CheckedList &listed, const std::vector<Other> &others = {});
  Values &values() { return *values_; }
  // The memory that a run uses beside its caller's.
  void addTo(Owned &owned) const;

private:
  class PlanCache;
  void bindNorms(int64_t count);
  // Streams of a set that `others` may have, and what they were given last.
  struct Kind {
    const Stream *stream;
    size_t set;
    std::string key;
    Pointers bound;
  };
  void bind(const Stream &stream, size_t set, const Pointers &pointers);

  DeviceContext context;
  std::shared_ptr<const Program> program;
  size_t count;                            // tensors of a list
  std::vector<std::vector<size_t>> places; // of each set in the list
  std::unique_ptr<Values> values_;         // outlives the plan, which reads it
  std::unique_ptr<altgrad_plan, void (*)(altgrad_plan *)> plan{nullptr, altgrad_plan_free};
  at::Tensor workspace;
  uint64_t bytes = 0;
  at::Tensor norms; // of each tensor, in the order of the list
  Pointers bound;
  std::vector<Kind> kinds;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_GRADIENTSTEP_H

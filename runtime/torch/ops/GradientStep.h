// A step without a rule, bound to lists of one kind.
#ifndef ALTGRAD_TORCH_GRADIENTSTEP_H
#define ALTGRAD_TORCH_GRADIENTSTEP_H

#include "table/Values.h"
#include "tensors/Lists.h"

#include <map>

namespace altgrad::optim {

struct GradientResults {
  at::Tensor norm, found; // undefined where the step says none
};

// It keeps no tensor: addresses are bound where they are others than last time.
class GradientStep {
public:
  // `flags` are altgrad-opt's, a line each; `copies`: results go elsewhere,
  // as the word `into` says they are stored, or as what they come from; `rows`:
  // of each as a matrix, where that matters.
  GradientStep(const Listed &listed, at::Device device,
               const std::string &flags, bool copies, const std::string &into,
               const std::vector<int64_t> &rows);
  // Of this thread and for such lists, made where there is none.
  static GradientStep &of(const Listed &listed, at::Device device,
                          const std::string &flags, bool copies,
                          const std::string &into = "",
                          const std::vector<int64_t> &rows = {});

  // `copies`: where results go, by key: "copy" and its scales.
  GradientResults run(const Listed &listed,
                      const std::map<std::string, Listed> &copies = {});
  Values &values() { return *values_; }

private:
  void bindNorms(int64_t count);
  void bind(const Stream &stream, size_t set,
            const std::vector<uint64_t> &pointers);

  Where where;
  std::shared_ptr<const Program> program;
  std::vector<std::vector<size_t>> places; // of each set in the list
  std::unique_ptr<Values> values_;         // outlives the plan, which reads it
  std::unique_ptr<altgrad_plan, void (*)(altgrad_plan *)> plan{
      nullptr, altgrad_plan_free};
  Where::Memory workspace;
  uint64_t bytes = 0;
  at::Tensor norms; // of each tensor, in the order of the list
  bool captured = false;
  std::vector<uint64_t> bound;
  std::map<std::string, std::vector<uint64_t>> boundCopies;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_GRADIENTSTEP_H

// Which matrices parameters hold, in words of options that are none of a rule's.
#ifndef ALTGRAD_TORCH_MATRICES_H
#define ALTGRAD_TORCH_MATRICES_H

#include "core/altgrad_core.h"
#include "tensors/Checks.h"

#include <optional>

namespace altgrad::optim {

using Matrices = std::optional<altgrad_core_matrices>;

// What a group says of them.
class MatrixOptions {
public:
  MatrixOptions() = default;
  // `options` are those of the group, by commas, and `kind` is RuleSpec::matrices.
  MatrixOptions(const std::string &options, const std::string &kind);

  // The rule that the group has in the place of the optimizer's, or "".
  const std::string &rule() const { return rule_; }
  bool takesMatrices() const { return !whole; }

  // The matrices of a parameter, none where it is taken as a whole; throws for a shape that holds none. They refer to
  // these MatrixOptions.
  Matrices of(const at::Tensor &param, const ParamIndex &place) const;
  // The options of the rule for a parameter; `units`: some parameter of the optimizer has several matrices as units.
  std::string optionsFor(const Matrices &matrices, bool units) const;
  // How many elements each unit of the rule has in a parameter; 0: it has one.
  int64_t unitOf(const Matrices &matrices) const;

private:
  void read(const std::string &word);

  bool whole = true;                             // nobody asks for matrices
  bool ofRows = false;                           // rows have values of their own
  std::string rule_, options, spelled, unturned; // the rule and its own; of the split; see altgrad_core_matrix_options
  std::vector<int64_t> split;
  int32_t flat = -1, turns = 0;
};

// A parameter, or a copy of one whose elements do not fill one stretch of memory in the order that its matrices want.
at::Tensor denseOf(const at::Tensor &param, const Matrices &matrices);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_MATRICES_H

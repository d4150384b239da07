// What ops/_quantize.py does to a plain tensor: the bookkeeping of Python takes
// longer than to round 10,000 elements.
#ifndef ALTGRAD_NATIVE_ROUNDING_H
#define ALTGRAD_NATIVE_ROUNDING_H

#include "ops/GradientStep.h"

#include <torch/csrc/utils/pybind.h>

namespace altgrad::native {

// The programs that round to one format.
class Rounding {
public:
  // `bundle` gives the address of an altgrad_bundle that is never freed for the
  // format of the tensors, for what a scale is of, as altgrad-opt's --scales
  // says it, "" for the whole step, and for whether it runs on the host;
  // `codes` is the type of results that are codes, which have no gradient.
  Rounding(std::string format, py::object bundle,
           std::optional<at::ScalarType> codes);

  // A tensor like `x` of what is nearest to x / scale; None where Python has to
  // look, perhaps to refuse, and where somebody but autograd looks on. `scale`
  // is a number, or a tensor of f32 on the device of `x` that broadcasts
  // against it; where `block` is not 0 its last dimension has one for each
  // `block` neighbours.
  py::object run(py::handle x, py::handle scale, int64_t block);

  static void addTo(py::module_ &module);

private:
  struct Work;
  std::optional<Work> plan(const at::Tensor &x, py::handle scale,
                           int64_t block);
  optim::GradientStep &stepFor(const optim::Listed &numbers, at::Device device,
                               const std::string &scales);

  std::string format;
  py::object bundle;
  std::optional<at::ScalarType> codes;
  // By the format of the tensors, whether it is for the host, and the scales.
  using Key = std::tuple<char, bool, std::string>;
  std::map<Key, std::shared_ptr<const optim::Program>> programs;
};

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_ROUNDING_H

// The options of a group as those that an optimizer has.
#ifndef ALTGRAD_TORCH_OPTIONSOF_H
#define ALTGRAD_TORCH_OPTIONSOF_H

#include "tensors/Errors.h"

#include <torch/optim/optimizer.h>

#include <string>
#include <typeinfo>

namespace altgrad::optim {

// Throws for another class's, at which torch's add_param_group does not look.
template <typename Options> const Options &as(const torch::optim::OptimizerOptions &options) {
  ALTGRAD_CHECK(typeid(options) == typeid(Options) || dynamic_cast<const Options *>(&options), "altgrad: a group has ",
                c10::demangle(typeid(options).name()), ", expected ", c10::demangle(typeid(Options).name()));
  return static_cast<const Options &>(options);
}

// "split" of "split=64"; a word without a value is its own.
inline std::string kindOf(const std::string &word) { return word.substr(0, word.find('=')); }

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_OPTIONSOF_H

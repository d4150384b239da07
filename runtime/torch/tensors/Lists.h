// A list of tensors for a step that has no optimizer.
#ifndef ALTGRAD_TORCH_LISTS_H
#define ALTGRAD_TORCH_LISTS_H

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace altgrad::optim {

// The formats of such tensors; `kinds` counts them.
constexpr const char *listFormats[] = {"f32", "bf16", "f16"};

// Of each tensor its format, its elements and where they begin.
struct CheckedList {
  std::vector<uint8_t> kinds;
  std::vector<int64_t> numels;
  std::vector<uint64_t> pointers;
};

// Nothing unless each is one run of elements, all are of one device, within
// their storages and, if they are to be `written`, apart.
std::optional<CheckedList> listTensors(const std::vector<const at::Tensor *> &tensors, bool written);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_LISTS_H

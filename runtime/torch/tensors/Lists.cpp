#include "tensors/Lists.h"

#include "core/altgrad_core.h"
#include "tensors/Errors.h"
#include "tensors/Objects.h"

using namespace altgrad::optim;
using at::Tensor;

namespace {

bool isPlain(const Tensor &tensor) {
  // functorch's wrappers have none.
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_nested() && tensor.has_storage() &&
         !tensor.is_neg() && !tensor._is_zerotensor() && !tensor.is_inference() &&
         (tensor.is_cpu() || tensor.is_cuda());
}

} // namespace

std::optional<CheckedList> altgrad::optim::listTensors(const std::vector<const Tensor *> &tensors, bool written) {
  if (tensors.empty() || !isPlain(*tensors[0]))
    return std::nullopt;
  tellObjects();
  const size_t count = tensors.size();
  std::vector<AtenTensorHandle> handles;
  for (const Tensor *tensor : tensors)
    handles.push_back(handleOf(*tensor));
  CheckedList listed{std::vector<uint8_t>(count), std::vector<int64_t>(count), std::vector<uint64_t>(count)};
  int32_t taken = 0;
  checkTable(altgrad_core_tensors(handles.data(), int64_t(count), written, listed.kinds.data(), listed.numels.data(),
                                  listed.pointers.data(), &taken));
  return taken ? std::optional(std::move(listed)) : std::nullopt;
}

#include "tensors/Lists.h"

#include "core/Apart.h"
#include "tensors/Seen.h"

using namespace altgrad::optim;
using at::Tensor;

namespace {

constexpr size_t ahead = 8;

int kindOf(caffe2::TypeMeta type) {
  const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
  for (int kind = 0; kind < 3; ++kind)
    if (type == c10::scalarTypeToTypeMeta(types[kind]))
      return kind;
  return -1;
}

bool isPlain(const Tensor &tensor) {
  // functorch's wrappers have none.
  return tensor.defined() && tensor.layout() == at::kStrided &&
         !tensor.is_nested() && tensor.has_storage() && !tensor.is_neg() &&
         !tensor._is_zerotensor() && !tensor.is_inference() &&
         (tensor.is_cpu() || tensor.is_cuda());
}

// The keys say the layout, and whether it is a negative view, zeros, a wrapper
// or an inference tensor: they are those of the first, which is plain.
bool read(const c10::TensorImpl &tensor, const c10::TensorImpl &first,
          bool written, Listed &listed) {
  int kind = kindOf(tensor.dtype());
  if (kind < 0 || tensor.key_set() != first.key_set() ||
      tensor.device() != first.device() ||
      !tensor.is_non_overlapping_and_dense())
    return false;
  int64_t numel = tensor.numel();
  c10::StorageImpl *storage = storageOf(tensor);
  const void *data = !numel ? nullptr
                            : firstOf(tensor, written ? storage->mutable_data()
                                                      : storage->data());
  if (numel && (!data || !isWithin(tensor, data)))
    return false;
  listed.kinds.push_back(char(kind));
  listed.numels.push_back(numel);
  listed.pointers.push_back(uint64_t(uintptr_t(data)));
  return true;
}

bool areApart(const Listed &listed) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (size_t i = 0; i < listed.pointers.size(); ++i)
    if (uint64_t bytes = uint64_t(listed.numels[i]) * (listed.kinds[i] ? 2 : 4))
      spans.emplace_back(listed.pointers[i], listed.pointers[i] + bytes);
  return altgrad::core::areApart(std::move(spans));
}

} // namespace

std::optional<Listed>
altgrad::optim::lookAt(const std::vector<const Tensor *> &tensors,
                       bool written) {
  if (tensors.empty() || !isPlain(*tensors[0]))
    return std::nullopt;
  Listed listed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i + ahead < tensors.size())
      fetchObject(tensors[i + ahead]->unsafeGetTensorImpl());
    if (!tensors[i]->defined() ||
        !read(*tensors[i]->unsafeGetTensorImpl(),
              *tensors[0]->unsafeGetTensorImpl(), written, listed))
      return std::nullopt;
  }
  if (written && !areApart(listed))
    return std::nullopt;
  return listed;
}

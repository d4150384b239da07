// How a tensor is known again: it has the memory, the type, the sizes and the
// strides that it had when it was bound.
#ifndef ALTGRAD_TORCH_SEEN_H
#define ALTGRAD_TORCH_SEEN_H

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace altgrad::optim {

struct Seen {
  c10::TensorImpl *tensor;
  const void *data;
  uint64_t
      keys; // device, layout; whether it is a negative view, zeros, a wrapper
  uint32_t shape;
  uint16_t dims;
  caffe2::TypeMeta type;
};

// Sizes and strides of tensors, close together; neighbours share theirs.
class Shapes {
public:
  Seen add(const at::Tensor &tensor) {
    at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
    std::vector<int64_t> shape = sizes.vec();
    shape.insert(shape.end(), strides.begin(), strides.end());
    if (last > words.size() || shape.size() != words.size() - last ||
        !std::equal(shape.begin(), shape.end(), words.begin() + last)) {
      last = uint32_t(words.size());
      words.insert(words.end(), shape.begin(), shape.end());
    }
    c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
    return {impl,           impl->mutable_data(),   impl->key_set().raw_repr(),
            uint32_t(last), uint16_t(sizes.size()), impl->dtype()};
  }
  const int64_t *sizes(const Seen &seen) const {
    return words.data() + seen.shape;
  }
  const int64_t *strides(const Seen &seen) const {
    return sizes(seen) + seen.dims;
  }
  bool sizesAre(const Seen &seen, at::IntArrayRef sizes) const {
    return sizes.size() == seen.dims &&
           std::equal(sizes.begin(), sizes.end(), this->sizes(seen));
  }
  bool stridesAre(const Seen &seen, at::IntArrayRef strides) const {
    return std::equal(strides.begin(), strides.end(), this->strides(seen));
  }
  bool isSame(const Seen &seen) const {
    c10::TensorImpl &now = *seen.tensor;
    return now.key_set().raw_repr() == seen.keys && now.dtype() == seen.type &&
           sizesAre(seen, now.sizes()) && stridesAre(seen, now.strides()) &&
           now.mutable_data() == seen.data;
  }

private:
  std::vector<int64_t> words;
  size_t last = 1; // where the last one begins; beyond the end: none yet
};

// A step streams through the caches, so that the next one finds the bookkeeping
// of every tensor far away: it is asked for before it is needed.
// `place` may be null.
inline void fetch(const void *place, ptrdiff_t offset = 0) {
  __builtin_prefetch(reinterpret_cast<const void *>(uintptr_t(place) + offset));
}

// The lines of a TensorImpl that are read: storage, autograd and version in
// front, then sizes and strides, then type and flags.
inline void fetchObject(const c10::TensorImpl *tensor) {
  for (ptrdiff_t offset : {16, 80, 144})
    fetch(tensor, offset);
  fetch(tensor, sizeof(c10::TensorImpl) - 1);
}

inline void fetchStorage(const c10::TensorImpl *tensor) {
  const void *storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  fetch(storage, 16);
  fetch(storage, 63);
}

// Where the version counter lies, for fetch().
inline const void *counterOf(const c10::TensorImpl *tensor) {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void *));
  const void *counter;
  std::memcpy(&counter, static_cast<const void *>(&tensor->version_counter()),
              sizeof counter);
  return counter;
}

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_SEEN_H

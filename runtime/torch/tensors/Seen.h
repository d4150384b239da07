// How a tensor is known again: it has the memory, the type, the sizes and the
// strides that it had when it was bound.
#ifndef ALTGRAD_TORCH_SEEN_H
#define ALTGRAD_TORCH_SEEN_H

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace altgrad::optim {

// `tensor` is alive while the handle holds it, and looked into only then.
struct Seen {
  bool isHeld() const { return handle->unsafeGetTensorImpl() == tensor; }

  const at::Tensor *handle;
  c10::TensorImpl *tensor;
  const void *data;
  // Device and layout; whether it is a negative view, zeros, a wrapper.
  uint64_t keys;
  // Its own, so that a step need not look into the tensor for it again.
  c10::VariableVersion version;
  uint32_t shape;
  uint16_t dims;
  caffe2::TypeMeta type;
};

// Where the counter itself lies.
inline const void *counterOf(const c10::VariableVersion &version) {
  static_assert(sizeof version == sizeof(void *));
  const void *counter;
  std::memcpy(&counter, static_cast<const void *>(&version), sizeof counter);
  return counter;
}

inline c10::StorageImpl *storageOf(const c10::TensorImpl &tensor) {
  return tensor.unsafe_storage().unsafeGetStorageImpl();
}

// In numbers: a storage that was freed is at null.
inline const void *firstOf(const c10::TensorImpl &tensor, const void *storage) {
  return reinterpret_cast<const void *>(
      uintptr_t(storage) + size_t(tensor.storage_offset()) * tensor.itemsize());
}

// Whether a tensor without gaps lies within its storage.
inline bool isWithin(const c10::TensorImpl &tensor, const void *data) {
  const c10::StorageImpl &storage = *storageOf(tensor);
  return uintptr_t(data) + size_t(tensor.numel()) * tensor.itemsize() <=
         uintptr_t(storage.data()) + storage.nbytes();
}

// Where a tensor may be written; what shares its memory until then gets its
// own. Null for one without memory.
inline const void *memoryOf(const c10::TensorImpl &tensor) {
  c10::StorageImpl *storage = storageOf(tensor);
  return storage ? firstOf(tensor, storage->mutable_data()) : nullptr;
}

// std::equal would call memcmp for these few words.
inline bool isSameList(const int64_t *known, at::IntArrayRef now) {
  for (int64_t word : now)
    if (word != *known++)
      return false;
  return true;
}

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
    return {&tensor,
            impl,
            memoryOf(*impl),
            impl->key_set().raw_repr(),
            impl->version_counter(),
            uint32_t(last),
            uint16_t(sizes.size()),
            impl->dtype()};
  }
  const int64_t *sizes(const Seen &seen) const {
    return words.data() + seen.shape;
  }
  const int64_t *strides(const Seen &seen) const {
    return sizes(seen) + seen.dims;
  }
  bool sizesAre(const Seen &seen, at::IntArrayRef sizes) const {
    return sizes.size() == seen.dims && isSameList(this->sizes(seen), sizes);
  }
  bool stridesAre(const Seen &seen, at::IntArrayRef strides) const {
    return isSameList(this->strides(seen), strides);
  }
  bool isSame(const Seen &seen) const {
    c10::TensorImpl &now = *seen.tensor;
    return now.key_set().raw_repr() == seen.keys && now.dtype() == seen.type &&
           sizesAre(seen, now.sizes()) && stridesAre(seen, now.strides()) &&
           memoryOf(now) == seen.data &&
           counterOf(now.version_counter()) == counterOf(seen.version);
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
  const void *storage = storageOf(*tensor);
  fetch(storage, 16);
  fetch(storage, 63);
}

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_SEEN_H

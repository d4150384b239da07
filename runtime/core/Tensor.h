// What a step asks of a tensor, through torch's stable C interface.
#ifndef ALTGRAD_CORE_TENSOR_H
#define ALTGRAD_CORE_TENSOR_H

#include "Errors.h"

#include <torch/csrc/stable/c/shim.h>

#include <cstdint>
#include <utility>

namespace altgrad::core {

using Handle = AtenTensorHandle;

// torch has written its reason to stderr.
inline void require(AOTITorchError status) {
  if (status)
    throw Refusal(ALTGRAD_INVALID, "torch refuses to look into a tensor");
}

// A tensor that is let go of at the end.
class Held {
public:
  explicit Held(Handle own = nullptr) : handle(own) {}
  Held(Held &&other) : handle(std::exchange(other.handle, nullptr)) {}
  Held &operator=(Held &&other) {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Held() { aoti_torch_delete_tensor_object(handle); }
  operator Handle() const { return handle; }
  Handle *out() { return &handle; }

private:
  Handle handle = nullptr;
};

inline Held hold(Handle tensor) {
  Held own;
  if (tensor)
    require(aoti_torch_new_tensor_handle(tensor, own.out()));
  return own;
}

template <typename Value, typename Function> Value ask(Function function, Handle tensor) {
  Value value{};
  require(function(tensor, &value));
  return value;
}

inline int64_t numelOf(Handle tensor) { return ask<int64_t>(aoti_torch_get_numel, tensor); }
inline int64_t dimsOf(Handle tensor) { return ask<int64_t>(aoti_torch_get_dim, tensor); }
inline const int64_t *sizesOf(Handle tensor) { return ask<int64_t *>(aoti_torch_get_sizes, tensor); }
inline const int64_t *stridesOf(Handle tensor) { return ask<int64_t *>(aoti_torch_get_strides, tensor); }
inline int32_t typeOf(Handle tensor) { return ask<int32_t>(aoti_torch_get_dtype, tensor); }
// "torch.float32".
std::string nameOf(int32_t dtype);
inline bool isStrided(Handle tensor) {
  return ask<int32_t>(aoti_torch_get_layout, tensor) == aoti_torch_layout_strided();
}
inline bool isContiguous(Handle tensor) { return ask<bool>(aoti_torch_is_contiguous, tensor); }
inline const void *readableOf(Handle tensor) { return ask<const void *>(torch_get_const_data_ptr, tensor); }
// Memory that is shared until it is written becomes the tensor's own.
inline void *writableOf(Handle tensor) { return ask<void *>(torch_get_mutable_data_ptr, tensor); }
inline bool onSameDevice(Handle one, Handle other) {
  return ask<int32_t>(aoti_torch_get_device_type, one) == ask<int32_t>(aoti_torch_get_device_type, other) &&
         ask<int32_t>(aoti_torch_get_device_index, one) == ask<int32_t>(aoti_torch_get_device_index, other);
}

inline int64_t itemSizeOf(int32_t type) { return int64_t(aoti_torch_dtype_element_size(type)); }

// Bytes from the first element to behind the last.
inline int64_t extentOf(Handle tensor) {
  int64_t last = 0;
  const int64_t *sizes = sizesOf(tensor), *strides = stridesOf(tensor);
  for (int64_t i = 0, dims = dimsOf(tensor); i < dims; ++i)
    last += (sizes[i] - 1) * strides[i];
  return (last + 1) * itemSizeOf(typeOf(tensor));
}

// Bytes from the begin of the storage to behind the last element.
inline int64_t endOf(Handle tensor) {
  return ask<int64_t>(aoti_torch_get_storage_offset, tensor) * itemSizeOf(typeOf(tensor)) + extentOf(tensor);
}

// Whether all elements lie within the storage.
inline bool isWithin(Handle tensor) {
  return numelOf(tensor) == 0 || endOf(tensor) <= ask<int64_t>(aoti_torch_get_storage_size, tensor);
}
// Throws where they do not: somebody has resized it.
void checkWithin(Handle tensor);

// The object behind a handle: a handle is a pointer to torch's counted pointer.
inline const void *objectOf(Handle tensor) { return *reinterpret_cast<const void *const *>(tensor); }

// The words of an object that say what the tensor is, behind its type and the
// count of who holds it; torch has no smaller one. Those in front are its own:
// storage, version. The others are dtype, sizes and strides, and many tensors
// have the same. Whether they do say it is tried out.
constexpr size_t firstWord = 2, ownWords = 6, sharedWords = 15;
// Up to how many dimensions the first of these words tell every change of a tensor; -1: they do not. More sizes lie
// outside of the object.
int64_t dimsInWords(size_t words = ownWords + sharedWords);
inline const uint64_t *wordsOf(Handle tensor) { return static_cast<const uint64_t *>(objectOf(tensor)) + firstWord; }

// A step streams through the caches, so that the next one finds what describes
// the tensors far away. These are hints alone: nothing depends on where torch
// keeps what.
inline void prefetch(const void *place, ptrdiff_t offset = 0) {
  __builtin_prefetch(reinterpret_cast<const void *>(uintptr_t(place) + offset));
}
inline void prefetchObject(Handle tensor) {
  for (ptrdiff_t offset : {16, 80, 144})
    prefetch(objectOf(tensor), offset);
}
inline void prefetchStorage(Handle tensor) {
  auto *words = static_cast<const uintptr_t *>(objectOf(tensor));
  for (ptrdiff_t offset : {16, 63})
    prefetch(reinterpret_cast<const void *>(words[2]), offset);
}
inline void prefetchVersion(Handle tensor) {
  auto *words = static_cast<const uintptr_t *>(objectOf(tensor));
  prefetch(reinterpret_cast<const void *>(words[5]));
}
inline void prefetchAutograd(Handle tensor) {
  auto *words = static_cast<const uintptr_t *>(objectOf(tensor));
  prefetch(reinterpret_cast<const void *>(words[3]), 40);
}

} // namespace altgrad::core

#endif // ALTGRAD_CORE_TENSOR_H

// What Python says of itself, and where torch's objects keep what is read of them.
#ifndef ALTGRAD_CORE_PYTHON_H
#define ALTGRAD_CORE_PYTHON_H

#include "Tensor.h"
#include "altgrad_core.h"

namespace altgrad::core {

altgrad_core_python &python();
altgrad_core_objects &objects();

// The tensor of an object; null for None.
inline Handle handleIn(const void *object) {
  return object == python().none ? nullptr : reinterpret_cast<Handle>(uintptr_t(object) + uintptr_t(python().inside));
}

template <typename Word> Word wordAt(const void *object, int64_t place) {
  return *reinterpret_cast<const Word *>(uintptr_t(object) + uintptr_t(place));
}

// Say the device, the layout, and whether a tensor is a negative view, zeros
// without memory or a wrapper. 0: they are not known.
inline uint64_t keysOf(Handle tensor) {
  return objects().keys < 0 ? 0 : wordAt<uint64_t>(objectOf(tensor), objects().keys);
}

// The gradient that autograd keeps; null for none.
inline Handle gradientIn(Handle param) {
  auto kept = wordAt<uintptr_t>(objectOf(param), objects().autograd);
  auto *place = reinterpret_cast<void *>(kept + uintptr_t(objects().gradient));
  return !kept || wordAt<const void *>(place, 0) == objects().nothing ? nullptr : reinterpret_cast<Handle>(place);
}

// The counter of a tensor's version; null where it has none, as an inference
// tensor, and where torch's objects are not known.
inline void *counterOf(Handle tensor) {
  return objects().counter < 0 ? nullptr : wordAt<void *>(objectOf(tensor), objects().counter);
}
inline void raiseVersion(void *counter) {
  if (counter)
    __atomic_fetch_add(reinterpret_cast<uint32_t *>(uintptr_t(counter) + uintptr_t(objects().version)), 1,
                       __ATOMIC_RELAXED);
}
inline uint32_t versionOf(Handle tensor) {
  void *counter = counterOf(tensor);
  return counter ? wordAt<uint32_t>(counter, objects().version) : 0;
}

} // namespace altgrad::core

#endif // ALTGRAD_CORE_PYTHON_H

// What Python says of itself.
#ifndef ALTGRAD_CORE_PYTHON_H
#define ALTGRAD_CORE_PYTHON_H

#include "Tensor.h"
#include "table.h"

namespace altgrad::core {

altgrad_table_python &python();

// The tensor of an object; null for None.
inline Handle handleIn(const void *object) {
  return object == python().none
             ? nullptr
             : reinterpret_cast<Handle>(uintptr_t(object) +
                                        uintptr_t(python().inside));
}

// Say the device, the layout, and whether a tensor is a negative view, zeros
// without memory or a wrapper. 0: they are not known.
inline uint64_t keysOf(Handle tensor) {
  auto *object = static_cast<const char *>(objectOf(tensor));
  return python().keys < 0 ? 0
                           : *reinterpret_cast<const uint64_t *>(
                                 object + python().keys);
}

} // namespace altgrad::core

#endif // ALTGRAD_CORE_PYTHON_H

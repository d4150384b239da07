// torch's operators by its dispatcher, which takes words and gives words.
#ifndef ALTGRAD_RUNTIME_CORE_OPERATORS_H
#define ALTGRAD_RUNTIME_CORE_OPERATORS_H

#include "Tensor.h"

#include <torch/headeronly/version.h>

#include <cstring>

namespace altgrad::core {

inline StableIValue wordOf(bool flag) { return StableIValue(flag); }
inline StableIValue wordOf(int64_t number) { return StableIValue(number); }
inline StableIValue wordOf(const char *text) {
  StringHandle handle;
  require(torch_new_string_handle(text, strlen(text), &handle));
  return StableIValue(uintptr_t(handle));
}
// The dispatcher takes a handle of its own.
inline StableIValue wordOf(const Held &tensor) {
  Handle own;
  require(aoti_torch_new_tensor_handle(tensor, &own));
  return StableIValue(uintptr_t(own));
}

inline Held takeResult(StableIValue word) { return Held(reinterpret_cast<Handle>(uintptr_t(word))); }

// An operator of one result, and one of two.
template <typename... Words> Held call(const char *name, const char *overload, const Words &...words) {
  StableIValue stack[] = {wordOf(words)...};
  require(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION));
  return takeResult(stack[0]);
}
template <typename... Words>
std::pair<Held, Held> callTwo(const char *name, const char *overload, const Words &...words) {
  StableIValue stack[2 + sizeof...(words)] = {wordOf(words)...};
  require(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION));
  return {takeResult(stack[0]), takeResult(stack[1])};
}

// A number on the CPU, which goes with tensors of all devices, as long as `value` is there.
inline Held number(float &value) {
  Held view;
  require(aoti_torch_create_tensor_from_blob(&value, 0, nullptr, nullptr, 0, aoti_torch_dtype_float32(),
                                             aoti_torch_device_type_cpu(), 0, view.out()));
  return view;
}
inline Held scaled(const Held &x, float by) { return call("aten::mul", "Tensor", x, number(by)); }
inline Held powerOf(const Held &x, float exponent) { return call("aten::pow", "Tensor_Tensor", x, number(exponent)); }
inline Held atLeast(const Held &x, float least) { return call("aten::maximum", "", x, number(least)); }

inline Held transposed(const Held &x) { return call("aten::mT", "", x); }
inline Held product(const Held &a, const Held &b) { return call("aten::matmul", "", a, b); }
// Sums of products along a dimension.
inline Held dots(const Held &a, const Held &b, int64_t along) { return call("aten::linalg_vecdot", "", a, b, along); }
// A view of the diagonals of a batch.
inline Held diagonalOf(const Held &x) {
  return call("aten::diagonal", "", x, int64_t(0), int64_t(-2), int64_t(-1));
}
inline Held unsqueezed(const Held &x, int64_t at) { return call("aten::unsqueeze", "", x, at); }

} // namespace altgrad::core

#endif // ALTGRAD_RUNTIME_CORE_OPERATORS_H

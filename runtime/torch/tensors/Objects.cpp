#include "tensors/Objects.h"

#include "core/altgrad_core.h"
#include "tensors/Lasting.h"

#include <ATen/ops/empty.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

AtenTensorHandle altgrad::optim::handleOf(const Tensor &tensor) {
  return reinterpret_cast<AtenTensorHandle>(const_cast<Tensor *>(&tensor));
}

namespace {

// Where this torch's objects have what is private in them.
struct Peek : c10::TensorImpl {
  static ptrdiff_t keysIn(const TensorImpl &tensor) { return distance(tensor, &(tensor.*&Peek::key_set_)); }
  static ptrdiff_t distance(const TensorImpl &tensor, const void *place) {
    return static_cast<const char *>(place) - reinterpret_cast<const char *>(&tensor);
  }
  static ptrdiff_t find(const TensorImpl &tensor, const void *pointer) {
    auto *words = reinterpret_cast<const void *const *>(&tensor);
    auto *end = words + sizeof tensor / sizeof *words;
    auto *found = std::find(words, end, pointer);
    TORCH_INTERNAL_ASSERT(found != end);
    return distance(tensor, found);
  }
};

} // namespace

void altgrad::optim::tellObjects() {
  static const bool once = [] {
    Lasting lasting;
    Tensor param = at::empty({1}, at::kCPU).requires_grad_();
    const c10::TensorImpl &impl = *param.unsafeGetTensorImpl();
    const char *kept = reinterpret_cast<const char *>(impl.autograd_meta());
    altgrad_core_objects objects;
    objects.keys = Peek::keysIn(impl);
    objects.negative = c10::DispatchKeySet(c10::DispatchKey::Negative).raw_repr();
    objects.counter = Peek::distance(impl, &impl.version_counter());
    objects.version = sizeof(c10::intrusive_ptr_target);
    objects.autograd = Peek::find(impl, kept);
    objects.gradient = reinterpret_cast<const char *>(&param.grad()) - kept;
    objects.nothing = c10::UndefinedTensorImpl::singleton();
    objects.dims = INT64_MAX;
    altgrad_core_set_objects(&objects);
    altgrad_set_gemm(nullptr, altgrad_core_multiply, nullptr);
    altgrad_set_factorize(nullptr, altgrad_core_factorize, nullptr);
    return true;
  }();
  (void)once;
}

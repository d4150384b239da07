// What a step copies beside its kernels: parameters with gaps, and what was written from outside into the parameters of
// masters.
#include "Python.h"
#include "TableImpl.h"
#include "Threads.h"

#include <vector>

using namespace altgrad::core;

namespace {

// torch's operators work on values alone here.
struct NoGrad {
  NoGrad() { aoti_torch_grad_mode_set_enabled(false); }
  ~NoGrad() { aoti_torch_grad_mode_set_enabled(was); }
  const bool was = aoti_torch_grad_mode_is_enabled();
};

// An operator of torch's that makes one thing of tensors.
StableIValue call(const char *name, const char *overload, std::initializer_list<Handle> given) {
  std::vector<StableIValue> stack;
  for (Handle tensor : given) {
    Handle own = nullptr; // which the call lets go of
    require(aoti_torch_new_tensor_handle(tensor, &own));
    stack.push_back(reinterpret_cast<uintptr_t>(own));
  }
  require(aoti_torch_call_dispatcher(name, overload, stack.data()));
  return stack[0];
}
Held tensorOf(const char *name, const char *overload, std::initializer_list<Handle> given) {
  return Held(reinterpret_cast<Handle>(call(name, overload, given)));
}

void copy(Handle to, Handle from) { require(aoti_torch_copy_(to, from, /*non_blocking=*/0)); }

// The numbers of `from` in the dtype of `like`.
Held as(Handle like, Handle from) {
  Held made;
  require(aoti_torch_clone(like, made.out()));
  copy(made, from);
  return made;
}

int64_t versionNow(Handle tensor) {
  if (objects().counter >= 0)
    return versionOf(tensor);
  return int64_t(call("aten::_version", "", {tensor}));
}

} // namespace

// Element by element: where the parameter still is the rounded master, the master keeps the bits that the parameter has
// no room for.
void Table::takeEdits(Handle param, Handle master) const {
  const int32_t type = typeOf(param);
  const char *format = altgrad_core_format(type);
  const bool half = type == aoti_torch_dtype_bfloat16() || type == aoti_torch_dtype_float16();
  if (!onHost || !half || typeOf(master) != aoti_torch_dtype_float32()) {
    const Held edited = tensorOf("aten::ne", "Tensor", {param, as(param, master)});
    return copy(master, tensorOf("aten::where", "self", {edited, as(master, param), master}));
  }
  auto *from = static_cast<const uint16_t *>(readableOf(param));
  auto *to = static_cast<float *>(writableOf(master));
  require(onThreads(numelOf(param), [&](int64_t begin, int64_t end) {
    check(altgrad_take_edits(format, from + begin, to + begin, end - begin));
  }, /*grain=*/1 << 15));
}

// Of each parameter with gaps that takes part in the step, and the copy that is stepped in its place.
template <typename Visit> void Table::visitGaps(const Visit &visit) const {
  for (const SetRows &set : sets)
    for (int64_t row = set.first; anyCopy && row < set.last; ++row)
      if (const Row &of = rows_[size_t(row)]; of.dense && !of.skipped && present_[size_t(row)])
        visit(paramOf(set, row).handle, of.dense);
}

void Table::copyIn() {
  if (!anyCopy && masters.empty())
    return;
  const NoGrad none;
  visitGaps([](Handle param, Handle dense) { copy(dense, param); });
  for (const Master &of : masters)
    if (present_[of.row] && versionNow(of.param) != of.version)
      takeEdits(of.stepped, of.master);
}

// Where the library cannot raise versions, its caller does so before the next step.
void Table::copyOut() {
  if (!anyCopy && masters.empty())
    return;
  const NoGrad none;
  visitGaps([](Handle param, Handle dense) { copy(param, dense); });
  for (Master &of : masters)
    if (present_[of.row])
      of.version = versionNow(of.param) + (objects().counter < 0);
}

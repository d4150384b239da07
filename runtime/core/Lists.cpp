// Lists of tensors for a step that has no optimizer.
#include "Layout.h"
#include "Overlap.h"
#include "Python.h"

using namespace altgrad::core;

namespace {

// Whether the elements fill one stretch of memory, each exactly once.
bool isDense(Handle tensor) {
  return isContiguous(tensor) || Layout(dimsOf(tensor), sizesOf(tensor), stridesOf(tensor)).isDense();
}

// The place of a dtype in PARAM_DTYPES of the package; -1: not there.
int kindOf(int32_t type) {
  return type == aoti_torch_dtype_float32()    ? 0
         : type == aoti_torch_dtype_bfloat16() ? 1
         : type == aoti_torch_dtype_float16()  ? 2
                                               : -1;
}

struct CheckedList {
  uint8_t *kinds;
  int64_t *numels;
  uint64_t *pointers;
};

// Reads one; false where a kernel cannot.
bool read(Handle tensor, Handle first, bool written, const CheckedList &listed) {
  const int kind = kindOf(typeOf(tensor));
  if (kind < 0 || keysOf(tensor) != keysOf(first) || !onSameDevice(tensor, first) || !isDense(tensor) ||
      !isWithin(tensor))
    return false;
  const void *data = written ? writableOf(tensor) : readableOf(tensor);
  *listed.kinds = uint8_t(kind);
  *listed.numels = numelOf(tensor);
  *listed.pointers = *listed.numels ? uint64_t(uintptr_t(data)) : 0;
  return data || *listed.numels == 0;
}

bool areDisjoint(const CheckedList &listed, int64_t count) {
  std::vector<Span> spans;
  for (int64_t i = 0; i < count; ++i)
    if (uint64_t bytes = uint64_t(listed.numels[i]) * (listed.kinds[i] ? 2 : 4))
      spans.push_back({listed.pointers[i], listed.pointers[i] + bytes, i});
  return !spansOverlap(std::move(spans), count);
}

// `at(i)` is the i-th tensor.
template <typename At> bool readAll(const At &at, int64_t count, bool written, const CheckedList &listed) {
  constexpr int64_t ahead = 8;
  const Handle first = at(0);
  for (int64_t i = 0; i < count; ++i) {
    if (i + ahead < count)
      prefetchObject(at(i + ahead));
    if (keysOf(first) == 0 || !read(at(i), first, written, {listed.kinds + i, listed.numels + i, listed.pointers + i}))
      return false;
  }
  return !written || areDisjoint(listed, count);
}

} // namespace

altgrad_status altgrad_core_list(void *list, int64_t count, int32_t written, uint8_t *kinds, int64_t *numels,
                                 uint64_t *pointers, int32_t *taken) {
  return guarded([&] {
    auto at = [&](int64_t i) { return handleIn(python().item(list, i)); };
    *taken = readAll(at, count, written, {kinds, numels, pointers});
  });
}

altgrad_status altgrad_core_tensors(const AtenTensorHandle *tensors, int64_t count, int32_t written, uint8_t *kinds,
                                    int64_t *numels, uint64_t *pointers, int32_t *taken) {
  return guarded([&] {
    auto at = [&](int64_t i) { return tensors[i]; };
    *taken = readAll(at, count, written, {kinds, numels, pointers});
  });
}

altgrad_status altgrad_core_run_one(const altgrad_core_one *one, void *from, void *to, int32_t *taken) {
  return guarded([&] {
    Handle x = handleIn(from), out = handleIn(to);
    *taken = keysOf(x) != 0 && keysOf(x) == keysOf(out) && typeOf(x) == one->type && numelOf(x) == one->numel &&
             typeOf(out) == one->into && numelOf(out) == one->numel && isContiguous(x) && isContiguous(out) &&
             isWithin(x);
    if (!*taken)
      return;
    void *read = const_cast<void *>(readableOf(x)), *written = writableOf(out);
    check(altgrad_bind_stream(one->plan, one->from, &read, 1));
    check(altgrad_bind_stream(one->plan, one->to, &written, 1));
    check(altgrad_run(one->plan, one->workspace, one->bytes, 0, -1, nullptr));
  });
}

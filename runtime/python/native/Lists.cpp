#include "Lists.h"

#include "Seen.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace altgrad;
using at::Tensor;

namespace {

constexpr Py_ssize_t ahead = 8;

// PARAM_DTYPES of optim/_layout.py.
int kindOf(caffe2::TypeMeta type) {
  const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
  for (int kind = 0; kind < 3; ++kind)
    if (type == c10::scalarTypeToTypeMeta(types[kind]))
      return kind;
  return -1;
}

const c10::TensorImpl *implOf(PyObject *tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

class List {
public:
  List(const py::list &tensors, bool written)
      : items(PySequence_Fast_ITEMS(tensors.ptr())),
        count(Py_ssize_t(tensors.size())), written(written) {}

  bool read() {
    kinds.resize(size_t(count));
    numels.resize(size_t(count));
    pointers.resize(size_t(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!THPVariable_CheckTypeExact(Py_TYPE(items[i])))
        return false;
      fetchAhead(i);
      if (!read(i))
        return false;
    }
    return count > 0 && (!written || areApart());
  }

  py::tuple words() const {
    return py::make_tuple(py::bytes(kinds), bytesOf(numels), bytesOf(pointers));
  }

private:
  void fetchAhead(Py_ssize_t i) const {
    if (i + 2 * ahead < count)
      optim::fetch(items[i + 2 * ahead], 24);
    if (i + ahead < count &&
        THPVariable_CheckTypeExact(Py_TYPE(items[i + ahead])))
      optim::fetchObject(implOf(items[i + ahead]));
  }

  bool read(Py_ssize_t i) {
    const c10::TensorImpl &tensor = *implOf(items[i]);
    const c10::TensorImpl &first = *implOf(items[0]);
    int kind = kindOf(tensor.dtype());
    // The keys say the layout, and whether it is a negative view, zeros, a
    // wrapper or an inference tensor.
    if (kind < 0 || tensor.key_set() != first.key_set() ||
        tensor.device() != first.device() ||
        !tensor.is_non_overlapping_and_dense())
      return false;
    if (i == 0 && !isPlain(THPVariable_Unpack(items[0])))
      return false;
    c10::StorageImpl *storage = optim::storageOf(tensor);
    int64_t numel = tensor.numel();
    const void *data =
        !numel ? nullptr
               : optim::firstOf(tensor, written ? storage->mutable_data()
                                                : storage->data());
    if (numel && (!data || !optim::isWithin(tensor, data)))
      return false;
    kinds[size_t(i)] = char(kind);
    numels[size_t(i)] = numel;
    pointers[size_t(i)] = uint64_t(uintptr_t(data));
    return true;
  }

  static bool isPlain(const Tensor &tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_neg() &&
           !tensor._is_zerotensor() && !tensor.is_inference() &&
           (tensor.is_cpu() || tensor.is_cuda());
  }

  // In most lists every tensor begins behind the one before it.
  bool areApart() const {
    std::vector<std::pair<uint64_t, uint64_t>> spans;
    for (size_t i = 0; i < pointers.size(); ++i)
      if (numels[i])
        spans.emplace_back(pointers[i],
                           pointers[i] +
                               uint64_t(numels[i]) * (kinds[i] == 0 ? 4 : 2));
    if (!std::is_sorted(spans.begin(), spans.end()))
      std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i)
      if (spans[i].first < spans[i - 1].second)
        return false;
    return true;
  }

  template <typename Word>
  static py::bytes bytesOf(const std::vector<Word> &words) {
    return py::bytes(reinterpret_cast<const char *>(words.data()),
                     words.size() * sizeof(Word));
  }

  PyObject *const *items;
  Py_ssize_t count;
  bool written;
  std::string kinds;
  std::vector<int64_t> numels;
  std::vector<uint64_t> pointers;
};

} // namespace

py::object native::look(const py::list &tensors, bool written) {
  List list(tensors, written);
  return list.read() ? py::object(list.words()) : py::none();
}

void native::raiseVersions(const py::list &tensors) {
  PyObject *const *items = PySequence_Fast_ITEMS(tensors.ptr());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &tensor = THPVariable_Unpack(items[i]);
    if (!tensor.is_inference())
      tensor.unsafeGetTensorImpl()->bump_version();
  }
}

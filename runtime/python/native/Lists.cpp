#include "Lists.h"

#include "tensors/Lists.h"

#include <torch/csrc/autograd/python_variable.h>

using namespace altgrad;

template <typename Word>
static py::bytes bytesOf(const std::vector<Word> &words) {
  return py::bytes(reinterpret_cast<const char *>(words.data()),
                   words.size() * sizeof(Word));
}

py::object native::look(const py::list &tensors, bool written) {
  std::vector<const at::Tensor *> handles;
  handles.reserve(tensors.size());
  PyObject *const *items = PySequence_Fast_ITEMS(tensors.ptr());
  for (size_t i = 0; i < tensors.size(); ++i) {
    // Other classes may have code of their own.
    if (!THPVariable_CheckTypeExact(Py_TYPE(items[i])))
      return py::none();
    handles.push_back(&THPVariable_Unpack(items[i]));
  }
  auto listed = optim::lookAt(handles, written);
  if (!listed)
    return py::none();
  return py::make_tuple(py::bytes(listed->kinds), bytesOf(listed->numels),
                        bytesOf(listed->pointers));
}

void native::raiseVersions(const py::list &tensors) {
  PyObject *const *items = PySequence_Fast_ITEMS(tensors.ptr());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor &tensor = THPVariable_Unpack(items[i]);
    if (!tensor.is_inference())
      tensor.unsafeGetTensorImpl()->bump_version();
  }
}

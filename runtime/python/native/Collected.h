// Types that Python's cycle collector sees into.
#ifndef ALTGRAD_NATIVE_COLLECTED_H
#define ALTGRAD_NATIVE_COLLECTED_H

#include <torch/csrc/utils/pybind.h>

namespace altgrad::native {

// For a class with traverse(visit, arg) over the Python objects that it owns,
// and with clear(), which lets go of them; what is cleared may still be called.
template <typename T> py::custom_type_setup collected() {
  return py::custom_type_setup([](PyHeapTypeObject *made) {
    PyTypeObject &type = made->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject *self, visitproc visit, void *arg) {
      Py_VISIT(Py_TYPE(self));
      return py::detail::is_holder_constructed(self)
                 ? py::cast<T &>(py::handle(self)).traverse(visit, arg)
                 : 0;
    };
    type.tp_clear = [](PyObject *self) {
      if (py::detail::is_holder_constructed(self))
        py::cast<T &>(py::handle(self)).clear();
      return 0;
    };
  });
}

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_COLLECTED_H

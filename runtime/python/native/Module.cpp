// altgrad._native; altgrad/_native.py finds and checks it.
#include "Groups.h"
#include "Lists.h"
#include "Rounding.h"
#include "Table.h"

using namespace altgrad;

// altgrad.Error, given by the package: (words, number of the status).
static PyObject *&errorMaker() {
  static PyObject *maker = nullptr;
  return maker;
}

static void translate(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const optim::Refusal &refusal) {
    py::object made = py::reinterpret_borrow<py::object>(errorMaker())(
        refusal.words, refusal.status);
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())),
                    made.ptr());
  } catch (const c10::TypeError &error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::Error &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  }
}

PYBIND11_MODULE(_native, module) {
  // Where this module has found the runtime: the package checks that it uses
  // the same.
  module.attr("runtime") = reinterpret_cast<uintptr_t>(&altgrad_version);
  module.def("set_error", [](py::object maker) {
    Py_XDECREF(errorMaker());
    errorMaker() = maker.release().ptr();
  });
  py::register_local_exception_translator(translate);
  native::Groups::addTo(module);
  native::Rounding::addTo(module);
  native::Table::addTo(module);
  module.def("look", native::look);
  module.def("raise_versions", native::raiseVersions);
}

// optim/_table.py's TensorTable, over the one that LibTorch uses.
#ifndef ALTGRAD_NATIVE_TABLE_H
#define ALTGRAD_NATIVE_TABLE_H

#include "Entries.h"
#include "TensorTable.h"

#include <deque>

namespace altgrad::native {

// The interface is described in optim/_table.py.
class Table {
public:
  // `bundle` is the address of an altgrad_bundle that is never freed,
  // `exchanges` what run() hands to its callback, one for each exchange point.
  Table(uintptr_t bundle, const py::list &rows, std::vector<int32_t> groups,
        const py::list &params, const py::dict &state, py::list exchanges);

  int fresh(const py::list &params, py::handle state);
  // Those of the groups of the plan whose indices are `cells`, in their order.
  void setHypers(const std::vector<double> &numbers,
                 const std::vector<size_t> &cells);
  py::dict run(const py::dict &given, const py::object &exchange);

  int traverse(visitproc visit, void *arg);
  void clear();

  static void addTo(py::module_ &module);

private:
  // What one thing of the step is called in Python: the word of its role.
  struct Single {
    const optim::Scalar *scalar;
    py::object role;
  };

  const at::Tensor *handleOf(py::handle tensor);
  const at::Tensor *hold(py::handle tensor);
  optim::Row makeRow(py::handle row);
  bool areSame(const py::list &params) const;

  std::shared_ptr<const optim::Program> program;
  std::vector<int32_t> groups;
  py::list owned; // everything whose address is kept
  // Their own handles: thousands of objects less to look into in every step.
  // For it swap_tensors refuses a bound state; parameters it may swap.
  std::deque<at::Tensor> states;
  std::vector<PyObject *> params;
  PyTypeObject *kind; // of the state
  Entries entries;
  py::list exchanges;
  std::vector<Single> singles;
  std::unique_ptr<optim::TensorTable> table;
};

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_TABLE_H

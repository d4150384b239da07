// _binding/table.py's TensorTable, over the one that LibTorch uses.
#ifndef ALTGRAD_NATIVE_TABLE_H
#define ALTGRAD_NATIVE_TABLE_H

#include "Entries.h"
#include "table/TensorTable.h"

#include <deque>

namespace altgrad::native {

// The interface is described in _binding/table.py.
class Table {
public:
  // `bundle` is the address of an altgrad_bundle that is never freed.
  Table(uintptr_t bundle, const py::list &rows, std::vector<int32_t> groups,
        const py::list &params, const std::vector<size_t> &idle,
        const py::dict &state);

  int fresh(const py::list &params, py::handle state);
  // Those of the groups of the plan whose indices are `cells`, in their order.
  void setHypers(const std::vector<double> &numbers,
                 const std::vector<size_t> &cells);
  void
  setTensors(const std::vector<std::tuple<size_t, size_t, at::Tensor>> &given);
  void place(const std::vector<std::pair<size_t, at::Tensor>> &given);
  py::dict run(const py::dict &given);
  void begin(const py::dict &given);
  // (the reduction of the C ABI, what this device has of it)
  std::optional<std::vector<std::pair<int, at::Tensor>>> advance();
  py::dict results() const;
  bool sums() const { return held().sums(); }
  void sum(int64_t row);
  std::pair<int64_t, int64_t> summedRows() const { return held().summedRows(); }
  std::map<std::string, at::Tensor> statistics() const;

  int traverse(visitproc visit, void *arg);
  void clear();

  static void addTo(py::module_ &module);

private:
  // What one thing of the step is called in Python: the word of its role.
  struct Single {
    const optim::Scalar *scalar;
    py::object role;
    bool placed = false; // lies in memory that was given
  };

  const at::Tensor *handleOf(py::handle tensor);
  const at::Tensor *hold(py::handle tensor);
  optim::Row makeRow(py::handle row);
  bool areSame(const py::list &params) const;
  optim::TensorTable &held() const;

  std::shared_ptr<const optim::Program> program;
  std::vector<int32_t> groups;
  py::list owned; // everything whose address is kept
  // Their own handles: thousands of objects less to look into in every step.
  // For it swap_tensors refuses a bound state; parameters it may swap.
  std::deque<at::Tensor> states;
  std::vector<PyObject *> params;
  PyTypeObject *kind; // of the state
  Entries entries;
  std::vector<Single> singles;
  std::unique_ptr<optim::TensorTable> table;
};

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_TABLE_H

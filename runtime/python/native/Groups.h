// The param_groups of an optimizer as they were last read.
#ifndef ALTGRAD_NATIVE_GROUPS_H
#define ALTGRAD_NATIVE_GROUPS_H

#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace altgrad::native {

// The interface is that of Groups in _binding/groups.py.
class Groups {
public:
  Groups(py::list groups, py::tuple keys);

  const py::list &params() const { return params_; }
  // Indices of the groups to be read again; None if there are other groups, or
  // other parameters in them.
  py::object changed(py::handle groups) const;
  // What each group of the plan reads, and what makes a float of what is none.
  void expect(const py::list &places, py::object convert);
  // Of the groups of the plan whose indices are `cells`.
  std::vector<double> numbers(const py::list &groups,
                              const std::vector<size_t> &cells) const;
  // Takes over what these groups say now.
  void remember(const py::list &groups, const std::vector<size_t> &indices);

  int traverse(visitproc visit, void *arg);
  void clear();

  static void addTo(py::module_ &module);

private:
  struct Group {
    std::vector<PyObject *> entries; // key, value, key, value
    py::list owned;                  // keeps the entries alive
    PyObject *dict = nullptr, *list = nullptr;
    size_t firstParam = 0, params = 0;
    bool plain = false; // nothing that is watched can change in place
  };
  // A hyper-parameter of a group of the plan: the value of a key, or a part of
  // it.
  struct Place {
    size_t group;
    py::object key, part;
    Py_ssize_t tuplePart; // the same; -1: the whole value
  };
  double number(const py::list &groups, const Place &place) const;
  void read(Group &group, PyObject *dict);
  bool hasSameParams(const Group &group) const;

  py::tuple keys;
  py::list params_;
  std::vector<Group> known;
  std::vector<std::vector<Place>> places; // of each group of the plan
  py::object convert;
};

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_GROUPS_H

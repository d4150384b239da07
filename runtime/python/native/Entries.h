// What dicts of Python held, by the identity of every key and value.
#ifndef ALTGRAD_NATIVE_ENTRIES_H
#define ALTGRAD_NATIVE_ENTRIES_H

#include <torch/csrc/utils/pybind.h>

#include <vector>

namespace altgrad::native {

// A dict of dicts, as optimizer.state is.
class Entries {
public:
  // Appends everything that is compared to `owned`: another object at the
  // address of one that is gone would pass for it.
  Entries(py::handle state, py::list &owned);
  // Whether every entry is the object that it was, at the same place.
  bool areSame(PyObject *state) const;

private:
  struct Param {
    PyObject *key;
    PyObject *held; // its dict; null for what the user keeps there
    size_t first;   // in `inner`
  };
  void fetchAhead(size_t param, size_t end) const;
  bool isSame(const Param &param, size_t end) const;

  std::vector<Param> params;
  std::vector<PyObject *> inner; // name, value, name, value
};

} // namespace altgrad::native

#endif // ALTGRAD_NATIVE_ENTRIES_H

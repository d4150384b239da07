#include "Groups.h"

#include "Collected.h"

using namespace altgrad::native;

namespace {

const char paramsKey[] = "params";

bool isNumberOrText(PyObject *value) {
  return PyFloat_Check(value) || PyLong_Check(value) ||
         PyUnicode_Check(value) || value == Py_None;
}

// Whether the value says what it said as long as it is the same object.
bool isPlain(PyObject *value) {
  if (!value)
    return false;
  if (!PyTuple_CheckExact(value))
    return isNumberOrText(value);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
    if (!isNumberOrText(PyTuple_GET_ITEM(value, i)))
      return false;
  return true;
}

bool isSame(PyObject *dict, const std::vector<PyObject *> &entries) {
  if (size_t(PyDict_GET_SIZE(dict)) * 2 != entries.size())
    return false;
  PyObject *key, *value;
  PyObject *const *next = entries.data();
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); next += 2)
    if (next[0] != key || next[1] != value)
      return false;
  return true;
}

// The list of a group's parameters; null for what another answers for: code of
// a class of the user's, or nobody.
PyObject *findList(PyObject *dict) {
  PyObject *list =
      PyDict_CheckExact(dict) ? PyDict_GetItemString(dict, paramsKey) : nullptr;
  return list && PyList_CheckExact(list) ? list : nullptr;
}

} // namespace

Groups::Groups(py::list groups, py::tuple keys) : keys(std::move(keys)) {
  for (py::handle dict : groups) {
    Group group;
    group.list = findList(dict.ptr());
    if (!group.list)
      throw py::type_error("a param_group is no dict with a list of params");
    group.firstParam = params_.size();
    group.params = size_t(PyList_GET_SIZE(group.list));
    for (size_t i = 0; i < group.params; ++i)
      params_.append(py::handle(PyList_GET_ITEM(group.list, Py_ssize_t(i))));
    read(group, dict.ptr());
    known.push_back(std::move(group));
  }
}

void Groups::read(Group &group, PyObject *dict) {
  group.dict = dict;
  group.entries.clear();
  py::list owned;
  owned.append(py::handle(dict));
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    group.entries.insert(group.entries.end(), {key, value});
    owned.append(py::handle(key));
    owned.append(py::handle(value));
  }
  // Only now may what was known before go.
  group.owned = std::move(owned);
  group.plain = true;
  for (py::handle watched : keys) {
    PyObject *found = PyDict_GetItemWithError(dict, watched.ptr());
    if (PyErr_Occurred())
      throw py::error_already_set();
    group.plain &= isPlain(found);
  }
}

bool Groups::hasSameParams(const Group &group) const {
  if (size_t(PyList_GET_SIZE(group.list)) != group.params)
    return false;
  for (size_t i = 0; i < group.params; ++i)
    if (PyList_GET_ITEM(group.list, Py_ssize_t(i)) !=
        PyList_GET_ITEM(params_.ptr(), Py_ssize_t(group.firstParam + i)))
      return false;
  return true;
}

py::object Groups::changed(py::handle groups) const {
  // Made first: Python may collect garbage whenever a list is made.
  py::list found;
  if (!PyList_CheckExact(groups.ptr()) ||
      size_t(PyList_GET_SIZE(groups.ptr())) != known.size())
    return py::none();
  for (size_t index = 0; index < known.size(); ++index) {
    const Group &group = known[index];
    PyObject *dict = PyList_GET_ITEM(groups.ptr(), Py_ssize_t(index));
    if (dict != group.dict)
      return py::none();
    bool same = isSame(dict, group.entries);
    if ((!same && findList(dict) != group.list) || !hasSameParams(group))
      return py::none();
    if (!same || !group.plain)
      found.append(index);
  }
  return std::move(found);
}

void Groups::expect(const py::list &given, py::object how) {
  std::vector<std::vector<Place>> now;
  for (py::handle entry : given) {
    auto [group, keys] = entry.cast<std::pair<size_t, py::list>>();
    now.emplace_back();
    for (py::handle of : keys) {
      auto [key, part] = of.cast<std::pair<py::object, py::object>>();
      now.back().push_back(
          {group, key, part, part.is_none() ? -1 : part.cast<Py_ssize_t>()});
    }
  }
  places = std::move(now);
  convert = std::move(how);
}

double Groups::number(const py::list &groups, const Place &place) const {
  if (place.group >= groups.size())
    throw py::index_error("there are fewer param_groups than were read");
  auto group = py::reinterpret_borrow<py::object>(groups[place.group]);
  py::object value = group[place.key];
  PyObject *number = value.ptr();
  if (place.tuplePart >= 0)
    number =
        PyTuple_CheckExact(number) && place.tuplePart < PyTuple_GET_SIZE(number)
            ? PyTuple_GET_ITEM(number, place.tuplePart)
            : nullptr;
  if (number && PyFloat_CheckExact(number))
    return PyFloat_AS_DOUBLE(number);
  return convert(place.key, place.part, value).cast<double>();
}

std::vector<double> Groups::numbers(const py::list &groups,
                                    const std::vector<size_t> &cells) const {
  std::vector<double> found;
  for (size_t cell : cells)
    for (const Place &place : places.at(cell))
      found.push_back(number(groups, place));
  return found;
}

void Groups::remember(const py::list &groups,
                      const std::vector<size_t> &indices) {
  for (size_t index : indices)
    if (index < known.size() && index < groups.size())
      read(known[index], PyList_GET_ITEM(groups.ptr(), Py_ssize_t(index)));
}

// For Python's collector: a group may lead back to its optimizer.
int Groups::traverse(visitproc visit, void *arg) {
  Py_VISIT(keys.ptr());
  Py_VISIT(params_.ptr());
  Py_VISIT(convert.ptr());
  for (const Group &group : known)
    Py_VISIT(group.owned.ptr());
  return 0;
}

void Groups::clear() {
  std::vector<Group> gone;
  gone.swap(known);
  params_ = py::list();
  places.clear();
  convert = py::object();
}

void Groups::addTo(py::module_ &module) {
  py::class_<Groups>(module, "Groups", collected<Groups>(), py::module_local())
      .def(py::init<py::list, py::tuple>())
      .def_property_readonly("params", &Groups::params)
      .def("changed", &Groups::changed)
      .def("remember", &Groups::remember)
      .def("expect", &Groups::expect)
      .def("numbers", &Groups::numbers);
}

#include "Entries.h"

#include "tensors/Seen.h"
#include "tensors/Threads.h"

#include <atomic>

using namespace altgrad::native;

Entries::Entries(py::handle state, py::list &owned) {
  PyObject *key, *held, *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(state.ptr(), &at, &key, &held);) {
    bool isDict = PyDict_Check(held);
    params.push_back({key, isDict ? held : nullptr, inner.size()});
    for (Py_ssize_t to = 0; isDict && PyDict_Next(held, &to, &name, &value);)
      inner.insert(inner.end(), {name, value});
  }
  for (const Param &param : params)
    for (PyObject *entry : {param.key, param.held})
      if (entry)
        owned.append(py::handle(entry));
  for (PyObject *entry : inner)
    owned.append(py::handle(entry));
}

// That of a dict that is owned, so that it can be looked into ahead of time.
void Entries::fetchAhead(size_t param, size_t end) const {
  constexpr size_t ahead = 8;
  if (param + 2 * ahead < end)
    optim::fetch(params[param + 2 * ahead].held,
                 offsetof(PyDictObject, ma_keys));
  if (param + ahead >= end || !params[param + ahead].held)
    return;
  auto *dict = reinterpret_cast<PyDictObject *>(params[param + ahead].held);
  for (ptrdiff_t offset : {0, 64, 128})
    optim::fetch(dict->ma_keys, offset);
}

bool Entries::isSame(const Param &param, size_t end) const {
  if (!param.held)
    return true;
  PyObject *const *next = inner.data() + param.first, *const *last =
                                                          inner.data() + end;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(param.held, &at, &name, &value);
       next += 2)
    if (next == last || next[0] != name || next[1] != value)
      return false;
  return next == last;
}

// No code of Python's runs meanwhile: whoever calls holds its lock.
bool Entries::areSame(PyObject *state) const {
  const Param *next = params.data(), *last = next + params.size();
  PyObject *key, *held;
  for (Py_ssize_t at = 0; PyDict_Next(state, &at, &key, &held); ++next)
    if (next == last || next->key != key ||
        (PyDict_Check(held) ? held : nullptr) != next->held)
      return false;
  if (next != last)
    return false;
  std::atomic<bool> same = true;
  optim::onThreads(int64_t(params.size()), [&](int64_t begin, int64_t end) {
    bool mine = true;
    for (size_t i = size_t(begin); i < size_t(end); ++i) {
      fetchAhead(i, size_t(end));
      mine &= isSame(params[i], i + 1 < params.size() ? params[i + 1].first
                                                      : inner.size());
    }
    same = same & mine;
  });
  return same;
}

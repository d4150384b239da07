#include "Table.h"

#include "Collected.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

using namespace altgrad::native;
using namespace altgrad::optim;
using at::Tensor;

namespace {

// The words by which _binding/table.py knows them.
enum { stale, otherGrads, isFresh };

const char *wordOf(int32_t role) {
  switch (role) {
#define ALTGRAD_ROLE(word, WORD)                                               \
  case ALTGRAD_ROLE_##WORD:                                                    \
    return #word;
    ALTGRAD_ROLES(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
  default:
    return "none";
  }
}

} // namespace

// The handle lies in the object itself, which swap_tensors gives another.
const Tensor *Table::handleOf(py::handle tensor) {
  if (!THPVariable_Check(tensor.ptr()))
    throw py::type_error("a row holds something that is no tensor");
  owned.append(tensor);
  return &THPVariable_Unpack(tensor.ptr());
}

const Tensor *Table::hold(py::handle tensor) {
  states.push_back(*handleOf(tensor));
  return &states.back();
}

Row Table::makeRow(py::handle given) {
  Row row;
  row.param = handleOf(given.attr("param"));
  row.set = given.attr("set").cast<int32_t>();
  row.group = given.attr("cell").cast<int64_t>();
  row.tag = given.attr("place").cast<int64_t>();
  const Set &set = program->sets.at(size_t(row.set));
  for (py::handle tensor : given.attr("tensors"))
    row.kept.push_back(hold(tensor));
  if (py::object count = given.attr("count"); !count.is_none())
    row.count = hold(count);
  TORCH_CHECK(row.kept.size() == set.kept.size() &&
                  bool(row.count) == bool(set.step),
              "a row of set ", row.set, " has ", row.kept.size(),
              " states, expected ", set.kept.size());
  return row;
}

Table::Table(uintptr_t bundle, const py::list &rows, std::vector<int32_t> given,
             const py::list &all, const std::vector<size_t> &idlePlaces,
             const py::dict &state)
    : program(std::make_shared<Program>(std::shared_ptr<altgrad_bundle>(
          reinterpret_cast<altgrad_bundle *>(bundle),
          [](altgrad_bundle *) {}))),
      groups(std::move(given)), kind(Py_TYPE(state.ptr())),
      entries(state, owned) {
  owned.append(py::type::of(state));
  std::vector<Row> made;
  for (py::handle row : rows)
    made.push_back(makeRow(row));
  TORCH_CHECK(!made.empty(), "a table without rows");
  std::vector<const Tensor *> handles, idle;
  for (py::handle param : all) {
    handles.push_back(handleOf(param));
    params.push_back(param.ptr());
  }
  for (size_t place : idlePlaces)
    idle.push_back(handles.at(place));
  for (const Scalar &scalar : program->singles)
    singles.push_back({&scalar, py::str(wordOf(scalar.role))});
  Where where(made[0].param->device());
  table = std::make_unique<TensorTable>(program, where, std::move(made), groups,
                                        std::move(idle), nullptr);
}

bool Table::areSame(const py::list &now) const {
  PyObject *const *list = PySequence_Fast_ITEMS(now.ptr());
  return now.size() == params.size() &&
         std::equal(params.begin(), params.end(), list);
}

int Table::fresh(const py::list &now, py::handle state) {
  if (!table || !areSame(now) || Py_TYPE(state.ptr()) != kind ||
      !entries.areSame(state.ptr()))
    return stale;
  at::NoGradGuard none;
  switch (table->look()) {
  case Change::None:
    return isFresh;
  case Change::Gradients:
    return otherGrads;
  default:
    return stale;
  }
}

TensorTable &Table::held() const {
  TORCH_CHECK(table, "the table was collected");
  return *table;
}

void Table::setHypers(const std::vector<double> &numbers,
                      const std::vector<size_t> &cells) {
  Values &values = held().values;
  const double *next = numbers.data(), *end = next + numbers.size();
  for (size_t group : cells) {
    const std::vector<Scalar> &hypers =
        program->sets[size_t(groups.at(group))].hypers;
    TORCH_CHECK(size_t(end - next) >= hypers.size(), "too few numbers");
    values.forget(int64_t(group));
    uint64_t *cell = values.hypers(int64_t(group));
    for (const Scalar &hyper : hypers)
      hyper.write(*next++, cell++);
  }
}

void Table::setTensors(
    const std::vector<std::tuple<size_t, size_t, Tensor>> &given) {
  for (auto &[group, index, value] : given) {
    TORCH_CHECK(index < program->sets[size_t(groups.at(group))].hypers.size(),
                "no hyper-parameter ", index);
    held().values.hyper(int64_t(group), index, value);
  }
}

void Table::place(const std::vector<std::pair<size_t, Tensor>> &given) {
  for (auto &[index, memory] : given) {
    held().values.place(index, memory);
    singles.at(index).placed = true;
  }
}

void Table::begin(const py::dict &given) {
  for (const Single &single : singles) {
    if (single.scalar->access == ALTGRAD_OUT || single.placed)
      continue;
    py::object value = given[single.role];
    if (THPVariable_Check(value.ptr()))
      held().values.give(single.scalar->role, THPVariable_Unpack(value.ptr()));
    else
      held().values.give(single.scalar->role, double(py::float_(value)));
  }
  py::gil_scoped_release released;
  at::NoGradGuard none;
  held().begin();
}

std::optional<std::vector<std::pair<int, Tensor>>> Table::advance() {
  py::gil_scoped_release released;
  at::NoGradGuard none;
  std::vector<Share> shares;
  if (!held().advance(&shares))
    return std::nullopt;
  std::vector<std::pair<int, Tensor>> words;
  for (Share &share : shares)
    words.emplace_back(share.reduction, std::move(share.word));
  return words;
}

// Whoever lets go of the lock may wait for it: only a long sum does.
void Table::sum(int64_t row) {
  constexpr int64_t longOne = 1 << 16;
  const Row &of = held().rows().at(size_t(row));
  std::optional<py::gil_scoped_release> released;
  if (of.param->numel() >= longOne)
    released.emplace();
  held().sum(row);
}

py::dict Table::results() const {
  py::dict results;
  for (const Single &single : singles) {
    if (single.scalar->access == ALTGRAD_IN || single.placed)
      continue;
    Tensor value = held().values.tensor(single.scalar->role);
    if (value.defined())
      results[single.role] = value;
    else
      results[single.role] = held().values.number(single.scalar->role);
  }
  return results;
}

std::map<std::string, Tensor> Table::statistics() const {
  return held().statistics();
}

py::dict Table::run(const py::dict &given) {
  begin(given);
  {
    py::gil_scoped_release released;
    at::NoGradGuard none;
    held().advance(nullptr);
  }
  return results();
}

// For Python's collector: a parameter may lead back to its optimizer.
int Table::traverse(visitproc visit, void *arg) {
  Py_VISIT(owned.ptr());
  return 0;
}

void Table::clear() {
  table.reset();
  states.clear();
  owned = py::list();
}

void Table::addTo(py::module_ &module) {
  py::class_<Table>(module, "Table", collected<Table>(), py::module_local())
      .def(py::init<uintptr_t, py::list, std::vector<int32_t>, py::list,
                    std::vector<size_t>, py::dict>())
      .def("fresh", &Table::fresh)
      .def("set_hypers", &Table::setHypers)
      .def("set_tensors", &Table::setTensors)
      .def("place", &Table::place)
      .def("begin", &Table::begin)
      .def("advance", &Table::advance)
      .def("results", &Table::results)
      .def("statistics", &Table::statistics)
      .def("sums", &Table::sums)
      .def("sum", &Table::sum)
      .def("summed_rows", &Table::summedRows)
      .def("run", &Table::run);
}

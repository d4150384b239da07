// Binds tensors to a plan, once.
#include "table/TensorTable.h"
#include "tensors/Checks.h"
#include "tensors/Lasting.h"
#include "tensors/Objects.h"
#include "tensors/Threads.h"

#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

TensorTable::TensorTable(std::shared_ptr<const Program> program, const Where &where, std::vector<Row> rows,
                         const std::vector<int32_t> &groups, std::vector<const Tensor *> idle,
                         std::shared_ptr<const Ranges> written)
    : values(*program, groups, where), program_(std::move(program)), where(where), rows_(std::move(rows)),
      idle(std::move(idle)), written(std::move(written)) {
  c10::OptionalDeviceGuard guard(where.device());
  tellObjects();
  altgrad_plan *handle = where.makePlan(program_->bundle.get());
  plan.reset(handle);
  check(altgrad_set_parallel_for(handle, runOnThreads));
  remember();
  std::vector<altgrad_tensor> tensors;
  for (const Row &row : rows_) {
    altgrad_tensor tensor{};
    tensor.size = sizeof tensor;
    tensor.numel = row.numel;
    tensor.group = row.group;
    tensor.set = row.set;
    tensor.tag = row.tag;
    tensor.rows = row.rows;
    tensor.columns = row.columns;
    tensor.units = row.units;
    tensors.push_back(tensor);
  }
  check(altgrad_bind_tensors(handle, tensors.data(), int64_t(tensors.size()), int64_t(groups.size())));
  bindTensors();
  bindStatistics();
  check(altgrad_workspace(handle, &bytes));
  workspace = where.allocate(int64_t(bytes));
  makeTable(tensors);
  check(keepInGraphs(handle, this));
}

// Has the library remember the tensors.
void TensorTable::makeTable(const std::vector<altgrad_tensor> &tensors) {
  auto handlesOf = [](const std::vector<const Tensor *> &tensors) {
    std::vector<AtenTensorHandle> handles;
    for (const Tensor *tensor : tensors)
      handles.push_back(handleOf(*tensor));
    return handles;
  };
  std::vector<int32_t> types;
  for (const Row &row : rows_)
    types.push_back(program_->sets[size_t(row.set)].grad->dtype);
  std::vector<int64_t> widths;
  for (const SetRows &set : sets)
    widths.push_back(int64_t(set.width));
  altgrad_table *made = nullptr;
  checkTable(altgrad_table_create(program_->bundle.get(), plan.get(), tensors.data(), types.data(),
                                  int64_t(tensors.size()), handlesOf(seen).data(), widths.data(), &made));
  table.reset(made);
  checkTable(altgrad_table_use(made, workspace.data_ptr(), bytes, where.isHost()));
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (const Tensor *dense = rows_[row].dense)
      checkTable(altgrad_table_arrange(made, int64_t(row), dense->strides().data()));
    checkTable(altgrad_table_part(made, int64_t(row), rows_[row].first));
  }
  altgrad_table_watch(made, handlesOf(idle).data(), int64_t(idle.size()));
}

void TensorTable::addOwn(Owned &owned) const {
  values.addTo(owned);
  owned.add(workspace);
  for (const Row &row : rows_)
    if (row.dense)
      owned.add(*row.dense);
  for (auto &[key, memory] : statistics_)
    owned.add(memory);
}

void TensorTable::addTo(Owned &owned) const {
  addOwn(owned);
  for (const Tensor *tensor : seen)
    owned.add(*tensor);
  for (const Row &row : rows_)
    owned.add(row.param->grad());
  for (const Tensor &copy : copies)
    owned.add(copy);
}

void TensorTable::remember() {
  int64_t row = 0;
  for (size_t index = 0; index < program_->sets.size(); ++index) {
    const Set &described = program_->sets[index];
    SetRows set{row, row, seen.size(), 1 + entries(described.states).size() + (described.step ? 1 : 0)};
    for (; row < int64_t(rows_.size()) && rows_[size_t(row)].set == int(index); set.last = ++row) {
      const Row &given = rows_[size_t(row)];
      seen.push_back(given.param);
      seen.insert(seen.end(), given.kept.begin(), given.kept.end());
      if (described.step)
        seen.push_back(given.count);
      for (size_t i = 0; i < entries(described.states).size(); ++i)
        if (described.states.at[i].role == ALTGRAD_ROLE_MASTER && !given.first)
          masters.push_back({row, given.kept[i], -1});
    }
    sets.push_back(set);
  }
  for (const Tensor *tensor : seen) {
    checkExtent(*tensor);
    inference |= tensor->is_inference();
  }
  grads.assign(rows_.size(), nullptr);
  takesPart.assign(rows_.size(), 1);
}

void TensorTable::bindTensors() {
  std::vector<void *> pointers;
  for (size_t index = 0; index < sets.size(); ++index) {
    pointers.clear();
    const SetRows &set = sets[index];
    const Set &described = program_->sets[index];
    // Of the `place`-th tensor that the table remembers of each row; so many elements share one of its values.
    auto pointersTo = [&](size_t place, const Stream *stream) {
      pointers.clear();
      for (int64_t row = set.first; row < set.last; ++row) {
        const Tensor &of = *seen[set.firstSeen + size_t(row - set.first) * set.width + place];
        const Row &given = rows_[size_t(row)];
        const int64_t values = stream && given.first ? given.first / sharing(*stream, given.columns) : 0;
        pointers.push_back(static_cast<char *>(of.mutable_data_ptr()) + values * int64_t(of.element_size()));
      }
    };
    auto bind = [&](const Stream &stream) {
      auto call = stream.block ? altgrad_bind_stream : altgrad_bind_scalar;
      check(call(plan.get(), stream.name, pointers.data(), int64_t(pointers.size())));
    };
    for (int64_t row = set.first; row < set.last; ++row) {
      const Tensor &of = rows_[size_t(row)].stepped();
      pointers.push_back(static_cast<char *>(of.mutable_data_ptr()) +
                         rows_[size_t(row)].first * int64_t(of.element_size()));
    }
    bind(*described.param);
    for (size_t i = 0; i < entries(described.states).size(); ++i) {
      pointersTo(1 + i, &described.states.at[i]);
      bind(described.states.at[i]);
    }
    if (!described.step)
      continue;
    pointersTo(set.width - 1, nullptr);
    check(altgrad_bind_scalar(plan.get(), described.step->name, pointers.data(), int64_t(pointers.size())));
  }
}

void TensorTable::bindStatistics() {
  Lasting lasting;
  auto as = at::TensorOptions().dtype(at::kFloat).device(where.device());
  for (size_t index = 0; index < sets.size(); ++index)
    for (const Scalar &scalar : entries(program_->sets[index].statistics)) {
      Tensor &memory = statistics_[scalar.key];
      if (!memory.defined())
        memory = at::full({int64_t(rows_.size())}, std::numeric_limits<float>::quiet_NaN(), as);
      std::vector<void *> pointers;
      for (int64_t row = sets[index].first; row < sets[index].last; ++row)
        pointers.push_back(static_cast<float *>(memory.data_ptr()) + row);
      check(altgrad_bind_scalar(plan.get(), scalar.name, pointers.data(), int64_t(pointers.size())));
    }
}

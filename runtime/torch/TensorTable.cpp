// Binds tensors to a plan, once.
#include "TensorTable.h"
#include "Checks.h"
#include "Threads.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/impl/alloc_cpu.h>

using namespace altgrad::optim;
using at::Tensor;

TensorTable::TensorTable(std::shared_ptr<const Program> program,
                         std::vector<Row> rows,
                         const std::vector<int32_t> &groups,
                         std::vector<const Tensor *> idle,
                         std::shared_ptr<const Ranges> written)
    : program_(std::move(program)), rows_(std::move(rows)),
      idle(std::move(idle)), written(std::move(written)) {
  altgrad_plan *handle = nullptr;
  check(altgrad_plan_create(program_->bundle.get(), "cpu", &handle));
  plan.reset(handle);
  check(altgrad_set_parallel_for(handle, runOnThreads));
  remember();
  std::vector<altgrad_tensor> tensors;
  for (const Row &row : rows_) {
    altgrad_tensor tensor{};
    tensor.size = sizeof tensor;
    tensor.numel = row.param->numel();
    tensor.group = row.group;
    tensor.set = row.set;
    tensor.tag = -1;
    tensors.push_back(tensor);
  }
  check(altgrad_bind_tensors(handle, tensors.data(), int64_t(tensors.size()),
                             int64_t(groups.size())));
  bindTensors();
  bindScalars(groups);
  check(altgrad_workspace(handle, &bytes));
  // Not by at::empty: a dispatch mode of the caller's would see it.
  memory = {c10::alloc_cpu(bytes), c10::free_cpu};
  workspace = memory.get();
}

void TensorTable::remember() {
  sets.resize(program_->sets.size());
  int64_t row = 0;
  for (size_t index = 0; index < sets.size(); ++index) {
    SetRows &set = sets[index];
    const Set &described = program_->sets[index];
    set.first = row;
    set.firstSeen = seen.size();
    set.width = 1 + described.kept.size() + (described.step ? 1 : 0);
    set.gradType = c10::scalarTypeToTypeMeta(described.grad->type);
    for (size_t i = 0; i < described.kept.size(); ++i)
      if (described.kept[i].role == ALTGRAD_ROLE_MASTER)
        set.master = int(i);
    for (; row < int64_t(rows_.size()) && rows_[size_t(row)].set == int(index);
         ++row) {
      const Row &given = rows_[size_t(row)];
      const Tensor &param = *given.param;
      if (!param.is_non_overlapping_and_dense() || param.is_neg())
        staged.emplace(row, at::empty_like(param));
      seen.push_back(shapes.add(param));
      for (const Tensor *kept : given.kept)
        seen.push_back(shapes.add(*kept));
      if (described.step)
        seen.push_back(shapes.add(*given.count));
      for (size_t i = seen.size() - set.width; i < seen.size(); ++i)
        checkExtent(*seen[i].handle);
    }
    set.last = row;
  }
  for (const Seen &tensor : seen)
    inference |= tensor.tensor->is_inference();
  grads.assign(rows_.size(), nullptr);
  versions.assign(rows_.size(), -1);
  edited.assign(rows_.size(), 0);
  taken.resize(rows_.size());
  // A negative view is a parameter like others, but no plain gradient.
  if (!rows_.empty())
    gradKeys =
        rows_[0].param->key_set().remove(c10::DispatchKey::Negative).raw_repr();
}

void TensorTable::bindTensors() {
  std::vector<void *> pointers;
  for (size_t index = 0; index < sets.size(); ++index) {
    const SetRows &set = sets[index];
    const Set &described = program_->sets[index];
    // Of the `place`-th tensor that the table remembers of each row.
    auto pointersTo = [&](size_t place) {
      pointers.clear();
      for (int64_t row = set.first; row < set.last; ++row)
        pointers.push_back(
            const_cast<void *>((&paramOf(set, row))[place].data));
    };
    auto bind = [&](const Stream &stream) {
      check(altgrad_bind_stream(plan.get(), stream.name.c_str(),
                                pointers.data(), int64_t(pointers.size())));
    };
    pointersTo(0);
    for (auto &[row, copy] : staged)
      if (row >= set.first && row < set.last)
        pointers[size_t(row - set.first)] = copy.mutable_data_ptr();
    bind(*described.param);
    for (size_t i = 0; i < described.kept.size(); ++i) {
      pointersTo(1 + i);
      bind(described.kept[i]);
    }
    if (!described.step)
      continue;
    pointersTo(set.width - 1);
    check(altgrad_bind_scalar(plan.get(), described.step->name.c_str(),
                              pointers.data(), int64_t(pointers.size())));
  }
}

void TensorTable::bindScalars(const std::vector<int32_t> &groups) {
  size_t count = 0;
  for (int32_t set : groups) {
    firstValue.push_back(count);
    count += program_->sets[size_t(set)].hypers.size();
  }
  // One more: the begin of a last group without any is an address, too.
  values.assign(count + 1, 0);
  std::vector<void *> pointers(groups.size());
  for (size_t index = 0; index < sets.size(); ++index) {
    const std::vector<Scalar> &hypers = program_->sets[index].hypers;
    for (size_t i = 0; i < hypers.size(); ++i) {
      for (size_t group = 0; group < groups.size(); ++group)
        pointers[group] = &values[firstValue[group] +
                                  (size_t(groups[group]) == index ? i : 0)];
      check(altgrad_bind_scalar(plan.get(), hypers[i].name.c_str(),
                                pointers.data(), int64_t(pointers.size())));
    }
  }
  cells.assign(program_->singles.size(), 0);
  for (size_t i = 0; i < cells.size(); ++i) {
    void *cell = &cells[i];
    check(altgrad_bind_scalar(plan.get(), program_->singles[i].name.c_str(),
                              &cell, 1));
  }
}

void TensorTable::give(int32_t role, double value) {
  for (size_t i = 0; i < cells.size(); ++i)
    if (const Scalar &single = program_->singles[i];
        single.role == role && single.access != ALTGRAD_OUT)
      single.write(value, &cells[i]);
}

double TensorTable::result(int32_t role) const {
  for (size_t i = 0; i < cells.size(); ++i)
    if (const Scalar &single = program_->singles[i];
        single.role == role && single.access != ALTGRAD_IN)
      return single.read(&cells[i]);
  return 0;
}

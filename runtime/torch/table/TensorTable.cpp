// Binds tensors to a plan, once.
#include "table/TensorTable.h"
#include "tensors/Lasting.h"
#include "tensors/Objects.h"

#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/stable/c/shim.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

TensorTable::TensorTable(std::shared_ptr<const Program> program, const DeviceContext &context, std::vector<Row> rows,
                         const std::vector<int32_t> &groups, std::vector<const Tensor *> idle)
    : values(*program, groups, context), program_(std::move(program)), context(context), rows_(std::move(rows)),
      idle(std::move(idle)) {
  c10::OptionalDeviceGuard guard(context.device());
  tellObjects();
  altgrad_plan *handle = context.makePlan(program_->bundle.get());
  plan.reset(handle);
  check(altgrad_set_parallel_for(handle, torch_parallel_for));
  bindTensors(groups.size());
  bindStatistics();
  check(altgrad_workspace(handle, &bytes));
  workspace = context.allocate(int64_t(bytes));
  checkTable(altgrad_table_use(table.get(), workspace.data_ptr(), bytes, context.isHost()));
  check(keepInGraphs(handle, this));
}

// Has the library bind the tensors, and remember them.
void TensorTable::bindTensors(size_t groups) {
  for (const Row &row : rows_) {
    seen.push_back(row.param);
    seen.insert(seen.end(), row.kept.begin(), row.kept.end());
    if (row.count)
      seen.push_back(row.count);
  }
  std::vector<AtenTensorHandle> handles, watched;
  for (const Tensor *tensor : seen) {
    handles.push_back(handleOf(*tensor));
    inference |= tensor->is_inference();
  }
  for (const Tensor *param : idle)
    watched.push_back(handleOf(*param));
  std::vector<altgrad_core_row> rows;
  const AtenTensorHandle *next = handles.data();
  for (const Row &row : rows_) {
    const at::IntArrayRef shape = row.whole.empty() ? row.param->sizes() : row.whole;
    rows.push_back({next, row.dense ? handleOf(*row.dense) : nullptr, shape.data(), int64_t(shape.size()), row.offset,
                    row.matrices ? &*row.matrices : nullptr, row.piece, row.place, row.more, row.set, row.group});
    next += 1 + row.kept.size() + (row.count != nullptr);
  }
  altgrad_table *made = nullptr;
  checkTable(altgrad_table_create(program_->bundle.get(), plan.get(), rows.data(), int64_t(rows.size()),
                                  int64_t(groups), &made));
  table.reset(made);
  altgrad_table_watch(made, watched.data(), int64_t(watched.size()));
  takesPart.assign(rows_.size(), 1);
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

void TensorTable::bindStatistics() {
  Lasting lasting;
  auto as = at::TensorOptions().dtype(at::kFloat).device(context.device());
  for (size_t index = 0; index < program_->sets.size(); ++index)
    for (const Scalar &scalar : entries(program_->sets[index].statistics)) {
      Tensor &memory = statistics_[scalar.key];
      if (!memory.defined())
        memory = at::full({int64_t(rows_.size())}, std::numeric_limits<float>::quiet_NaN(), as);
      std::vector<void *> pointers;
      for (size_t row = 0; row < rows_.size(); ++row)
        if (rows_[row].set == int32_t(index))
          pointers.push_back(static_cast<float *>(memory.data_ptr()) + row);
      check(altgrad_bind_scalar(plan.get(), scalar.name, pointers.data(), int64_t(pointers.size())));
    }
}

// What the first sweep of a step finds in each gradient, found during backward.
#include "table/TensorTable.h"
#include "tensors/Checks.h"
#include "tensors/Objects.h"

using namespace altgrad::optim;

void TensorTable::sum(int64_t row) {
  const at::Tensor &grad = rows_[size_t(row)].param->grad();
  summed.resize(rows_.size());
  summed[size_t(row)].reset();
  if (!sums() || rows_[size_t(row)].dense || !grad.defined() || !isStored(grad) || grad.is_neg() ||
      grad._is_zerotensor() || grad.is_inference())
    return;
  Summed now{decltype(Summed::grad)(grad.getIntrusivePtr()), grad._version()};
  int32_t done = 0;
  checkTable(altgrad_table_sum(table.get(), row, handleOf(grad), &done));
  if (done)
    summed[size_t(row)] = std::move(now);
}

// A byte for each row: whether its gradient is the one that was summed,
// untouched.
std::vector<uint8_t> TensorTable::areSummed() {
  std::vector<uint8_t> same;
  for (size_t row = 0; row < summed.size(); ++row) {
    const at::Tensor &grad = rows_[row].param->grad();
    same.push_back(summed[row] && grad.defined() &&
                   summed[row]->grad._unsafe_get_target() == grad.unsafeGetTensorImpl() &&
                   grad._version() == summed[row]->version);
  }
  summed.clear();
  return same;
}

std::pair<int64_t, int64_t> TensorTable::summedRows() const {
  int64_t counts[2];
  altgrad_table_counts(table.get(), counts);
  return {counts[0], counts[1]};
}

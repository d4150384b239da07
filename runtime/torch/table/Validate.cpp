// Validates before every step every tensor's identity, and finds where the
// gradients are now.
#include "table/TensorTable.h"
#include "tensors/Checks.h"
#include "tensors/Errors.h"
#include "tensors/Objects.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

using namespace altgrad::optim;
using at::Tensor;

int32_t TensorTable::validateHandles(const AtenTensorHandle *given) {
  int32_t found = ALTGRAD_STALE;
  checkTable(altgrad_table_validate(table.get(), given, given != nullptr, &found));
  return found;
}

Change TensorTable::validate() {
  ALTGRAD_CHECK(!inference || c10::InferenceMode::is_enabled(), "altgrad: Inplace update to inference tensor outside "
                                                                "InferenceMode is not allowed");
  copies.clear();
  int32_t found = validateHandles(nullptr);
  if (found == ALTGRAD_ODD && copyOdd()) {
    std::vector<AtenTensorHandle> given;
    for (const Tensor &grad : copies)
      given.push_back(grad.defined() ? handleOf(grad) : nullptr);
    found = validateHandles(given.data());
  }
  if (found == ALTGRAD_STALE)
    return Change::Tensors;
  return found == ALTGRAD_FRESH && isTrue(altgrad_table_no_overlap(table.get())) ? Change::None : Change::Gradients;
}

// The gradients, with copies of those that are laid out otherwise or are no
// plain memory. False: one does not fit its row.
bool TensorTable::copyOdd() {
  for (size_t row = 0; row < rows_.size(); ++row) {
    const Tensor &param = rows_[row].stepped(), &grad = rows_[row].param->grad();
    if (rows_[row].piece > 0) { // of the parameter before
      copies.push_back(copies.back());
      continue;
    }
    copies.push_back(grad);
    if (!grad.defined())
      continue;
    if (!isStored(grad) || grad.sizes() != param.sizes() || grad.device() != param.device() ||
        grad.scalar_type() != typeOf(*program_->sets[size_t(rows_[row].set)].grad))
      return false;
    checkExtent(grad);
    if (!hasLayoutOf(param, grad))
      copies.back() = at::empty_like(param, param.options().dtype(grad.dtype())).copy_(grad);
  }
  return true;
}

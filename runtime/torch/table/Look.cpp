// What is looked at before every step: every tensor's identity, and where the
// gradients are now.
#include "tensors/Checks.h"
#include "table/TensorTable.h"
#include "tensors/Threads.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <atomic>

using namespace altgrad::optim;
using at::Tensor;

// Stands for a gradient that is not simply read where it lies.
const char TensorTable::odd = 0;

struct TensorTable::Part {
  explicit Part(const Ranges *written) : written(written) {
    if (written)
      gaps.emplace(*written);
  }
  const Ranges *written;
  std::optional<GapSearch> gaps;
  bool changed = false, odd = false, moved = false;
};

// Where a gradient lies that needs no copy and no wrapper's answer; else &odd.
const void *TensorTable::plainGradient(const SetRows &set, const Seen &param,
                                       const c10::TensorImpl &grad) const {
  if (grad.key_set().raw_repr() != gradKeys || grad.dtype() != set.gradType ||
      !shapes.sizesAre(param, grad.sizes()) ||
      !(shapes.stridesAre(param, grad.strides()) ||
        (grad.is_contiguous() && param.tensor->is_contiguous())))
    return &odd;
  return firstOf(grad, std::as_const(*storageOf(grad)).data());
}

// Takes a gradient that lies as the elements of its row are visited.
void TensorTable::lookAt(const SetRows &set, int64_t row, const Tensor &grad,
                         Part &part) {
  const Seen *first = &paramOf(set, row);
  for (size_t i = 0; i < set.width; ++i)
    part.changed |= !shapes.isSame(first[i]);
  taken[size_t(row)] = grad;
  present[size_t(row)] = grad.defined();
  if (!grad.defined()) {
    grads[size_t(row)] = nullptr;
    return;
  }
  const c10::TensorImpl &g = *grad.unsafeGetTensorImpl();
  const void *&data = grads[size_t(row)];
  const void *now = plainGradient(set, *first, g);
  if (now != &odd) {
    if (now == data && (now || g.numel() == 0))
      return;
    if (isWithin(g, now) &&
        (!part.gaps || part.gaps->isApart(now, g.numel() * g.itemsize()))) {
      data = now;
      part.moved = true;
      return;
    }
  }
  data = &odd;
  part.odd = true;
}

// In blocks, each of which is fetched one indirection further while another one
// is looked at. No tensor is looked into before its handle was.
void TensorTable::look(const SetRows &set, int64_t begin, int64_t end,
                       Part &part) {
  constexpr int64_t block = 8, stages = 6;
  std::array<const Tensor *, 64> now; // gradients of the last blocks
  auto tensors = [&](int64_t row, auto visit) {
    const Seen *first = &paramOf(set, row);
    for (size_t i = 0; i < set.width; ++i)
      visit(first[i]);
  };
  auto gradOf = [&](int64_t row) -> const Tensor *& {
    return now[size_t(row) % now.size()];
  };
  auto rows = [&](int64_t first, auto visit) {
    int64_t last = std::min(first + block, end);
    for (int64_t row = std::max(first, begin); row < last; ++row)
      visit(row);
  };
  for (int64_t head = begin; head < end + stages * block; head += block) {
    rows(head, [&](int64_t row) {
      tensors(row, [](const Seen &seen) { fetch(seen.handle); });
    });
    rows(head - block, [&](int64_t row) {
      tensors(row, [&](const Seen &seen) {
        part.changed |= !seen.isHeld();
        fetchObject(seen.tensor);
      });
    });
    if (part.changed)
      return;
    rows(head - 2 * block, [&](int64_t row) {
      tensors(row, [](const Seen &seen) { fetchStorage(seen.tensor); });
      fetch(paramOf(set, row).tensor->autograd_meta(), 40);
    });
    rows(head - 3 * block, [&](int64_t row) {
      gradOf(row) = &paramOf(set, row).tensor->grad();
      fetchObject(gradOf(row)->unsafeGetTensorImpl());
    });
    rows(head - 4 * block, [&](int64_t row) {
      fetchStorage(gradOf(row)->unsafeGetTensorImpl());
    });
    rows(head - 5 * block,
         [&](int64_t row) { lookAt(set, row, *gradOf(row), part); });
  }
}

bool TensorTable::areIdle() const {
  for (const Tensor *param : idle)
    if (param->unsafeGetTensorImpl()->grad().defined())
      return false;
  return true;
}

// A gradient that is laid out otherwise, or is no plain memory, is copied.
bool TensorTable::takeOdd(const SetRows &set, int64_t row) {
  const Tensor &grad = rows_[size_t(row)].param->grad();
  const Seen &param = paramOf(set, row);
  if (!grad.defined() || !isStored(grad) || grad.dtype() != set.gradType ||
      !shapes.sizesAre(param, grad.sizes()))
    return false;
  checkExtent(grad);
  const Tensor &order = orderOf(row);
  if (!hasLayoutOf(order, grad)) {
    copies.push_back(
        at::empty_like(order, order.options().dtype(grad.dtype())));
    copies.back().copy_(grad);
  } else {
    if (written &&
        !GapSearch(*written).isApart(grad.const_data_ptr(), grad.nbytes()))
      return false;
    gradKeys = grad.key_set().raw_repr();
  }
  const Tensor &taken = hasLayoutOf(order, grad) ? grad : copies.back();
  grads[size_t(row)] = taken.const_data_ptr();
  moved = true;
  return true;
}

bool TensorTable::takeOddGradients() {
  for (const SetRows &set : sets)
    for (int64_t row = set.first; row < set.last; ++row)
      if (present[size_t(row)] &&
          (grads[size_t(row)] == &odd || staged.count(row)) &&
          !takeOdd(set, row))
        return false;
  return true;
}

// In the calling thread: what dies here may be waiting for a lock that it
// holds.
void TensorTable::letGo() {
  constexpr size_t ahead = 8;
  for (size_t row = 0; row < taken.size(); ++row) {
    if (row + ahead < taken.size())
      fetch(taken[row + ahead].unsafeGetTensorImpl());
    taken[row].reset();
  }
  copies.clear();
}

Change TensorTable::look() {
  TORCH_CHECK(!inference || c10::InferenceMode::is_enabled(),
              "altgrad: Inplace update to inference tensor outside "
              "InferenceMode is not allowed");
  letGo();
  std::atomic<bool> changed = false, oddOnes = !staged.empty();
  std::atomic<bool> anyMoved = moved;
  onThreads(int64_t(rows_.size()), [&](int64_t begin, int64_t end) {
    Part part(written.get());
    for (const SetRows &set : sets)
      if (int64_t first = std::max(begin, set.first),
          last = std::min(end, set.last);
          first < last)
        look(set, first, last, part);
    changed = changed | part.changed;
    oddOnes = oddOnes | part.odd;
    anyMoved = anyMoved | part.moved;
  });
  moved = anyMoved;
  if (changed)
    return Change::Tensors;
  const bool any = std::find(present.begin(), present.end(), 1) != present.end();
  return any && areIdle() && (!oddOnes || takeOddGradients())
             ? Change::None
             : Change::Gradients;
}

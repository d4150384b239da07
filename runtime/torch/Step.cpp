// Runs the step on what was looked at.
#include "TensorTable.h"
#include "Threads.h"

#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>
#include <c10/util/ScopeExit.h>

using namespace altgrad::optim;
using at::Tensor;

static int64_t versionOf(const c10::VariableVersion &version) {
  return version.enabled() ? version.current_version() : 0;
}

void TensorTable::bindGradients() {
  for (size_t index = 0; moved && index < sets.size(); ++index) {
    const SetRows &set = sets[index];
    check(altgrad_bind_stream(
        plan.get(), program_->sets[index].grad->name.c_str(),
        const_cast<void *const *>(grads.data() + set.first),
        set.last - set.first));
  }
  moved = false;
}

// Tells autograd, and finds the parameters into which somebody else wrote.
void TensorTable::raiseVersions(const SetRows &set, int64_t begin,
                                int64_t end) {
  Seen *first = &seen[size_t(&paramOf(set, begin) - seen.data())];
  size_t count = size_t(end - begin) * set.width;
  constexpr size_t ahead = 16;
  for (size_t i = 0; i < count; ++i) {
    if (i + ahead < count)
      fetch(counterOf(first[i + ahead].version));
    c10::VariableVersion &version = first[i].version;
    if (set.master >= 0 && i % set.width == 0) {
      size_t row = size_t(begin) + i / set.width;
      int64_t now = versionOf(version);
      edited[row] = now != versions[row];
      versions[row] = now + 1;
    }
    if (version.enabled())
      version.bump();
  }
}

// Element by element: where the parameter still is the rounded master, the
// master keeps the bits that the parameter has no room for.
void TensorTable::takeEdits() {
  for (const SetRows &set : sets)
    for (int64_t row = set.first; set.master >= 0 && row < set.last; ++row) {
      if (!edited[size_t(row)])
        continue;
      const Tensor &param = *rows_[size_t(row)].param;
      const Tensor &master = *rows_[size_t(row)].kept[size_t(set.master)];
      Tensor differs = at::ne(param, master.to(param.scalar_type()));
      if (differs.any().item<bool>())
        master.copy_(
            at::where(differs, param.to(master.scalar_type()), master));
    }
}

void TensorTable::runPhases(const Exchange &exchange) {
  auto upTo = [&, first = int64_t(0)](int64_t last) mutable {
    check(altgrad_run(plan.get(), workspace, bytes, first, last, nullptr));
    first = last;
  };
  for (size_t i = 0; exchange && i < program_->exchanges.size(); ++i) {
    upTo(program_->exchanges[i]);
    exchange(i, workspace);
  }
  upTo(-1);
}

void TensorTable::run(const Exchange &exchange) {
  auto after = c10::make_scope_exit([&] { letGo(); });
  bindGradients();
  onThreads(int64_t(rows_.size()), [&](int64_t begin, int64_t end) {
    for (const SetRows &set : sets)
      if (int64_t first = std::max(begin, set.first),
          last = std::min(end, set.last);
          first < last)
        raiseVersions(set, first, last);
  });
  takeEdits();
  for (auto &[row, copy] : staged)
    copy.copy_(*rows_[size_t(row)].param);
  runPhases(exchange);
  for (auto &[row, copy] : staged) {
    const Tensor &param = *rows_[size_t(row)].param;
    param.copy_(copy);
    versions[size_t(row)] =
        versionOf(param.unsafeGetTensorImpl()->version_counter());
  }
}

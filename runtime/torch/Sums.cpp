// What the first sweep of a step finds in each gradient, found during backward.
#include "TensorTable.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>

using namespace altgrad::optim;

void TensorTable::sum(int64_t row) {
  if (!sums() || !hasRun)
    return;
  summed.resize(rows_.size());
  std::optional<Summed> &of = summed[size_t(row)];
  of.reset();
  const auto set = std::find_if(sets.begin(), sets.end(), [&](const auto &one) {
    return row < one.last;
  });
  const size_t index = size_t(set - sets.begin());
  const Seen &param = paramOf(*set, row);
  if (staged.count(row) || !param.isHeld() || !param.tensor->grad().defined())
    return;
  const at::Tensor &grad = param.tensor->grad();
  const c10::TensorImpl &impl = *grad.unsafeGetTensorImpl();
  const c10::VariableVersion &version = impl.version_counter();
  const void *data = plainGradient(*set, param, impl);
  if (data == &odd || !data || !version.enabled() || !isWithin(impl, data))
    return;
  Summed now{decltype(Summed::grad)(grad.getIntrusivePtr()), data,
             int64_t(version.current_version())};
  check(altgrad_bind_tensor(plan.get(),
                            program_->sets[index].grad->name.c_str(),
                            row - set->first, const_cast<void *>(data)));
  grads[size_t(row)] = data;
  check(altgrad_run_rows(plan.get(), workspace->get(), bytes,
                         program_->sums[index], row, row + 1));
  of = std::move(now);
}

// Whether the gradient of this step is the one that was summed, untouched.
bool TensorTable::isSummed(int64_t row) const {
  const std::optional<Summed> &of = summed[size_t(row)];
  if (!of || of->data != grads[size_t(row)])
    return false;
  const c10::TensorImpl *grad = taken[size_t(row)].unsafeGetTensorImpl();
  return of->grad._unsafe_get_target() == grad &&
         grad->version_counter().current_version() == of->version;
}

void TensorTable::sumRest(size_t set, const std::vector<char> &done) {
  int64_t first = sets[set].first;
  while (first < sets[set].last) {
    auto from = done.begin() + first;
    int64_t last =
        std::find(from, done.begin() + sets[set].last, char(!*from)) -
        done.begin();
    if (!*from)
      check(altgrad_run_rows(plan.get(), workspace->get(), bytes,
                             program_->sums[set], first, last));
    first = last;
  }
}

// Runs the phases up to the end of the first sweeps, whose words do not depend
// on when each row was swept; but on what the phases before them say.
void TensorTable::runSums() {
  auto after = c10::make_scope_exit([&] { summed.clear(); });
  counted = {0, 0};
  if (summed.empty())
    return;
  std::vector<char> done;
  for (int64_t row = 0; row < int64_t(rows_.size()); ++row) {
    done.push_back(isSummed(row));
    (done.back() ? counted.first : counted.second) +=
        summed[size_t(row)].has_value();
  }
  auto ofSweeps =
      std::minmax_element(program_->sums.begin(), program_->sums.end());
  const int64_t first = *ofSweeps.first, last = *ofSweeps.second + 1;
  uint64_t words = 0;
  check(altgrad_partials(plan.get(), &words, nullptr, nullptr));
  const char *memory = static_cast<const char *>(workspace->get());
  const std::vector<char> before(memory, memory + (first > 0 ? words : 0));
  check(altgrad_run(plan.get(), workspace->get(), bytes, 0, first, nullptr));
  if (!std::equal(before.begin(), before.end(), memory)) {
    counted.first = 0;
    done.assign(done.size(), 0);
  }
  for (size_t set = 0; set < sets.size(); ++set)
    sumRest(set, done);
  nextPhase = last;
}

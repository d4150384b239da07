// What the first sweep of a step finds in each gradient, found during backward.
#include "table/TensorTable.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>

using namespace altgrad::optim;

void TensorTable::sum(int64_t row) {
  if (!sums() || !hasRun || !takesPart[size_t(row)])
    return;
  summed.resize(rows_.size());
  if (firstChunks.empty()) {
    firstChunks.push_back(0);
    for (size_t i = 0; i < rows_.size(); ++i)
      firstChunks.push_back(firstChunks.back() +
                            (takesPart[i] ? rows_[i].param->numel() +
                                                ALTGRAD_CHUNK - 1
                                          : 0) /
                                ALTGRAD_CHUNK);
  }
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
  // What is not 0 afterwards is of this sweep.
  const int64_t first = firstChunks[size_t(row)];
  const int64_t last = firstChunks[size_t(row) + 1];
  chunkWords().clear(first, last);
  sweep(index, first, last);
  of = std::move(now);
}

altgrad::core::ChunkWords TensorTable::chunkWords() const {
  core::ChunkWords words;
  check(words.find(plan.get(), workspace->get()));
  return words;
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

// Sums one chunk again: unscale_ and collectives write whole gradients and
// raise no version.
bool TensorTable::isUntouched(size_t set, int64_t row) {
  const core::ChunkWords words = chunkWords();
  const int64_t chunk = words.telling(firstChunks[size_t(row)],
                                      firstChunks[size_t(row) + 1]);
  const std::vector<uint32_t> before = words.of(chunk);
  sweep(set, chunk, chunk + 1);
  return words.of(chunk) == before;
}

void TensorTable::sweep(size_t set, int64_t first, int64_t last) {
  check(altgrad_run_chunks(plan.get(), workspace->get(), bytes,
                           program_->sums[set], first, last));
}

// Runs the phases up to the end of the first sweeps, whose words do not depend
// on when each row was swept; but on what the phases before them say.
void TensorTable::runSums() {
  auto after = c10::make_scope_exit([&] { summed.clear(); });
  counted = {0, 0};
  if (summed.empty())
    return;
  auto ofSweeps =
      std::minmax_element(program_->sums.begin(), program_->sums.end());
  const int64_t first = *ofSweeps.first, last = *ofSweeps.second + 1;
  const char *memory = static_cast<const char *>(workspace->get());
  const void *chunks = chunkWords().first;
  const std::vector<char> before(
      memory, first > 0 ? static_cast<const char *>(chunks) : memory);
  check(altgrad_run(plan.get(), workspace->get(), bytes, 0, first, nullptr));
  const bool asBefore = std::equal(before.begin(), before.end(), memory);
  for (size_t set = 0; set < sets.size(); ++set) {
    int64_t from = sets[set].first; // rows that are still to be swept
    for (int64_t row = from; row <= sets[set].last; ++row) {
      bool done = row < sets[set].last && asBefore && isSummed(row) &&
                  isUntouched(set, row);
      if (row < sets[set].last && asBefore && summed[size_t(row)])
        ++(done ? counted.first : counted.second);
      if (!done && row < sets[set].last)
        continue;
      sweep(set, firstChunks[size_t(from)], firstChunks[size_t(row)]);
      from = row + 1;
    }
  }
  nextPhase = last;
}

// Runs the step on what was validated.
#include "table/TensorTable.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

void TensorTable::runTo(int64_t phase) { checkTable(altgrad_table_run(table.get(), phase, context.stream())); }

void TensorTable::begin() {
  c10::OptionalDeviceGuard guard(context.device());
  const uint8_t *present = altgrad_table_present(table.get());
  for (size_t row = 0; row < takesPart.size(); ++row)
    for (auto &[key, memory] : statistics_)
      if (takesPart[row] && !present[row]) // until its next step says it
        memory.select(0, int64_t(row)).fill_(std::numeric_limits<float>::quiet_NaN());
  takesPart.assign(present, present + takesPart.size());
  values.send(plan.get());
  nextStop = 0;
}

// Makes sums over tensors, of which other ranks have parts, those of all parts, added in the order of ranks. Every rank
// has as many, because these have gradients in the same steps.
void TensorTable::joinParts(const Stop &stop, const RuleSpec::all_gather_t &gather) {
  std::vector<int64_t> places, kinds; // words of 32 bits, and their reductions
  for (int64_t partial : stop.partials)
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].set != program_->partials[size_t(partial)].set || rows_[row].whole.empty() || !takesPart[row])
        continue;
      int64_t phase;
      int32_t reduction;
      uint64_t offset;
      check(altgrad_partial_at(plan.get(), partial, int64_t(row), &phase, &reduction, &offset));
      places.push_back(int64_t(offset / sizeof(float)));
      kinds.push_back(reduction);
    }
  if (places.empty())
    return;
  const Tensor at = at::tensor(places).to(workspace.device()), kind = at::tensor(kinds).to(workspace.device());
  const Tensor isVerdict = kind.eq(ALTGRAD_AND), isMaximum = kind.eq(ALTGRAD_MAX);
  Tensor words = workspace.narrow(0, 0, int64_t(bytes / sizeof(float) * sizeof(float))).view(at::kInt);
  const Tensor mine = words.index_select(0, at);
  Tensor sum, most, least;
  for (const Tensor &of : gather(at::where(isVerdict, mine.to(at::kDouble), mine.view(at::kFloat).to(at::kDouble)))) {
    sum = sum.defined() ? sum.add(of) : of;
    most = most.defined() ? most.maximum(of) : of;
    least = least.defined() ? least.minimum(of) : of;
  }
  const Tensor number = at::where(isMaximum, most, sum).to(at::kFloat).view(at::kInt);
  words.index_put_({at}, at::where(isVerdict, least.clamp(0, 1).to(at::kInt), number));
}

bool TensorTable::advance(std::vector<Share> *words, const RuleSpec::all_gather_t &gather) {
  c10::OptionalDeviceGuard guard(context.device());
  while (words && nextStop < program_->stops.size()) {
    const Stop &stop = program_->stops[nextStop++];
    if (!gather && stop.words.empty())
      continue;
    runTo(stop.phase);
    if (stop.words.empty()) {
      joinParts(stop, gather);
      continue;
    }
    words->clear();
    for (const altgrad_exchange_word &word : stop.words)
      words->push_back({wordIn(workspace, int64_t(word.offset), word.reduction == ALTGRAD_AND ? at::kInt : at::kFloat),
                        word.reduction, word.sum});
    return true;
  }
  runTo(-1);
  finish();
  return false;
}

void TensorTable::finish() {
  copies.clear();
  if (!context.isHost()) {
    Owned own;
    addOwn(own);
    own.record(context);
  }
}

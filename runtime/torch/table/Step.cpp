// Runs the step on what was validated.
#include "table/TensorTable.h"

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

bool TensorTable::advance(std::vector<Share> *words) {
  c10::OptionalDeviceGuard guard(context.device());
  if (!words || nextStop == program_->stops.size()) {
    runTo(-1);
    finish();
    return false;
  }
  const Stop &stop = program_->stops[nextStop++];
  runTo(stop.phase);
  words->clear();
  for (const altgrad_exchange_word &word : stop.words)
    words->push_back({wordIn(workspace, int64_t(word.offset), word.reduction == ALTGRAD_AND ? at::kInt : at::kFloat),
                      word.reduction});
  return true;
}

void TensorTable::finish() {
  copies.clear();
  if (!context.isHost()) {
    Owned own;
    addOwn(own);
    own.record(context);
  }
}

// Runs the step on what was looked at.
#include "table/TensorTable.h"
#include "tensors/Threads.h"

#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <limits>

using namespace altgrad::optim;
using at::Tensor;

static int64_t versionOf(const Tensor &tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

// The same for any layout and device.
static void takeByTorch(const Tensor &param, const Tensor &master, bool waits) {
  Tensor differs = at::ne(param, master.to(param.scalar_type()));
  // Elsewhere nobody waits for the answer.
  if (!waits || differs.any().item<bool>())
    master.copy_(at::where(differs, param.to(master.scalar_type()), master));
}

static void takeNatively(const char *format, const Tensor &param, const Tensor &master) {
  constexpr int64_t block = 4096;
  auto *from = static_cast<const char *>(param.const_data_ptr());
  auto *to = master.mutable_data_ptr<float>();
  int64_t count = param.numel(), size = param.element_size();
  onThreads((count + block - 1) / block, [&](int64_t first, int64_t last) {
    int64_t begin = first * block, end = std::min(last * block, count);
    check(altgrad_take_edits(format, from + begin * size, to + begin, end - begin));
  });
}

// Element by element: where the parameter still is the rounded master, the
// master keeps the bits that the parameter has no room for.
void TensorTable::takeEdits() {
  for (const Master &of : masters) {
    const Row &row = rows_[size_t(of.row)];
    if (!takesPart[size_t(of.row)] || versionOf(*row.param) == of.version)
      continue;
    const Tensor &param = row.stepped();
    const char *format = param.scalar_type() == at::kBFloat16 ? "bf16"
                         : param.scalar_type() == at::kHalf   ? "f16"
                                                              : nullptr;
    if (where.isHost() && format && of.master->scalar_type() == at::kFloat)
      takeNatively(format, param, *of.master);
    else
      takeByTorch(param, *of.master, where.isHost());
  }
}

void TensorTable::runTo(int64_t phase) { checkTable(altgrad_table_run(table.get(), phase, where.stream())); }

void TensorTable::begin() {
  c10::OptionalDeviceGuard guard(where.device());
  const uint8_t *present = altgrad_table_present(table.get());
  for (size_t row = 0; row < takesPart.size(); ++row)
    for (auto &[key, memory] : statistics_)
      if (takesPart[row] && !present[row]) // until its next step says it
        memory.select(0, int64_t(row)).fill_(std::numeric_limits<float>::quiet_NaN());
  takesPart.assign(present, present + takesPart.size());
  values.send(plan.get());
  for (size_t row = 0; row < rows_.size(); ++row)
    if (takesPart[row] && rows_[row].dense && !rows_[row].first)
      rows_[row].dense->copy_(*rows_[row].param);
  takeEdits();
  nextExchange = 0;
}

bool TensorTable::advance(std::vector<Share> *words) {
  c10::OptionalDeviceGuard guard(where.device());
  if (!words || nextExchange == program_->exchanges.size()) {
    runTo(-1);
    finish();
    return false;
  }
  const altgrad_core_exchange &exchange = program_->exchanges[nextExchange++];
  runTo(exchange.phase);
  words->clear();
  for (const altgrad_exchange_word &word : c10::ArrayRef(exchange.words, size_t(exchange.count)))
    words->push_back({wordIn(workspace, int64_t(word.offset), word.reduction == ALTGRAD_AND ? at::kInt : at::kFloat),
                      word.reduction});
  return true;
}

void TensorTable::finish() {
  copies.clear();
  for (size_t row = 0; row < rows_.size(); ++row)
    if (takesPart[row] && rows_[row].dense && !rows_[row].first)
      rows_[row].param->copy_(*rows_[row].dense);
  if (!where.isHost()) {
    Owned own;
    addOwn(own);
    own.record(where);
  }
  for (Master &of : masters)
    if (takesPart[size_t(of.row)])
      of.version = versionOf(*rows_[size_t(of.row)].param);
}

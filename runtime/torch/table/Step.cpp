// Runs the step on what was looked at.
#include "table/TensorTable.h"
#include "tensors/Threads.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ScopeExit.h>

#include <cmath>

using namespace altgrad::optim;
using at::Tensor;

static int64_t versionOf(const c10::VariableVersion &version) {
  return version.enabled() ? version.current_version() : 0;
}

// What the last steps have said of a row that is absent now is no longer so.
void TensorTable::bindPresent() {
  if (present == takesPart)
    return;
  check(altgrad_bind_present(plan.get(), present.data(),
                             int64_t(present.size())));
  takesPart = present;
  summed.clear();
  firstChunks.clear(); // they are counted over those that take part
  if (statistics_.empty())
    return;
  Tensor absent = at::empty({int64_t(present.size())}, at::kBool);
  for (size_t row = 0; row < present.size(); ++row)
    absent.data_ptr<bool>()[row] = !present[row];
  absent = absent.to(where.device(), /*non_blocking=*/true);
  for (auto &[key, memory] : statistics_)
    memory.masked_fill_(absent, NAN);
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
  Seen *next = &seen[size_t(&paramOf(set, begin) - seen.data())];
  const Seen *last = next + size_t(end - begin) * set.width;
  constexpr ptrdiff_t ahead = 16;
  for (size_t row = size_t(begin); row < size_t(end); ++row) {
    edited[row] = 0;
    if (set.master >= 0 && present[row]) {
      int64_t now = versionOf(next->version);
      edited[row] = now != versions[row];
      versions[row] = now + 1;
    }
    for (size_t i = 0; i < set.width; ++i, ++next) {
      if (last - next > ahead)
        fetch(counterOf(next[ahead].version));
      if (present[row] && next->version.enabled())
        next->version.bump();
    }
  }
}

// The same for any layout and device.
static void takeByTorch(const Tensor &param, const Tensor &master, bool waits) {
  Tensor differs = at::ne(param, master.to(param.scalar_type()));
  // Elsewhere nobody waits for the answer.
  if (!waits || differs.any().item<bool>())
    master.copy_(at::where(differs, param.to(master.scalar_type()), master));
}

static void takeNatively(const char *format, const Tensor &param,
                         const Tensor &master) {
  constexpr int64_t block = 4096;
  auto *from = static_cast<const char *>(param.const_data_ptr());
  auto *to = master.mutable_data_ptr<float>();
  int64_t count = param.numel(), size = param.element_size();
  onThreads((count + block - 1) / block, [&](int64_t first, int64_t last) {
    int64_t begin = first * block, end = std::min(last * block, count);
    check(altgrad_take_edits(format, from + begin * size, to + begin,
                             end - begin));
  });
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
      const char *format = param.scalar_type() == at::kBFloat16 ? "bf16"
                           : param.scalar_type() == at::kHalf   ? "f16"
                                                                : nullptr;
      if (where.isHost() && format && !staged.count(row) &&
          master.scalar_type() == at::kFloat)
        takeNatively(format, param, master);
      else
        takeByTorch(param, master, where.isHost());
    }
}

void TensorTable::runTo(int64_t phase) {
  if (nextPhase == 0)
    runSums();
  check(altgrad_run(plan.get(), workspace->get(), bytes, nextPhase, phase,
                    where.stream()));
  nextPhase = phase;
}

void TensorTable::begin() {
  auto failed = c10::make_scope_exit([&] { letGo(); });
  c10::OptionalDeviceGuard guard(where.device());
  bindPresent();
  bindGradients();
  values.send(plan.get());
  onThreads(int64_t(rows_.size()), [&](int64_t begin, int64_t end) {
    for (const SetRows &set : sets)
      if (int64_t first = std::max(begin, set.first),
          last = std::min(end, set.last);
          first < last)
        raiseVersions(set, first, last);
  });
  takeEdits();
  for (auto &[row, copy] : staged)
    if (present[size_t(row)])
      copy.copy_(*rows_[size_t(row)].param);
  nextExchange = 0;
  nextPhase = 0;
  failed.release();
}

bool TensorTable::advance(std::vector<Share> *words) {
  auto after = c10::make_scope_exit([&] { letGo(); });
  c10::OptionalDeviceGuard guard(where.device());
  if (!words || nextExchange == program_->exchanges.size()) {
    runTo(-1);
    finish();
    return false;
  }
  const Exchange &exchange = program_->exchanges[nextExchange++];
  runTo(exchange.phase);
  words->clear();
  for (const ExchangeWord &word : exchange.words)
    words->push_back(
        {where.view(workspace, word.offset,
                    word.reduction == ALTGRAD_AND ? at::kInt : at::kFloat),
         word.reduction});
  after.release();
  return true;
}

void TensorTable::finish() {
  hasRun = true;
  if (!where.isHost()) {
    Owned own;
    addOwn(own);
    own.record(where);
  }
  for (auto &[row, copy] : staged) {
    if (!present[size_t(row)])
      continue;
    const Tensor &param = *rows_[size_t(row)].param;
    param.copy_(copy);
    versions[size_t(row)] =
        versionOf(param.unsafeGetTensorImpl()->version_counter());
  }
}

// Early norm: runs a step, of which the first sweep may have been run during backward.
#include "Python.h"
#include "TableImpl.h"

#include <algorithm>
#include <utility>

using namespace altgrad::core;

void Table::countChunks() {
  if (!firstChunks.empty())
    return;
  firstChunks.push_back(0);
  for (size_t row = 0; row < rows_.size(); ++row) {
    int64_t chunks = (rows_[row].numel + ALTGRAD_CHUNK - 1) / int64_t(ALTGRAD_CHUNK);
    firstChunks.push_back(firstChunks.back() + (takesPart[row] ? chunks : 0));
  }
}

const char *Table::unsummed() const {
  if (onHost && !inUnits && !sets.empty() && sets[0].sum >= 0 && keys && objects().counter >= 0)
    return nullptr;
  return !clips    ? ""
         : inUnits ? "this step goes over rows or matrices by themselves, so the first sweep runs in the step"
         : !onHost ? "kernels on GPUs read all gradients once more in the step"
                   : "the first sweep of this step reads more than gradients, so it runs in the step";
}

void Table::sum(int64_t row, Handle grad) {
  const SetRows &set = setOf(row);
  summed.resize(rows_.size());
  summed[size_t(row)] = Summed();
  if (!grad || !hasRun || unsummed() || !takesPart[size_t(row)] || keysOf(grad) != keys)
    return;
  const Fingerprint &param = paramOf(set, row);
  if (!isSame(param) || !reads(row, param, grad) || !onSameDevice(grad, param.handle) || !isWithin(grad))
    return;
  Summed now{Held(), placeOf(row, grad), versionOf(grad)};
  if (!now.data)
    return;
  check(altgrad_bind_tensor(plan, set.grad.c_str(), row - set.first, const_cast<void *>(now.data)));
  grads[size_t(row)] = now.data;
  countChunks();
  // What is not 0 afterwards is of this sweep.
  const int64_t first = firstChunks[size_t(row)];
  const int64_t last = firstChunks[size_t(row) + 1];
  chunkWords().clear(first, last);
  sweep(set, first, last);
  now.grad = hold(grad);
  summed[size_t(row)] = std::move(now);
}

// Whether the gradient of this step is the one that was summed, in the same memory and of the same version.
bool Table::isSummed(const Summed &of, int64_t row) const {
  const Handle grad = taken[size_t(row)];
  return grad && objectOf(of.grad) == objectOf(grad) && of.data == grads[size_t(row)] && of.version == versionOf(grad);
}

ChunkWords Table::chunkWords() const {
  ChunkWords words;
  check(words.find(plan, workspace));
  return words;
}

// Sums one chunk again: unscale_ and collectives write whole gradients and
// raise no version.
bool Table::isUntouched(const SetRows &set, int64_t row) {
  const ChunkWords words = chunkWords();
  const int64_t chunk = words.telling(firstChunks[size_t(row)], firstChunks[size_t(row) + 1]);
  const std::vector<uint32_t> before = words.of(chunk);
  sweep(set, chunk, chunk + 1);
  return words.of(chunk) == before;
}

void Table::sweep(const SetRows &set, int64_t first, int64_t last) {
  check(altgrad_run_chunks(plan, workspace, bytes, set.sum, first, last));
}

// Runs the phases up to the end of the first sweeps, whose words do not depend
// on when each row was swept; but on what the phases before them say.
void Table::runSums() {
  counted[0] = counted[1] = 0;
  const std::vector<Summed> known = std::exchange(summed, {});
  if (std::none_of(known.begin(), known.end(), [](const Summed &of) { return of.data; }))
    return;
  int64_t first = sets[0].sum, last = 0;
  for (const SetRows &set : sets) {
    first = std::min(first, set.sum);
    last = std::max(last, set.sum + 1);
  }
  countChunks();
  const char *memory = static_cast<const char *>(workspace);
  const void *chunks = chunkWords().first;
  const std::vector<char> before(memory, first > 0 ? static_cast<const char *>(chunks) : memory);
  check(altgrad_run(plan, workspace, bytes, 0, first, nullptr));
  const bool asBefore = std::equal(before.begin(), before.end(), memory);
  for (const SetRows &set : sets) {
    int64_t from = set.first; // rows that are still to be swept
    for (int64_t row = from; row <= set.last; ++row) {
      const bool was = row < set.last && asBefore && known[size_t(row)].data;
      const bool done = was && isSummed(known[size_t(row)], row) && isUntouched(set, row);
      counted[done ? 0 : 1] += was;
      if (!done && row < set.last)
        continue;
      sweep(set, firstChunks[size_t(from)], firstChunks[size_t(row)]);
      from = row + 1;
    }
  }
  nextPhase = last;
}

void Table::begin() {
  if (nextPhase != 0 || rowsRun != 0)
    return;
  copyIn();
  // Before the kernels, which push what describes the tensors out of the
  // caches.
  raiseVersions();
  bindPresent();
  bindGradients();
  runSums();
}

void Table::end() {
  hasRun = true;
  copyOut();
  letGo();
}

void Table::run(int64_t last, void *stream) {
  begin();
  check(altgrad_run(plan, workspace, bytes, nextPhase, last, stream));
  nextPhase = last;
  if (last < 0)
    end();
}

void Table::runRows(int64_t first, int64_t last, void *stream) {
  begin();
  check(altgrad_run_tensors(plan, workspace, bytes, nextPhase, phases, first, last, stream));
  rowsRun += last - first;
  if (rowsRun == int64_t(rows_.size()))
    end();
}

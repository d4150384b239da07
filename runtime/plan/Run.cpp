// Runs the phases of a plan.
#include "Status.h"
#include "matrix/Multiply.h"
#include "plan/Plan.h"

#include <algorithm>

using namespace altgrad::runtime;

altgrad_status altgrad_plan::checkPhases(int64_t first, int64_t last) const {
  int64_t phases = int64_t(bundle->manifest().phases.size());
  if (first < 0 || first > last || last > phases)
    return fail(ALTGRAD_INVALID, "phases [%lld, %lld) of %lld", (long long)first, (long long)last, (long long)phases);
  return ALTGRAD_OK;
}

altgrad_status altgrad_plan::run(void *workspace, uint64_t bytes, int64_t first, int64_t last, void *stream) {
  Launch all{};
  all.first = first;
  all.last = last < 0 ? int64_t(bundle->manifest().phases.size()) : last;
  all.stream = stream;
  if (altgrad_status status = checkPhases(all.first, all.last))
    return status;
  return launch(all, workspace, bytes);
}

altgrad_status altgrad_plan::runChunks(void *workspace, uint64_t bytes, int64_t phase, Items part) {
  if (altgrad_status status = checkPhases(phase, phase + 1))
    return status;
  const Phase &sweep = bundle->manifest().phases[size_t(phase)];
  if (sweep.domain != Domain::Chunks || sweep.tiles || sweep.walk != Walk::Chunks)
    return fail(ALTGRAD_INVALID, "phase %s is no sweep over chunks", sweep.name.c_str());
  if (!executor->runsRanges())
    return fail(ALTGRAD_UNAVAILABLE, "only a plan of the CPU runs some chunks");
  const int64_t chunks = running().nchunks();
  if (part.begin < 0 || part.begin > part.end || part.end > chunks)
    return fail(ALTGRAD_INVALID, "chunks [%lld, %lld) of %lld", (long long)part.begin, (long long)part.end,
                (long long)chunks);
  Launch some{};
  some.first = phase;
  some.last = phase + 1;
  some.part.chunks = part;
  return launch(some, workspace, bytes);
}

altgrad_status altgrad_plan::runTensors(void *workspace, uint64_t bytes, Items phases, Items tensors, void *stream) {
  if (altgrad_status status = checkPhases(phases.begin, phases.end))
    return status;
  for (int64_t i = phases.begin; i < phases.end; ++i)
    if (const Phase &phase = bundle->manifest().phases[size_t(i)]; phase.domain == Domain::Once)
      return fail(ALTGRAD_INVALID,
                  "phase %lld, %s, is of the step and not of tensors: run it "
                  "with altgrad_run",
                  (long long)i, phase.name.c_str());
  const int64_t count = int64_t(tables.firstRows.size()) - 1;
  if (tensors.begin < 0 || tensors.begin > tensors.end || tensors.end > count)
    return fail(ALTGRAD_INVALID, "tensors [%lld, %lld) of %lld", (long long)tensors.begin, (long long)tensors.end,
                (long long)count);
  Launch some{};
  some.first = phases.begin;
  some.last = phases.end;
  some.stream = stream;
  return launch(some, workspace, bytes, tensors);
}

// Folds and totals read what sweeps have left in the workspace, and no tensor.
bool altgrad_plan::readsTensors(const Launch &launch) const {
  const std::vector<Phase> &phases = bundle->manifest().phases;
  return std::any_of(phases.begin() + launch.first, phases.begin() + launch.last,
                     [](const Phase &phase) { return phase.kind != ALTGRAD_FOLD && phase.kind != ALTGRAD_TOTAL; });
}

altgrad_status altgrad_plan::launch(Launch &launch, void *workspace, uint64_t bytes, std::optional<Items> tensors) {
  if (!declared)
    return fail(ALTGRAD_INVALID, "no tensors bound");
  if (unbound > 0 && readsTensors(launch))
    return nameUnbound();
  const uint64_t needed = readsTensors(launch) ? layout.bytes : layout.spills;
  if (bytes < needed)
    return fail(ALTGRAD_INVALID, "workspace has %llu bytes, needs %llu", (unsigned long long)bytes,
                (unsigned long long)needed);
  if (layout.bytes > 0 && (!workspace || uint64_t(workspace) % workspaceAlignment != 0))
    return fail(ALTGRAD_INVALID, "workspace %p is not 64-byte aligned memory", workspace);
  if (!prepared)
    if (altgrad_status status = prepare())
      return status;
  if (unselected)
    if (altgrad_status status = refreshSelection())
      return status;
  const Tables &now = running();
  if (tensors)
    launch.part.rows = {now.firstRows[size_t(tensors->begin)], now.firstRows[size_t(tensors->end)]};
  // An integer sum: an empty workspace may be NULL.
  uint64_t base = uint64_t(workspace);
  altgrad_args &args = launch.args;
  args.rows = now.rows.data();
  args.inputs = now.inputs.data();
  args.chunks = now.chunks.data();
  args.groups = now.groups.data();
  args.scalars = now.scalars.data();
  args.sets = now.setRows.data();
  args.step_words = (uint64_t *)base;
  args.row_words = (uint64_t *)(base + layout.rowWords);
  args.chunk_words = (uint32_t *)(base + layout.chunkWords);
  args.spills = (float *)(base + layout.spills);
  args.nrows = now.nrows;
  args.nchunks = now.nchunks();
  launch.parallelFor = parallelFor;
  launch.threads = threads;
  launch.owner = owner;
  launch.gemm = gemm.multiply ? gemm : commonGemm();
  launch.factorize = factorize.factorize ? factorize : commonFactorize();
  return executor->run(now, launch, changed);
}

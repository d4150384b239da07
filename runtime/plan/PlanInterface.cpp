// The C functions of a plan: they check arguments and names.
#include "Status.h"
#include "executor/Threads.h"
#include "matrix/Multiply.h"
#include "plan/Plan.h"
#include "plan/Tensors.h"

#include <cstdlib>
#include <cstring>

using namespace altgrad::runtime;

namespace {

constexpr int64_t mostTensors = int64_t(1) << 24;
constexpr uint64_t mostValueBytes = uint64_t(1) << 31;

// Index of `name` in a list of streams or scalars, or -1.
template <typename Entry> int64_t find(const std::vector<Entry> &entries, const char *name) {
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].name == name)
      return int64_t(i);
  return -1;
}

template <typename Entry> std::string namesOf(const std::vector<Entry> &entries) {
  std::string names;
  for (const Entry &entry : entries)
    names += (names.empty() ? "" : ", ") + entry.name;
  return names.empty() ? "none" : names;
}

altgrad_status createExecutor(const Bundle &bundle, const char *device, std::unique_ptr<Executor> &out) {
  if (strcmp(device, "cpu") == 0)
    return createHostExecutor(bundle, nullptr, out);
  if (strncmp(device, "cpu:", 4) == 0)
    return createHostExecutor(bundle, device + 4, out);
  if (strcmp(device, "cuda") == 0)
    return createCudaExecutor(bundle, -1, out);
  const char *digits = device + 5;
  if (strncmp(device, "cuda:", 5) == 0 && *digits && strlen(digits) <= 4 &&
      strspn(digits, "0123456789") == strlen(digits))
    return createCudaExecutor(bundle, atoi(digits), out);
  return fail(ALTGRAD_INVALID, "device \"%.64s\" is none of cpu, cpu:LEVEL, cuda, cuda:N", device);
}

// What binding by name shares; `kind` is "stream" or "scalar".
template <typename Entry>
altgrad_status findName(const altgrad_plan *plan, const char *kind, const std::vector<Entry> &entries, const char *name,
                        int64_t &index) {
  index = find(entries, name);
  if (index < 0)
    return fail(ALTGRAD_NOT_FOUND, "no %s \"%.64s\" (there are: %s)", kind, name, namesOf(entries).c_str());
  if (!plan->declared)
    return fail(ALTGRAD_INVALID, "%s %s: no tensors bound", kind, name);
  return ALTGRAD_OK;
}

altgrad_status checkCount(const char *kind, const char *name, void *const *pointers, int64_t count, int64_t wanted) {
  if (count != wanted || (count > 0 && !pointers))
    return fail(ALTGRAD_INVALID, "%s %s: %lld pointers%s, needs %lld", kind, name, (long long)count,
                pointers ? "" : " at NULL", (long long)wanted);
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad_plan_create(altgrad_bundle *bundle, const char *device, altgrad_plan **out) {
  if (!bundle || !device || !out)
    return fail(ALTGRAD_INVALID, "altgrad_plan_create: an argument is NULL");
  return guarded([&]() -> altgrad_status {
    auto plan = std::make_unique<altgrad_plan>();
    plan->bundle = bundle->shared;
    plan->threads = availableThreads();
    if (altgrad_status status = createExecutor(*plan->bundle, device, plan->executor))
      return status;
    *out = plan.release();
    return ALTGRAD_OK;
  });
}

void altgrad_plan_free(altgrad_plan *plan) { delete plan; }

altgrad_status altgrad_bind_tensors(altgrad_plan *plan, const altgrad_tensor *tensors, int64_t count, int64_t ngroups) {
  if (!plan || (count > 0 && !tensors))
    return fail(ALTGRAD_INVALID, "altgrad_bind_tensors: %s is NULL", plan ? "tensors" : "plan");
  if (count < 0 || count > mostTensors || ngroups < 0 || ngroups > mostTensors)
    return fail(ALTGRAD_INVALID, "%lld tensors in %lld groups; 0 to 2^24 each", (long long)count, (long long)ngroups);
  return guarded([&]() -> altgrad_status {
    std::vector<altgrad_tensor> known;
    if (altgrad_status status = readTensors(tensors, count, known))
      return status;
    return plan->bindTensors(known, ngroups);
  });
}

altgrad_status altgrad_bind_stream(altgrad_plan *plan, const char *name, void *const *pointers, int64_t count) {
  if (!plan || !name)
    return fail(ALTGRAD_INVALID, "altgrad_bind_stream: an argument is NULL");
  return guarded([&]() -> altgrad_status {
    int64_t index;
    const auto &streams = plan->bundle->manifest().streams;
    if (altgrad_status status = findName(plan, "stream", streams, name, index))
      return status;
    if (altgrad_status status =
            checkCount("stream", name, pointers, count, tensorsOf(streams[size_t(index)].set, plan->tables).count()))
      return status;
    return plan->bindStream(size_t(index), pointers);
  });
}

altgrad_status altgrad_bind_tensor(altgrad_plan *plan, const char *name, int64_t tensor, void *pointer) {
  if (!plan || !name)
    return fail(ALTGRAD_INVALID, "altgrad_bind_tensor: an argument is NULL");
  return guarded([&]() -> altgrad_status {
    int64_t index;
    const auto &streams = plan->bundle->manifest().streams;
    if (altgrad_status status = findName(plan, "stream", streams, name, index))
      return status;
    return plan->bindTensor(size_t(index), tensor, pointer);
  });
}

altgrad_status altgrad_bind_present(altgrad_plan *plan, const uint8_t *present, int64_t count) {
  if (!plan)
    return fail(ALTGRAD_INVALID, "altgrad_bind_present: plan is NULL");
  if (!plan->declared)
    return fail(ALTGRAD_INVALID, "altgrad_bind_present: no tensors bound");
  return guarded([&] { return plan->select(present, count); });
}

altgrad_status altgrad_bind_scalar(altgrad_plan *plan, const char *name, void *const *pointers, int64_t count) {
  if (!plan || !name)
    return fail(ALTGRAD_INVALID, "altgrad_bind_scalar: an argument is NULL");
  return guarded([&]() -> altgrad_status {
    int64_t index;
    const auto &scalars = plan->bundle->manifest().scalars;
    if (altgrad_status status = findName(plan, "scalar", scalars, name, index))
      return status;
    if (altgrad_status status =
            checkCount("scalar", name, pointers, count, pointersOf(scalars[size_t(index)], plan->tables)))
      return status;
    return plan->bindScalar(size_t(index), pointers, count);
  });
}

altgrad_status altgrad_mirror(altgrad_plan *plan, const void *values, uint64_t bytes) {
  if (!plan || (bytes > 0 && !values))
    return fail(ALTGRAD_INVALID, "altgrad_mirror: %s is NULL", plan ? "values" : "plan");
  if (bytes > mostValueBytes)
    return fail(ALTGRAD_INVALID, "altgrad_mirror: %llu bytes; at most 2^31", (unsigned long long)bytes);
  return guarded([&] { return plan->mirror(values, bytes); });
}

altgrad_status altgrad_workspace(altgrad_plan *plan, uint64_t *bytes) {
  if (!plan || !bytes)
    return fail(ALTGRAD_INVALID, "altgrad_workspace: an argument is NULL");
  if (!plan->declared)
    return fail(ALTGRAD_INVALID, "no tensors bound");
  *bytes = plan->layout.bytes;
  return ALTGRAD_OK;
}

altgrad_status altgrad_capturing(void *stream, int32_t *capturing) {
  if (!capturing)
    return fail(ALTGRAD_INVALID, "altgrad_capturing: capturing is NULL");
  return guarded([&]() -> altgrad_status {
    uint64_t capture = 0;
    if (altgrad_status status = findCapture(stream, capture))
      return status;
    *capturing = capture != 0;
    return ALTGRAD_OK;
  });
}

altgrad_status altgrad_partials(const altgrad_plan *plan, uint64_t *offset, int64_t *words, int64_t *chunks) {
  if (!plan)
    return fail(ALTGRAD_INVALID, "altgrad_partials: plan is NULL");
  if (!plan->declared)
    return fail(ALTGRAD_INVALID, "no tensors bound");
  if (offset)
    *offset = plan->layout.chunkWords;
  if (words)
    *words = plan->bundle->manifest().workspaceChunkWords;
  if (chunks)
    *chunks = plan->running().nchunks();
  return ALTGRAD_OK;
}

altgrad_status altgrad_partial_at(const altgrad_plan *plan, int64_t partial, int64_t tensor, int64_t *phase,
                                  int32_t *reduction, uint64_t *offset) {
  if (!plan || !phase || !reduction || !offset)
    return fail(ALTGRAD_INVALID, "altgrad_partial_at: an argument is NULL");
  if (!plan->declared)
    return fail(ALTGRAD_INVALID, "no tensors bound");
  const auto &partials = plan->bundle->manifest().partials;
  if (partial < 0 || partial >= int64_t(partials.size()))
    return fail(ALTGRAD_INVALID, "partial %lld of %lld", (long long)partial, (long long)partials.size());
  const SliceSum &sum = partials[size_t(partial)];
  const Items own = tensorsOf(sum.set, plan->tables);
  if (tensor < own.begin || tensor >= own.end || !plan->isPresent(tensor))
    return fail(ALTGRAD_INVALID,
                "tensor %lld is absent, or not of set %lld, whose tensors are "
                "[%lld, %lld)",
                (long long)tensor, (long long)sum.set, (long long)own.begin, (long long)own.end);
  *phase = sum.phase;
  *reduction = sum.reduction;
  *offset = plan->wordOf(tensor, sum.word);
  return ALTGRAD_OK;
}

altgrad_status altgrad_set_parallel_for(altgrad_plan *plan, altgrad_parallel_for run) {
  if (!plan)
    return fail(ALTGRAD_INVALID, "altgrad_set_parallel_for: plan is NULL");
  plan->parallelFor = run;
  return ALTGRAD_OK;
}

altgrad_status altgrad_set_threads(altgrad_plan *plan, int32_t n) {
  if (!plan || n < 0 || n > mostThreads)
    return fail(ALTGRAD_INVALID, "altgrad_set_threads: %s", plan ? "not in [0, 1024]" : "plan is NULL");
  plan->threads = n == 0 ? availableThreads() : n;
  return ALTGRAD_OK;
}

altgrad_status altgrad_set_gemm(altgrad_plan *plan, altgrad_multiply multiply, void *context) {
  return guarded([&]() -> altgrad_status {
    if (plan)
      plan->gemm = {multiply, context};
    else
      setCommonGemm({multiply, context});
    return ALTGRAD_OK;
  });
}

altgrad_status altgrad_set_symmetric_gemm(altgrad_multiply multiply, void *context, const char *name) {
  return guarded([&]() -> altgrad_status {
    setSymmetricGemm({{multiply, context}, name ? name : ""});
    return ALTGRAD_OK;
  });
}

altgrad_status altgrad_set_factorize(altgrad_plan *plan, altgrad_factorize factorize, void *context) {
  return guarded([&]() -> altgrad_status {
    if (plan)
      plan->factorize = {factorize, context};
    else
      setCommonFactorize({factorize, context});
    return ALTGRAD_OK;
  });
}

altgrad_status altgrad_set_owner(altgrad_plan *plan, void *(*hold)(void *context), void (*release)(void *held),
                                 void *context) {
  if (!plan || !hold || !release)
    return fail(ALTGRAD_INVALID, "altgrad_set_owner: an argument is NULL");
  plan->owner = {hold, release, context};
  return ALTGRAD_OK;
}

altgrad_status altgrad_run(altgrad_plan *plan, void *workspace, uint64_t bytes, int64_t first, int64_t last,
                           void *stream) {
  if (!plan)
    return fail(ALTGRAD_INVALID, "altgrad_run: plan is NULL");
  return guarded([&] { return plan->run(workspace, bytes, first, last, stream); });
}

altgrad_status altgrad_run_tensors(altgrad_plan *plan, void *workspace, uint64_t bytes, int64_t first_phase,
                                   int64_t last_phase, int64_t first_tensor, int64_t last_tensor, void *stream) {
  if (!plan)
    return fail(ALTGRAD_INVALID, "altgrad_run_tensors: plan is NULL");
  return guarded([&] {
    return plan->runTensors(workspace, bytes, {first_phase, last_phase}, {first_tensor, last_tensor}, stream);
  });
}

altgrad_status altgrad_run_chunks(altgrad_plan *plan, void *workspace, uint64_t bytes, int64_t phase, int64_t first,
                                  int64_t last) {
  if (!plan)
    return fail(ALTGRAD_INVALID, "altgrad_run_chunks: plan is NULL");
  return guarded([&] { return plan->runChunks(workspace, bytes, phase, {first, last}); });
}

// Settings, counts, failures on demand, and how functions are found by name.
#include "Fake.h"

#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

using namespace fakecuda;

namespace {

struct Known {
  int since;
  void *function;
};

std::map<std::string, Known> &functions() {
  static std::map<std::string, Known> all;
  return all;
}

// Name, variable of the environment, value where that is not set.
struct Setting {
  const char *name, *variable;
  int64_t usual;
} const known[] = {{"devices", "FAKE_CUDA_DEVICES", 1},
                   {"capability", "FAKE_CUDA_CAPABILITY", 90},
                   {"processors", "FAKE_CUDA_PROCESSORS", 10},
                   {"occupancy", "FAKE_CUDA_OCCUPANCY", 0},
                   {"registers", "FAKE_CUDA_REGISTERS", 0},
                   {"driver", "FAKE_CUDA_DRIVER", 12080},
                   {"memory", "FAKE_CUDA_MEMORY", int64_t(1) << 32},
                   {"seed", "FAKE_CUDA_SEED", 0},
                   {"eager", "FAKE_CUDA_EAGER", 0},
                   {"host", "FAKE_CUDA_HOST", 0},
                   {"races", "FAKE_CUDA_RACES", 0},
                   {"clock", "FAKE_CUDA_CLOCK", 0},
                   {"caches", "FAKE_CUDA_CACHES", 2}};

pid_t owner = 0; // who called cuInit

// "cuMemAlloc:2:3,cuInit:34": the third call fails with 2, every cuInit
// with 34.
void readFailures(State &s, std::string text) {
  while (!text.empty()) {
    size_t end = text.find(',');
    std::string one = text.substr(0, end);
    text = end == std::string::npos ? "" : text.substr(end + 1);
    size_t first = one.find(':'), second = one.find(':', first + 1);
    if (first == std::string::npos)
      continue;
    bool once = second != std::string::npos;
    s.failures[one.substr(0, first)].push_back(
        {atoi(one.c_str() + first + 1),
         once ? atoll(one.c_str() + second + 1) - 1 : 0, once ? 1 : -1});
  }
}

// Asked for the end of the process, so that tests in Python can print it.
void report() {
  State &s = state();
  fprintf(stderr,
          "fakecuda: %lld kernels, %lld thread-instructions, %lld waits\n",
          (long long)s.executed, (long long)s.instructions, (long long)s.waits);
  for (auto &[name, count] : s.calls)
    fprintf(stderr, "fakecuda: %6lld %s\n", (long long)count, name.c_str());
}

int failureOf(State &s, const std::string &name) {
  auto found = s.failures.find(name);
  if (found == s.failures.end())
    return 0;
  int code = 0;
  for (Failure &failure : found->second) {
    if (failure.skip > 0) {
      --failure.skip;
    } else if (failure.times != 0 && !code) {
      failure.times -= failure.times > 0;
      code = failure.code;
    }
  }
  return code;
}

} // namespace

State::State() {
  for (const Setting &setting : known) {
    const char *value = getenv(setting.variable);
    settings[setting.name] = value ? atoll(value) : setting.usual;
  }
  if (const char *all = getenv("FAKE_CUDA_FAIL"))
    readFailures(*this, all);
  if (const char *name = getenv("FAKE_CUDA_MISSING"))
    missing.insert(name);
  random = uint64_t(get("seed"));
}

State &fakecuda::state() {
  // Never destroyed: others may still call when the process ends.
  static State *all = [] {
    // Whoever else holds the lock does not exist in a child.
    pthread_atfork([] { lock().lock(); }, [] { lock().unlock(); },
                   [] { new (&lock()) std::recursive_mutex; });
    if (getenv("FAKE_CUDA_REPORT"))
      atexit(report);
    return new State;
  }();
  return *all;
}

std::recursive_mutex &fakecuda::lock() {
  static std::recursive_mutex all;
  return all;
}

ContextStack &fakecuda::contextStack() {
  static thread_local ContextStack stack;
  return stack;
}

Context *State::context(int device) {
  while (contexts.size() <= size_t(device)) {
    contexts.push_back(std::make_unique<Context>());
    contexts.back()->device = int(contexts.size()) - 1;
  }
  Context *context = contexts[size_t(device)].get();
  if (!context->legacy) {
    context->legacy = std::make_shared<Stream>();
    context->legacy->context = context;
    allStreams.push_back(context->legacy);
  }
  return context;
}

Result fakecuda::findWords(const std::map<std::string, Result> &codes,
                           const std::string &text) {
  for (auto &[words, code] : codes)
    if (text.find(words) != std::string::npos)
      return code;
  return 0;
}

uint64_t State::next() {
  uint64_t z = random += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Call::Call(const char *name, unsigned needs)
    : held((checkCallback(name), lock())) {
  State &s = state();
  ++s.calls[name];
  bool init = strcmp(name, "cuInit") == 0;
  if ((needs & Init) && (init ? owner && owner != getpid() : owner != getpid()))
    error = NotInitialised;
  if (!error)
    error = failureOf(s, name);
  if (init && !error)
    owner = getpid();
  if (error || !(needs & (Current | Safe)))
    return;
  ContextStack &stack = contextStack();
  context = stack.empty() ? nullptr : stack.back();
  if (needs & Current) {
    error = !context             ? InvalidContext
            : !context->retained ? ContextDestroyed
                                 : context->sticky;
    if (error)
      return;
  }
  if (needs & Safe)
    error = checkSafe();
  if (!error)
    progress();
}

Entry::Entry(const char *name, int since, void *function) {
  functions()[name] = {since, function};
}

extern "C" {

int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t,
                        int *found) {
  std::lock_guard<std::recursive_mutex> held(lock());
  *out = nullptr;
  auto one = functions().find(name);
  // From these versions on the name means a function with other parameters.
  static const std::map<std::string, int> ends = {
      {"cuStreamGetCaptureInfo", 12030},
      {"cuCtxGetDevice", 13000},
      {"cuCtxSynchronize", 13000}};
  auto end = ends.find(name);
  bool exists = one != functions().end() && !state().missing.count(name) &&
                (end == ends.end() || version < end->second);
  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, _VERSION_NOT_SUFFICIENT; no error.
  int why = !exists ? 1 : version < one->second.since ? 2 : 0;
  if (found)
    *found = why;
  if (!why)
    *out = one->second.function;
  return 0;
}

void fakecuda_reset(void) {
  std::lock_guard<std::recursive_mutex> held(lock());
  contextStack().clear();
  State &s = state();
  for (auto &stream : s.allStreams)
    stream->tasks.clear();
  // Other threads may have contexts on their stacks: these stay where they are.
  auto contexts = std::move(s.contexts);
  for (auto &context : contexts) {
    int device = context->device;
    *context = Context();
    context->device = device;
  }
  s = State();
  s.contexts = std::move(contexts);
  forgetMemory();
  forgetCallbacks();
}

void fakecuda_forget(void) {
  std::lock_guard<std::recursive_mutex> held(lock());
  State &s = state();
  State fresh;
  s.settings = fresh.settings;
  s.random = fresh.random;
  s.failures = fresh.failures;
  s.missing = fresh.missing;
  s.jitLog.clear();
  s.name = fresh.name;
  s.refused.clear();
  s.lacking.clear();
  s.images.clear();
  s.onLaunch = nullptr;
  s.calls.clear();
  s.launches.clear();
  s.executed = s.overlapped = s.instructions = s.waits = 0;
  s.lastFault.clear();
  s.lastPtx.clear();
}

int fakecuda_set(const char *name, int64_t value) {
  std::lock_guard<std::recursive_mutex> held(lock());
  auto found = state().settings.find(name);
  if (found == state().settings.end())
    return -1;
  found->second = value;
  if (strcmp(name, "seed") == 0)
    state().random = uint64_t(value);
  return 0;
}

int64_t fakecuda_get(const char *name) {
  std::lock_guard<std::recursive_mutex> held(lock());
  State &s = state();
  std::string what = name;
  if (what == "alive")
    return int64_t(liveAllocations() + s.events.size() + s.modules.size() +
                   s.streams.size() + s.graphs.size() + s.executables.size()) +
           UserObject::alive + s.linking;
  if (what == "launches")
    return s.executed;
  if (what == "overlapped")
    return s.overlapped;
  if (what == "instructions")
    return s.instructions;
  if (what == "waits")
    return s.waits;
  if (what == "pending")
    return int64_t(pending());
  auto found = s.settings.find(what);
  return found == s.settings.end() ? -1 : found->second;
}

void fakecuda_fail(const char *function, int code, int64_t nth, int64_t times) {
  std::lock_guard<std::recursive_mutex> held(lock());
  if (!function)
    state().failures.clear();
  else if (!code)
    state().failures.erase(function);
  else
    state().failures[function] = {{code, nth - 1, times}};
}

void fakecuda_missing(const char *function) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().missing.insert(function);
}

void fakecuda_jit_log(const char *words) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().jitLog = words;
}

void fakecuda_name(const char *device) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().name = device;
}

void fakecuda_refuse(const char *words, int code) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().refused[words] = code;
}

void fakecuda_lack(const char *words, int code) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().lacking[words] = code;
}

const char *fakecuda_image(size_t index) {
  std::lock_guard<std::recursive_mutex> held(lock());
  auto &images = state().images;
  return index < images.size() ? images[index].c_str() : nullptr;
}

void fakecuda_clear_images(void) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().images.clear();
}

int64_t fakecuda_calls(const char *function) {
  std::lock_guard<std::recursive_mutex> held(lock());
  int64_t total = 0;
  for (auto &[name, count] : state().calls)
    if (!function || name == function)
      total += count;
  return total;
}

void fakecuda_clear_calls(void) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().calls.clear();
}

const char *fakecuda_called(size_t index) {
  std::lock_guard<std::recursive_mutex> held(lock());
  if (index >= state().calls.size())
    return nullptr;
  return std::next(state().calls.begin(), ptrdiff_t(index))->first.c_str();
}

const char *fakecuda_fault(void) { return state().lastFault.c_str(); }

const char *fakecuda_ptx(void) { return state().lastPtx.c_str(); }

int64_t fakecuda_retained(int device) {
  std::lock_guard<std::recursive_mutex> held(lock());
  return state().context(device)->retained;
}

void fakecuda_drain(void) {
  std::lock_guard<std::recursive_mutex> held(lock());
  drain();
}

int fakecuda_map(const void *address, uint64_t bytes) {
  return fakecuda_map_device(address, bytes, -1);
}

int fakecuda_map_device(const void *address, uint64_t bytes, int device) {
  std::lock_guard<std::recursive_mutex> held(lock());
  return mapRange(uint64_t(address), bytes, device);
}

int fakecuda_unmap(const void *address) {
  std::lock_guard<std::recursive_mutex> held(lock());
  return unmapRange(uint64_t(address));
}

} // extern "C"

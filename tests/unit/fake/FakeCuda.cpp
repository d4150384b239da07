// The functions of DriverTable.def over the state in FakeCuda.h.
#include "FakeCuda.h"
#include "FakeLink.h"
#include "altgrad/bundle.h"
#include "cuda/Driver.h"

#include <cstdlib>
#include <cstring>

using namespace altgrad::runtime;

static FakeCuda state;

extern "C" __attribute__((visibility("default"))) FakeCuda *fakeCuda() {
  return &state;
}

namespace {

// Counts the call and returns the error it was told to.
int enter(const char *name) {
  ++state.calls[name];
  auto failure = state.failures.find(name);
  return failure == state.failures.end() ? 0 : failure->second;
}

int errorOf(const std::map<std::string, int> &errors, const std::string &text) {
  for (const auto &[words, error] : errors)
    if (text.find(words) != std::string::npos)
      return error;
  return 0;
}

#define ENTER(name)                                                            \
  if (int error = enter(#name))                                                \
    return error;
#define ENTER_CONTEXT(name)                                                    \
  ENTER(name)                                                                  \
  if (state.contexts.empty())                                                  \
    return 201;

struct Recorded {
  bool done = true;
};

Result cuGetErrorName(Result error, const char **out) {
  *out = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return 0;
}
Result cuGetErrorString(Result, const char **out) {
  *out = "as the test wants";
  return 0;
}
Result cuInit(unsigned) {
  if (const char *error = getenv("FAKE_CUDA_INIT"))
    return atoi(error);
  return enter("cuInit");
}
Result cuDriverGetVersion(int *out) {
  *out = state.version;
  return 0;
}
Result cuDeviceGetCount(int *out) {
  ENTER(cuDeviceGetCount)
  *out = state.devices;
  return 0;
}
Result cuDeviceGet(Device *out, int ordinal) {
  ENTER(cuDeviceGet)
  *out = ordinal;
  return 0;
}
Result cuDeviceGetAttribute(int *out, int attribute, Device) {
  ENTER(cuDeviceGetAttribute)
  *out = attribute == attributeMajor   ? state.capability / 10
         : attribute == attributeMinor ? state.capability % 10
                                       : state.processors;
  return 0;
}
Result cuDevicePrimaryCtxRetain(Context *out, Device device) {
  ENTER(cuDevicePrimaryCtxRetain)
  ++state.retained[device];
  *out = (Context)(uint64_t(device) + 1);
  return 0;
}
Result cuDevicePrimaryCtxRelease(Device device) {
  --state.retained[device];
  return 0;
}
Result cuCtxGetCurrent(Context *out) {
  ENTER(cuCtxGetCurrent)
  *out = (Context)(state.contexts.empty() ? 0 : state.contexts.back());
  return 0;
}
Result cuCtxGetDevice(Device *out) {
  ENTER_CONTEXT(cuCtxGetDevice)
  *out = int(state.contexts.back()) - 1;
  return 0;
}
Result cuCtxPushCurrent(Context context) {
  ENTER(cuCtxPushCurrent)
  state.contexts.push_back(uint64_t(context));
  return 0;
}
Result cuCtxPopCurrent(Context *) {
  ENTER_CONTEXT(cuCtxPopCurrent)
  state.contexts.pop_back();
  return 0;
}
Result cuModuleLoadDataEx(Module *out, const void *text, unsigned count,
                          int *options, void **values) {
  state.images.push_back(static_cast<const char *>(text));
  if (state.images.back().rfind("cubin", 0) != 0)
    state.ptx = state.images.back();
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == jitErrorLog)
      strcpy(static_cast<char *>(values[i]), state.jitLog.c_str());
  ENTER_CONTEXT(cuModuleLoadDataEx)
  if (int error = errorOf(state.refused, state.images.back()))
    return error;
  ++state.alive;
  *out = (Module) new std::string(state.images.back());
  return 0;
}
Result cuModuleUnload(Module module) {
  ENTER_CONTEXT(cuModuleUnload)
  --state.alive;
  delete (std::string *)module;
  return 0;
}
Result cuModuleGetFunction(Function *out, Module module, const char *name) {
  ENTER_CONTEXT(cuModuleGetFunction)
  if (int error = errorOf(state.lacking, *(std::string *)module))
    return error;
  static std::set<std::string> names;
  *out = (Function)names.insert(name).first->c_str();
  return 0;
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, Function, int,
                                                   size_t) {
  ENTER_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
  *out = state.occupancy;
  return 0;
}
Result cuMemAlloc(DevicePointer *out, size_t size) {
  ENTER_CONTEXT(cuMemAlloc)
  ++state.alive;
  *out = DevicePointer(calloc(1, size));
  return 0;
}
Result cuMemFree(DevicePointer pointer) {
  ENTER_CONTEXT(cuMemFree)
  state.drain(); // the driver waits, too
  --state.alive;
  free((void *)pointer);
  return 0;
}
Result cuMemHostAlloc(void **out, size_t size, unsigned) {
  ENTER_CONTEXT(cuMemHostAlloc)
  ++state.alive;
  *out = calloc(1, size);
  return 0;
}
Result cuMemFreeHost(void *pointer) {
  ENTER_CONTEXT(cuMemFreeHost)
  --state.alive;
  free(pointer);
  return 0;
}
Result cuMemcpyHtoDAsync(DevicePointer to, const void *from, size_t size,
                         CudaStream) {
  ENTER_CONTEXT(cuMemcpyHtoDAsync)
  state.queue.push_back([=] { memcpy((void *)to, from, size); });
  return 0;
}
Result cuStreamIsCapturing(CudaStream, int *out) {
  ENTER_CONTEXT(cuStreamIsCapturing)
  *out = state.capturing;
  return 0;
}
Result cuStreamWaitEvent(CudaStream, Event, unsigned) {
  ENTER_CONTEXT(cuStreamWaitEvent)
  return 0;
}
Result cuEventCreate(Event *out, unsigned) {
  ENTER_CONTEXT(cuEventCreate)
  ++state.alive;
  *out = (Event) new Recorded;
  return 0;
}
Result cuEventDestroy(Event event) {
  ENTER_CONTEXT(cuEventDestroy)
  state.drain();
  --state.alive;
  delete (Recorded *)event;
  return 0;
}
Result cuEventRecord(Event event, CudaStream) {
  ENTER_CONTEXT(cuEventRecord)
  ((Recorded *)event)->done = false;
  state.queue.push_back([=] { ((Recorded *)event)->done = true; });
  return 0;
}
Result cuEventSynchronize(Event event) {
  ENTER_CONTEXT(cuEventSynchronize)
  if (!((Recorded *)event)->done)
    state.drain();
  return 0;
}
Result cuLaunchKernel(Function function, unsigned grid, unsigned, unsigned,
                      unsigned block, unsigned, unsigned, unsigned,
                      CudaStream stream, void **parameters, void **) {
  ENTER_CONTEXT(cuLaunchKernel)
  FakeLaunch launch{(const char *)function, grid, block, stream, {}};
  for (size_t i = 0; i < sizeof(altgrad_args) / 8 + 2; ++i)
    launch.arguments.push_back(*(uint64_t *)parameters[i]);
  state.launches.push_back(launch);
  state.queue.push_back([=] {
    if (state.onLaunch)
      state.onLaunch(launch);
  });
  return 0;
}

} // namespace

extern "C" __attribute__((visibility("default"))) Result cuGetProcAddress_v2(
    const char *name, void **out, int version, uint64_t, int *found) {
  *out = nullptr;
  *found = 1;
  if (version != 11030 || state.missing.count(name) ||
      (getenv("FAKE_CUDA_MISSING") &&
       !strcmp(getenv("FAKE_CUDA_MISSING"), name)))
    return 500;
#define ALTGRAD_DRIVER(symbol, ...)                                            \
  if (strcmp(name, #symbol) == 0)                                              \
    *out = (void *)&symbol;
#include "cuda/DriverTable.def"
  *found = *out ? 0 : 1;
  return 0;
}

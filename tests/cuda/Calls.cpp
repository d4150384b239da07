// Devices, contexts, modules and memory: the functions that give nothing to a
// stream.
#include "Fake.h"

#include <algorithm>
#include <cstring>

using namespace fakecuda;

namespace {

struct Named {
  Result code;
  const char *name, *words;
} const errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
     "PTX JIT compiler library not found"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT",
     "the launch timed out and was terminated"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on global/shared address space"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking "
     "stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another "
     "thread"}};

const Named *look(Result code) {
  for (const Named &error : errors)
    if (error.code == code)
      return &error;
  return nullptr;
}

bool isDevice(int device) {
  return device >= 0 && device < state().get("devices");
}

Context *known(void *handle) {
  for (auto &context : state().contexts)
    if (context.get() == handle)
      return context.get();
  return nullptr;
}

} // namespace

CU(cuGetErrorName, 6000, Result error, const char **out) {
  ENTER(0)
  const Named *found = look(error);
  *out = found ? found->name : nullptr;
  return found ? 0 : InvalidValue;
}

CU(cuGetErrorString, 6000, Result error, const char **out) {
  ENTER(0)
  const Named *found = look(error);
  *out = found ? found->words : nullptr;
  return found ? 0 : InvalidValue;
}

CU(cuInit, 2000, unsigned flags) {
  ENTER(Init)
  return flags ? InvalidValue : state().get("devices") ? 0 : NoDevice;
}

CU(cuDriverGetVersion, 2020, int *out) {
  ENTER(0)
  *out = int(state().get("driver"));
  return 0;
}

CU(cuDeviceGetCount, 2000, int *out) {
  ENTER(Init)
  *out = int(state().get("devices"));
  return 0;
}

CU(cuDeviceGet, 2000, int *out, int ordinal) {
  ENTER(Init)
  if (!isDevice(ordinal))
    return InvalidDevice;
  *out = ordinal;
  return 0;
}

CU(cuDeviceGetName, 2000, char *out, int size, int device) {
  ENTER(Init)
  if (!isDevice(device))
    return InvalidDevice;
  snprintf(out, size_t(size), "%s", state().name.c_str());
  return 0;
}

CU(cuDeviceTotalMem, 3020, size_t *out, int device) {
  ENTER(Init)
  if (!isDevice(device))
    return InvalidDevice;
  *out = size_t(state().get("memory"));
  return 0;
}

CU(cuDeviceGetAttribute, 2000, int *out, int attribute, int device) {
  ENTER(Init)
  if (!isDevice(device))
    return InvalidDevice;
  int capability = int(state().get("capability"));
  const std::map<int, int> values = {{1, 1024},
                                     {2, 1024},
                                     {3, 1024},
                                     {4, 64},
                                     {8, 49152},
                                     {10, 32},
                                     {12, 65536},
                                     {16, int(state().get("processors"))},
                                     {39, 2048},
                                     {41, 1},
                                     {75, capability / 10},
                                     {76, capability % 10},
                                     {82, 65536},
                                     {106, 32},
                                     {115, 1}};
  auto found = values.find(attribute);
  if (found == values.end()) {
    fprintf(stderr, "fakecuda: no value for device attribute %d\n", attribute);
    return InvalidValue;
  }
  *out = found->second;
  return 0;
}

CU(cuDevicePrimaryCtxRetain, 7000, void **out, int device) {
  ENTER(Init)
  if (!isDevice(device))
    return InvalidDevice;
  Context *context = state().context(device);
  ++context->retained;
  *out = context;
  return 0;
}

CU(cuDevicePrimaryCtxRelease, 7000, int device) {
  ENTER(Init)
  if (!isDevice(device))
    return InvalidDevice;
  Context *context = state().context(device);
  if (!context->retained)
    return InvalidContext;
  if (--context->retained == 0) {
    waitForContext(*context);
    context->sticky = 0;
  }
  return 0;
}

CU(cuCtxGetCurrent, 4000, void **out) {
  ENTER(Init)
  *out = contextStack().empty() ? nullptr : contextStack().back();
  return 0;
}

CU(cuCtxSetCurrent, 4000, void *handle) {
  ENTER(Init)
  if (handle && !known(handle))
    return InvalidContext;
  if (!contextStack().empty())
    contextStack().pop_back();
  if (handle)
    contextStack().push_back(known(handle));
  return 0;
}

CU(cuCtxPushCurrent, 4000, void *handle) {
  ENTER(Init)
  if (!known(handle))
    return InvalidContext;
  contextStack().push_back(known(handle));
  return 0;
}

CU(cuCtxPopCurrent, 4000, void **out) {
  ENTER(Init)
  if (contextStack().empty())
    return InvalidContext;
  if (out)
    *out = contextStack().back();
  contextStack().pop_back();
  return 0;
}

CU(cuCtxGetDevice, 2000, int *out) {
  ENTER(Init)
  if (contextStack().empty())
    return InvalidContext;
  *out = contextStack().back()->device;
  return 0;
}

CU(cuCtxSynchronize, 2000) {
  ENTER(Init | Current)
  for (auto &stream : state().allStreams)
    if (stream->capture && stream->context == call.context) {
      invalidate(*stream->capture);
      return CaptureUnsupported;
    }
  waitForContext(*call.context);
  return call.context->sticky;
}

CU(cuMemAlloc, 3020, uint64_t *out, size_t bytes) {
  ENTER(Init | Current | Safe)
  return allocate(bytes, call.context->device, *out);
}

CU(cuMemFree, 3020, uint64_t pointer) {
  ENTER(Init | Current | Safe)
  if (!pointer)
    return 0;
  waitForContext(*call.context);
  if (call.context->sticky)
    return call.context->sticky;
  return release(pointer, call.context->device) ? 0 : InvalidValue;
}

CU(cuMemHostAlloc, 2020, void **out, size_t bytes, unsigned) {
  ENTER(Init | Current | Safe)
  uint64_t address = 0;
  Result error = allocate(bytes, -1, address);
  *out = (void *)address;
  return error;
}

// Nothing promises that this waits.
CU(cuMemFreeHost, 2000, void *pointer) {
  ENTER(Init | Current | Safe)
  return release(uint64_t(pointer), -1) ? 0 : InvalidValue;
}

// The CUDA driver, opened when a GPU is asked for and never before.
#ifndef ALTGRAD_RUNTIME_DRIVER_H
#define ALTGRAD_RUNTIME_DRIVER_H

#include "altgrad/altgrad.h"

#include <cstddef>
#include <cstdint>

namespace altgrad::runtime {

using Result = int;
using Device = int;
using DevicePointer = uint64_t;
using Context = struct ContextOpaque *;
using Module = struct ModuleOpaque *;
using Function = struct FunctionOpaque *;
using CudaStream = struct StreamOpaque *;
using Event = struct EventOpaque *;
using LinkState = struct LinkOpaque *;
using Graph = struct GraphOpaque *;
using UserObject = struct UserObjectOpaque *;

// What cuda.h calls CUDA_ERROR_..., CU_DEVICE_ATTRIBUTE_... and so on.
enum : int {
  errorOutOfMemory = 2,
  errorStub = 34,
  errorNoDevice = 100,
  errorNoBinary = 209,
  errorInvalidPtx = 218,
  errorNoJitCompiler = 221,
  errorPtxVersion = 222,
  attributeProcessors = 16,
  attributeMajor = 75,
  attributeMinor = 76,
  functionDynamicShared = 8, // the most bytes that a launch may ask for
  jitErrorLog = 5,
  jitErrorLogBytes = 6,
  jitInputPtx = 1,
  eventWithoutTiming = 2,
  attributeOverlaps = 6, // PROGRAMMATIC_STREAM_SERIALIZATION of a launch
  externalEvent = 1,     // of a record and of a wait: a node of a captured graph
  captureRelaxed = 2,
  userObjectUnordered = 1, // NO_DESTRUCTOR_SYNC
  userObjectMove = 1,      // the graph takes over the caller's reference
  streamNonBlocking = 1,
  hostPortable = 1
};

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id, padding = 0;
  int value, rest[15] = {};
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  CudaStream stream;
  const LaunchAttribute *attributes;
  unsigned count;
};

struct Driver {
#define ALTGRAD_DRIVER(name, ...) Result (*name)(__VA_ARGS__);
#include "cuda/DriverTable.def"
#undef ALTGRAD_DRIVER
  // Of CUDA 11.6; null where the driver is older.
  Result (*cuLaunchKernelEx)(const LaunchConfig *, Function, void **, void **) = nullptr;

  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)" by the driver's own words.
  altgrad_status refuse(Result error, const char *what) const;
};

// ALTGRAD_OK with the driver, initialised; ALTGRAD_UNAVAILABLE with words.
altgrad_status openDriver(const Driver *&out);

// Whether this process is a child of the one that opened the driver: CUDA does
// not survive fork.
bool driverIsParents();

// Makes a context current for a scope.
class Entered {
public:
  // `again`: even where it is current. Somebody else's function may set another
  // context, which then takes the place of this one and not of the one below.
  Entered(const Driver &driver, Context context, bool again = false);
  Entered(const Entered &) = delete;
  ~Entered();
  Result error = 0;

private:
  const Driver &driver;
  bool pushed = false;
};

// While somebody captures, this thread may allocate and copy beside the capture
// in a scope.
class RelaxedCapture {
public:
  explicit RelaxedCapture(const Driver &driver) : driver(driver) {
    exchanged = driver.cuThreadExchangeStreamCaptureMode(&mode) == 0;
  }
  RelaxedCapture(const RelaxedCapture &) = delete;
  ~RelaxedCapture() {
    if (exchanged)
      driver.cuThreadExchangeStreamCaptureMode(&mode);
  }

private:
  const Driver &driver;
  int mode = captureRelaxed;
  bool exchanged;
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_DRIVER_H

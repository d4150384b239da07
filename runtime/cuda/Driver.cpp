// Opens libcuda.so.1 and fills the table of its functions.
#include "cuda/Driver.h"
#include "Status.h"

#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr int tableVersion = 11030;

// Errors after which a context answers nothing else.
bool poisons(Result error) { return error == 700 || error == 702 || (error >= 710 && error <= 719); }

// The first four parameters are those of both versions of the function.
using GetProcAddress = Result (*)(const char *, void **, int, uint64_t, void *);

Driver table;                // whole once there is an owner
std::atomic<pid_t> owner{0}; // the process that has opened it; 0: none
std::mutex lock;

altgrad_status loadTable(void *library) {
  void *address = dlsym(library, "cuGetProcAddress_v2");
  if (!address)
    address = dlsym(library, "cuGetProcAddress");
  if (!address)
    return fail(ALTGRAD_UNAVAILABLE, "the NVIDIA driver is older than CUDA 11.3 (libcuda.so.1 has "
                                     "no cuGetProcAddress); the CPU target still works");
  auto find = GetProcAddress(address);
  int found = 0; // CU_GET_PROC_ADDRESS_SUCCESS
#define ALTGRAD_DRIVER(name, ...)                                                                                      \
  address = nullptr;                                                                                                   \
  if (find(#name, &address, tableVersion, 0, &found) != 0 || !address)                                                 \
    return fail(ALTGRAD_UNAVAILABLE, "the NVIDIA driver has no " #name "; the CPU target still works");                \
  table.name = reinterpret_cast<Result (*)(__VA_ARGS__)>(address);
#include "cuda/DriverTable.def"
#undef ALTGRAD_DRIVER
  constexpr int launchKernelEx = 11060;
  address = nullptr;
  if (find("cuLaunchKernelEx", &address, launchKernelEx, 0, &found) != 0)
    address = nullptr;
  table.cuLaunchKernelEx = reinterpret_cast<decltype(table.cuLaunchKernelEx)>(address);
  return ALTGRAD_OK;
}

altgrad_status initialise() {
  Result error = table.cuInit(0);
  if (error == 0)
    return ALTGRAD_OK;
  if (error == errorStub)
    return fail(ALTGRAD_UNAVAILABLE, "libcuda.so.1 is the CUDA toolkit's stub, not a driver; the "
                                     "CPU target still works");
  if (error == errorNoDevice)
    return fail(ALTGRAD_UNAVAILABLE, "the NVIDIA driver sees no GPU; the CPU target still works");
  table.refuse(error, "cuInit");
  return ALTGRAD_UNAVAILABLE;
}

} // namespace

altgrad_status Driver::refuse(Result error, const char *what) const {
  const char *name = nullptr, *words = nullptr;
  if (cuGetErrorName(error, &name) != 0 || !name)
    name = "unknown error";
  if (cuGetErrorString(error, &words) != 0 || !words)
    words = "no words";
  return fail(ALTGRAD_CUDA, "%s: %s %d (%s)%s", what, name, error, words,
              poisons(error) ? "; the CUDA context is lost, the process must "
                               "start again"
                             : "");
}

bool altgrad::runtime::driverIsParents() {
  const pid_t known = owner;
  return known && known != getpid();
}

altgrad_status altgrad::runtime::openDriver(const Driver *&out) {
  if (driverIsParents())
    return fail(ALTGRAD_UNAVAILABLE, "this process was forked after CUDA was started; start "
                                     "workers with spawn, or use CUDA in them only");
  std::lock_guard<std::mutex> held(lock);
  if (!owner) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return fail(ALTGRAD_UNAVAILABLE, "no NVIDIA driver found (libcuda.so.1); "
                                       "the CPU target still works");
    altgrad_status status = loadTable(library);
    if (status == ALTGRAD_OK)
      status = initialise();
    if (status != ALTGRAD_OK) {
      dlclose(library);
      return status;
    }
    owner = getpid();
  }
  out = &table;
  return ALTGRAD_OK;
}

Entered::Entered(const Driver &driver, Context context, bool again) : driver(driver) {
  Context current = nullptr;
  error = driver.cuCtxGetCurrent(&current);
  if (error == 0 && (again || current != context)) {
    error = driver.cuCtxPushCurrent(context);
    pushed = error == 0;
  }
}

Entered::~Entered() {
  Context ignored;
  if (pushed)
    driver.cuCtxPopCurrent(&ignored);
}

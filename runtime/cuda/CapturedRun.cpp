// Hands what a captured run uses to its graph, and takes it back.
#include "cuda/CapturedRun.h"
#include "Status.h"

#include <atomic>

using namespace altgrad::runtime;

namespace {

// The driver's reference to a run. Those that it has let go of are a list,
// because its thread may not wait for a lock that is held around its calls.
struct Reference {
  std::shared_ptr<CapturedRun> run;
  Reference *next = nullptr;
};
std::atomic<Reference *> released{nullptr};

void letGo(void *given) {
  auto *reference = static_cast<Reference *>(given);
  reference->next = released.load();
  while (!released.compare_exchange_weak(reference->next, reference)) {
  }
}

} // namespace

CapturedRun::~CapturedRun() {
  {
    Entered entered(gpu->driver, gpu->context);
    RelaxedCapture relaxed(gpu->driver);
    if (entered.error == 0)
      held.giveBack(last);
    kernels.reset();
    last.reset();
  }
  for (const HeldMemory &one : kept)
    one.release(one.memory);
}

altgrad_status CapturedRun::fill(const Tables &tables) {
  if (altgrad_status status = held.reserve(tables, nullptr))
    return status;
  CudaStream copies = nullptr;
  if (altgrad_status status = gpu->copyStream(copies))
    return status;
  unsigned all = ~0u;
  if (altgrad_status status = held.upload(tables, copies, all))
    return status;
  return held.wait();
}

altgrad_status CapturedRun::keep(const Owner &owner) {
  if (!owner.hold)
    return ALTGRAD_OK;
  kept.reserve(kept.size() + 1);
  void *memory = owner.hold(owner.context);
  if (!memory)
    return fail(ALTGRAD_SYSTEM, "the owner of a plan keeps no memory for a captured graph");
  kept.push_back({memory, owner.release});
  return ALTGRAD_OK;
}

altgrad_status altgrad::runtime::keepWithGraph(const Driver &driver, Graph graph, std::shared_ptr<CapturedRun> run) {
  auto reference = std::make_unique<Reference>();
  reference->run = std::move(run);
  UserObject object = nullptr;
  if (Result error = driver.cuUserObjectCreate(&object, reference.get(), letGo, 1, userObjectUnordered))
    return driver.refuse(error, "keeping tables with a captured graph");
  reference.release(); // the object's
  if (Result error = driver.cuGraphRetainUserObject(graph, object, 1, userObjectMove)) {
    altgrad_status status = driver.refuse(error, "keeping tables with a captured graph");
    driver.cuUserObjectRelease(object, 1);
    return status;
  }
  return ALTGRAD_OK;
}

void altgrad::runtime::destroyReleased() {
  if (!released.load() || driverIsParents())
    return;
  for (Reference *one = released.exchange(nullptr); one;) {
    std::unique_ptr<Reference> gone(one);
    one = gone->next;
  }
}

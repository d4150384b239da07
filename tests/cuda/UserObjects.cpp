// Objects that graphs keep, and the thread in which the driver lets go of them.
#include "Fake.h"

using namespace fakecuda;

namespace {

// Whose callbacks are still to run.
std::vector<std::pair<void (*)(void *), void *>> &gone() {
  static auto *all = new std::vector<std::pair<void (*)(void *), void *>>;
  return *all;
}

thread_local bool inCallback = false;

std::shared_ptr<Graph> graphOf(void *handle) {
  if (auto graph = look(state().graphs, handle))
    return graph;
  for (auto &capture : state().captures)
    if (capture->graph.get() == handle)
      return capture->graph;
  return nullptr;
}

} // namespace

UserObject::~UserObject() {
  --alive;
  gone().emplace_back(destroy, pointer);
}

// CUDA's thread for this may not call the driver.
void fakecuda::checkCallback(const char *name) {
  if (!inCallback)
    return;
  fprintf(stderr, "fakecuda: %s in the destructor of a user object\n", name);
  abort();
}

void fakecuda::runCallbacks() {
  auto all = std::move(gone());
  gone().clear();
  if (all.empty())
    return;
  std::thread([&all] {
    inCallback = true;
    for (auto &[destroy, pointer] : all)
      destroy(pointer);
  }).join();
}

void fakecuda::forgetCallbacks() { gone().clear(); }

CU(cuUserObjectCreate, 11030, void **out, void *pointer, void (*destroy)(void *),
   unsigned count, unsigned flags) {
  ENTER(Init | Current)
  if (!out || !destroy || count == 0 || flags != 1) // NO_DESTRUCTOR_SYNC
    return InvalidValue;
  auto object = std::make_shared<UserObject>();
  object->pointer = pointer;
  object->destroy = destroy;
  *out = object.get();
  state().userObjects[*out] = {object, count};
  return 0;
}

CU(cuUserObjectRelease, 11030, void *handle, unsigned count) {
  ENTER(Init)
  auto found = state().userObjects.find(handle);
  if (found == state().userObjects.end() || found->second.second < count)
    return InvalidValue;
  if (!(found->second.second -= count))
    state().userObjects.erase(found);
  runCallbacks();
  return 0;
}

CU(cuGraphRetainUserObject, 11030, void *handle, void *object, unsigned count,
   unsigned flags) {
  ENTER(Init | Current)
  auto graph = graphOf(handle);
  auto found = state().userObjects.find(object);
  constexpr unsigned move = 1;
  if (!graph || found == state().userObjects.end() || count == 0 || flags > move)
    return InvalidValue;
  if (flags == move && found->second.second < count)
    return InvalidValue;
  graph->kept.push_back(found->second.first);
  if (flags == move && !(found->second.second -= count))
    state().userObjects.erase(found);
  return 0;
}

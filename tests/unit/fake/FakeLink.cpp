// The functions of the fake driver that link PTX.
#include "FakeLink.h"
#include "FakeCuda.h"

#include <cstring>

using namespace altgrad::runtime;

extern "C" FakeCuda *fakeCuda();

namespace {

struct Linking {
  std::string text, cubin;
};

int enter(const char *name) {
  FakeCuda &state = *fakeCuda();
  ++state.calls[name];
  auto failure = state.failures.find(name);
  if (failure != state.failures.end())
    return failure->second;
  return state.contexts.empty() ? 201 : 0;
}

} // namespace

Result cuDeviceGetName(char *out, int size, Device) {
  if (fakeCuda()->failures.count("cuDeviceGetName"))
    return fakeCuda()->failures["cuDeviceGetName"];
  strncpy(out, fakeCuda()->name.c_str(), size_t(size));
  return 0;
}

Result cuLinkCreate(unsigned, int *, void **, LinkState *out) {
  if (int error = enter("cuLinkCreate"))
    return error;
  ++fakeCuda()->alive;
  *out = (LinkState) new Linking;
  return 0;
}

Result cuLinkAddData(LinkState state, int type, void *data, size_t size,
                     const char *, unsigned, int *, void **) {
  if (int error = enter("cuLinkAddData"))
    return error;
  const char *text = static_cast<const char *>(data);
  if (type != jitInputPtx || size != strlen(text) + 1)
    return 1;
  ((Linking *)state)->text = fakeCuda()->ptx = text;
  return 0;
}

Result cuLinkComplete(LinkState state, void **out, size_t *size) {
  if (int error = enter("cuLinkComplete"))
    return error;
  auto &linking = *(Linking *)state;
  linking.cubin = "cubin of " + linking.text;
  *out = linking.cubin.data();
  *size = linking.cubin.size() + 1;
  return 0;
}

Result cuLinkDestroy(LinkState state) {
  enter("cuLinkDestroy");
  --fakeCuda()->alive;
  delete (Linking *)state;
  return 0;
}

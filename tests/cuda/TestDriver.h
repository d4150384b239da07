// Calls of the test driver's functions, as a program finds them: by name.
#ifndef ALTGRAD_TESTS_TESTDRIVER_H
#define ALTGRAD_TESTS_TESTDRIVER_H

#include "fakecuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// cu("cuMemAlloc", &pointer, size_t(64)); arguments have the function's types.
template <class... Arguments> int cu(const char *name, Arguments... arguments) {
  void *function = nullptr;
  if (cuGetProcAddress_v2(name, &function, 12000, 0, nullptr) || !function) {
    fprintf(stderr, "no function %s\n", name);
    abort();
  }
  return reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
}

inline void *cuPrimaryContext(int device = 0) {
  void *context = nullptr;
  cu("cuInit", 0u);
  cu("cuDevicePrimaryCtxRetain", &context, device);
  return context;
}

inline void *cuNewStream(unsigned flags = 1) { // non-blocking, as torch's are
  void *stream = nullptr;
  cu("cuStreamCreate", &stream, flags);
  return stream;
}

inline fakecuda_launch cuLaunchAt(size_t index) {
  fakecuda_launch launch{};
  fakecuda_launch_at(index, &launch);
  return launch;
}

inline size_t cuLaunchCount() {
  size_t count = 0;
  for (fakecuda_launch launch; fakecuda_launch_at(count, &launch);)
    ++count;
  return count;
}

#endif

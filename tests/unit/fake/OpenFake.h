// The fake driver of this process.
#ifndef ALTGRAD_TESTS_OPENFAKE_H
#define ALTGRAD_TESTS_OPENFAKE_H

#include "FakeCuda.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

inline FakeCuda &fake() {
  static FakeCuda *state = [] {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto get = library ? GetFakeCuda(dlsym(library, "fakeCuda")) : nullptr;
    if (!get) {
      fprintf(stderr, "run by ctest, or with LD_LIBRARY_PATH at the fake\n");
      exit(1);
    }
    return get();
  }();
  return *state;
}

#endif // ALTGRAD_TESTS_OPENFAKE_H

// What the tests of CUDA plans share: a bundle by hand on the test driver.
#ifndef ALTGRAD_TESTS_CUDAFIXTURE_H
#define ALTGRAD_TESTS_CUDAFIXTURE_H

#include "Folder.h"
#include "Sgd.h"
#include "TestDriver.h"
#include "altgrad/bundle.h"
#include "cuda/Gpu.h"

#include <cstring>
#include <dlfcn.h>


// The hand-written bundle's host code stands in for what the PTX would do.
inline void execute(const fakecuda_launch *launch) {
  static void *code = dlopen(SGD_BUNDLE, RTLD_NOW | RTLD_LOCAL);
  auto kernel = (altgrad_host_kernel)dlsym(
      code, (std::string(launch->kernel) + "_v3").c_str());
  ASSERT_TRUE(kernel) << launch->kernel;
  altgrad_args args;
  int64_t range[2];
  ASSERT_EQ(launch->parameter_bytes, sizeof args + sizeof range);
  memcpy(&args, launch->parameters, sizeof args);
  memcpy(range, (const char *)launch->parameters + sizeof args, sizeof range);
  kernel(&args, range[0], range[1]);
}

class Cuda : public Folder {
protected:
  struct FreeGraph {
    void operator()(void *graph) const { cu("cuGraphExecDestroy", graph); }
  };
  using Graph = std::unique_ptr<void, FreeGraph>;
  // What is given to `stream` meanwhile, to be launched later.
  template <class Body> static Graph capture(void *stream, Body body) {
    void *graph = nullptr, *ready = nullptr;
    EXPECT_EQ(cu("cuStreamBeginCapture", stream, 0), 0);
    body();
    EXPECT_EQ(cu("cuStreamEndCapture", stream, &graph), 0);
    EXPECT_EQ(cu("cuGraphInstantiateWithFlags", &ready, graph, uint64_t(0)), 0);
    cu("cuGraphDestroy", graph);
    return Graph(ready);
  }
  static PlanPointer planOf(altgrad_bundle *bundle, const char *device) {
    altgrad_plan *plan = nullptr;
    EXPECT_EQ(altgrad_plan_create(bundle, device, &plan), ALTGRAD_OK)
        << altgrad_last_error();
    return PlanPointer(plan);
  }

  void SetUp() override {
    Folder::SetUp();
    start();
  }
  void start() {
    altgrad::runtime::Gpu::forgetAll();
    fakecuda_reset();
    fakecuda_set("devices", 2);
    fakecuda_on_launch(execute);
  }
  // The words of a failed plan_create in a process of its own: a driver is
  // opened once.
  std::string createWords(altgrad_status expected, const char *device) {
    EXPECT_EQ(inChild([&] {
                altgrad_plan *plan = nullptr;
                altgrad_status status =
                    altgrad_plan_create(loadSgd().get(), device, &plan);
                fprintf(stderr, "%s", status ? altgrad_last_error() : "");
                return status;
              }),
              expected);
    return printed;
  }
};

#endif // ALTGRAD_TESTS_CUDAFIXTURE_H

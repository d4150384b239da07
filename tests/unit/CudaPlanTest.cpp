// Plans on the test driver, whose launches run the compiler's PTX: the bytes of
// a CUDA plan are those of a host plan.
#include "CudaModel.h"
#include "altgrad/values.h"

#include <numeric>

namespace {

// Each run in a process of its own: the runtime keeps modules and contexts.
TEST_F(CudaPlan, BytesOfTheHostOnEveryTargetAndInEveryOrder) {
  for (const std::string &options : stepsOfUsers) {
    BundlePointer bundle = compile(options);
    for (int capability : {80, 90})
      for (int seed : {0, 1, 2, 3})
        EXPECT_EQ(inChild([&] {
                    fakecuda_set("capability", capability);
                    fakecuda_set("seed", seed);
                    fakecuda_set("races", seed == 3);
                    Model host = start(bundle.get());
                    Model device = start(bundle.get());
                    runOnHost(bundle.get(), host);
                    runOnDevice(bundle.get(), device, true);
                    device.expectBytesOf(host);
                    return int(HasFailure());
                  }),
                  0)
            << options << " sm_" << capability << " seed " << seed << "\n"
            << printed;
  }
}

// The tables of a graph are its own, and its replays and eager runs on another
// stream follow each other.
TEST_F(CudaPlan, ReplaysOfACapturedStepAmongEagerOnes) {
  BundlePointer bundle = compile(stepsOfUsers[1]);
  for (int seed : {0, 1, 2, 3, 4, 5})
    EXPECT_EQ(inChild([&] {
                fakecuda_set("seed", seed);
                Model host = start(bundle.get()), model = start(bundle.get());
                runOnHost(bundle.get(), host, {0, 0, 1, 0, 0, 2});
                PlanPointer plan = create(bundle.get(), "cuda:0");
                model.bind(plan.get());
                model.map();
                cu("cuCtxPushCurrent", cuPrimaryContext());
                void *one = cuNewStream(), *two = cuNewStream(), *graph, *ready;
                model.run(plan.get(), one);
                EXPECT_EQ(cu("cuStreamBeginCapture", one, 0), 0);
                model.run(plan.get(), one);
                EXPECT_EQ(cu("cuStreamEndCapture", one, &graph), 0);
                cu("cuGraphInstantiateWithFlags", &ready, graph, uint64_t(0));
                for (int step : {-1, 1, -1, -1, 2}) {
                  if (step < 0) {
                    EXPECT_EQ(cu("cuGraphLaunch", ready, one), 0);
                    continue;
                  }
                  model.bindStep(plan.get(), step);
                  model.run(plan.get(), two);
                }
                fakecuda_drain();
                EXPECT_STREQ(fakecuda_fault(), "");
                model.expectBytesOf(host);
                return int(HasFailure());
              }),
              0)
        << "seed " << seed << printed;
}

// A schedule's rate is in a launch's parameters: what is launched has it, whatever the host writes next.
TEST_F(CudaPlan, ChangedNumbersNeedALaunchAndNoCopy) {
  BundlePointer bundle = compile("--rule=adamw");
  for (size_t count : {1, 510, 511}) {
    EXPECT_EQ(inChild([&] {
                Model models[] = {start(bundle.get()), start(bundle.get())};
                PlanPointer plans[] = {create(bundle.get(), "cpu:v3"),
                                       create(bundle.get(), "cuda:0")};
                auto launched = [] { return fakecuda_calls("cuLaunchKernel") + fakecuda_calls("cuLaunchKernelEx"); };
                std::vector<double> rates(count, 0.5);
                void *rate = &rates.back();
                for (int i : {0, 1}) {
                  models[i].bind(plans[i].get());
                  EXPECT_EQ(altgrad_mirror(plans[i].get(), rates.data(), count * 8), ALTGRAD_OK);
                  EXPECT_EQ(altgrad_bind_scalar(plans[i].get(), "lr", &rate, 1), ALTGRAD_OK);
                }
                models[1].map();
                for (double next : {0.5, 0.5, 0.25, 0.125}) {
                  bool changes = rates.back() != next, launches = count <= ALTGRAD_VALUES;
                  rates.back() = next;
                  models[0].run(plans[0].get(), nullptr);
                  int64_t copies = fakecuda_calls("cuMemcpyHtoDAsync"),
                          kernels = launched();
                  models[1].run(plans[1].get(), nullptr);
                  EXPECT_EQ(fakecuda_calls("cuMemcpyHtoDAsync") - copies, !copies || (changes && !launches));
                  EXPECT_EQ(launched() - kernels, 2 + (changes && launches)) << next;
                }
                rates.back() = 1e9;
                fakecuda_drain();
                EXPECT_STREQ(fakecuda_fault(), "");
                models[1].expectBytesOf(models[0]);
                return int(HasFailure());
              }),
              0)
        << count << printed;
  }
}

// The host is as far ahead of the device as it likes.
TEST_F(CudaPlan, HundredsOfStepsThatNobodyWaitsFor) {
  BundlePointer bundle = compile(stepsOfUsers[0]);
  std::vector<int> all(300);
  std::iota(all.begin(), all.end(), 0);
  for (int seed : {0, 1, 2})
    EXPECT_EQ(inChild([&] {
                fakecuda_set("seed", seed);
                Model host(bundle.get(), {3, 50}, 300), device = host;
                runOnHost(bundle.get(), host, all);
                runOnDevice(bundle.get(), device, true, 300);
                device.expectBytesOf(host);
                return int(HasFailure());
              }),
              0)
        << "seed " << seed << printed;
}

TEST_F(CudaPlan, TwoDevicesAtTheSameTime) {
  BundlePointer bundle = compile(stepsOfUsers[1]);
  for (int seed : {0, 1, 2})
    EXPECT_EQ(inChild([&] {
                fakecuda_set("devices", 2);
                fakecuda_set("seed", seed);
                Model host = start(bundle.get());
                Model models[] = {host, host};
                runOnHost(bundle.get(), host);
                PlanPointer plans[] = {create(bundle.get(), "cuda:0"),
                                       create(bundle.get(), "cuda:1")};
                for (int device : {0, 1}) {
                  models[device].bind(plans[device].get());
                  models[device].map(device);
                }
                for (int step = 0; step < 5; ++step)
                  for (int device : {0, 1}) {
                    models[device].bindStep(plans[device].get(), step);
                    models[device].run(plans[device].get(), nullptr);
                  }
                fakecuda_drain();
                EXPECT_STREQ(fakecuda_fault(), "");
                for (const Model &model : models)
                  model.expectBytesOf(host);
                return int(HasFailure());
              }),
              0)
        << "seed " << seed << printed;
}

TEST_F(CudaPlan, MemoryOfTheProcessStandsForADevices) {
  BundlePointer bundle = compile(stepsOfUsers[1]);
  EXPECT_EQ(inChild([&] {
              Model host = start(bundle.get()), device = start(bundle.get());
              runOnHost(bundle.get(), host);
              fakecuda_set("host", 1);
              fakecuda_set("eager", 1);
              runOnDevice(bundle.get(), device, false);
              device.expectBytesOf(host);
              return int(HasFailure());
            }),
            0)
      << printed;
}

TEST_F(CudaPlan, MemoryNobodyKnowsIsAFaultThatStays) {
  BundlePointer bundle = compile(stepsOfUsers[0]);
  EXPECT_EQ(
      inChild([&] {
        Model model = start(bundle.get());
        PlanPointer plan = create(bundle.get(), "cuda:0");
        model.bind(plan.get());
        model.run(plan.get(), nullptr);
        fakecuda_drain();
        EXPECT_NE(strstr(fakecuda_fault(), "known to fakecuda_map"), nullptr)
            << fakecuda_fault();
        EXPECT_REFUSED(model.status(plan.get(), nullptr), ALTGRAD_CUDA,
                       "the CUDA context is lost");
        return int(HasFailure());
      }),
      0)
      << printed;
}

} // namespace

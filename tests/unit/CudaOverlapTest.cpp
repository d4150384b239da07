// Launches of one run that overlap: which ones may, which do, and that the test
// driver sees a kernel that waits too late or not at all.
#include "CudaModel.h"

namespace {

class CudaOverlap : public CudaPlan {
protected:
  // Steps of a plan, in a process of its own, give the bytes of the host.
  void expectHostBytes(altgrad_bundle *bundle, int seed, int capability) {
    fakecuda_set("seed", seed);
    fakecuda_set("capability", capability);
    Model host = start(bundle), device = start(bundle);
    runOnHost(bundle, host);
    runOnDevice(bundle, device, true);
    device.expectBytesOf(host);
  }
  // Dependent launches of five steps in a process of its own.
  template <class Body>
  int dependent(Body setUp, int capability = 90,
                const std::string &targets = "x86-64-v3,sm_80,sm_90") {
    BundlePointer bundle = compile(stepsOfUsers[1], targets);
    return inChild([&] {
      setUp();
      expectHostBytes(bundle.get(), 0, capability);
      int64_t calls = fakecuda_calls("cuLaunchKernelEx");
      EXPECT_EQ(fakecuda_get("overlapped"), calls);
      return HasFailure() ? 99 : int(calls);
    });
  }
  // What the driver says of five steps with changed PTX, or whether the bytes
  // are others.
  std::string planted(char *(*edit)(const char *), bool races) {
    BundlePointer bundle = compile(stepsOfUsers[1]);
    EXPECT_EQ(inChild([&] {
                fakecuda_set("races", races);
                fakecuda_edit(edit);
                Model host = start(bundle.get()), device = start(bundle.get());
                runOnHost(bundle.get(), host);
                PlanPointer plan = create(bundle.get(), "cuda:0");
                device.bind(plan.get());
                device.map();
                for (int step = 0; step < 5; ++step) {
                  device.bindStep(plan.get(), step);
                  if (device.status(plan.get(), nullptr) != ALTGRAD_OK)
                    break; // the context is lost
                }
                fakecuda_drain();
                if (!*fakecuda_fault() && !device.hasBytesOf(host))
                  fprintf(stderr, "other bytes");
                return int(HasFailure());
              }),
              0);
    return printed;
  }
  static std::string replaced(std::string text, const std::string &words,
                              const std::string &others) {
    for (size_t at = 0; (at = text.find(words, at)) != std::string::npos;
         at += others.size())
      text.replace(at, words.size(), others);
    return text;
  }
  static char *copied(const std::string &text) { return strdup(text.c_str()); }
  static constexpr const char *wait = "griddepcontrol.wait;",
                              *lets = "griddepcontrol.launch_dependents;";
};

// Of three launches.
TEST_F(CudaOverlap, EveryLaunchButTheFirstOfARun) {
  EXPECT_EQ(dependent([] {}), 10) << printed;
}

TEST_F(CudaOverlap, NotWithCodeThatDoesNotWaitOrADriverThatCannot) {
  EXPECT_EQ(dependent([] {}, 80), 0) << printed;
  EXPECT_EQ(dependent([] {}, 90, "x86-64-v3,sm_80"), 0) << printed;
  EXPECT_EQ(dependent([] { fakecuda_missing("cuLaunchKernelEx"); }), 0);
}

TEST_F(CudaOverlap, NotWhereItIsRefused) {
  EXPECT_EQ(dependent([] { setenv("ALTGRAD_CUDA_DEPENDENT_LAUNCH", "0", 1); }),
            0);
}

// Of 520 tensors: six launches, any two neighbours of which overlap.
TEST_F(CudaOverlap, ManySmallLaunches) {
  BundlePointer bundle = compile(stepsOfUsers[1]);
  for (int seed : {0, 1})
    EXPECT_EQ(inChild([&] {
                fakecuda_set("seed", seed);
                fakecuda_set("races", seed);
                Model host(bundle.get(), std::vector<int64_t>(520, 9), 2);
                Model device = host;
                runOnHost(bundle.get(), host, {0, 1});
                runOnDevice(bundle.get(), device, true, 2);
                device.expectBytesOf(host);
                EXPECT_EQ(fakecuda_calls("cuLaunchKernelEx"), 10);
                EXPECT_GE(fakecuda_get("overlapped"), seed ? 4 : 10);
                return int(HasFailure());
              }),
              0)
        << "seed " << seed << printed;
}

TEST_F(CudaOverlap, AKernelThatWaitsTooLateOrNotAtAllIsSeen) {
  auto same = [](const char *ptx) { return copied(ptx); };
  auto never = [](const char *ptx) { return copied(replaced(ptx, wait, "")); };
  auto late = [](const char *ptx) {
    std::string end = std::string(wait) + "\nret;";
    std::string none = replaced(replaced(ptx, wait, ""), lets, "");
    return copied(replaced(none, "ret;", end));
  };
  auto three = [](const char *ptx) {
    return copied(replaced(ptx, wait, std::string(lets) + wait));
  };
  auto has = [&](const char *words) {
    return printed.find(words) != std::string::npos;
  };
  EXPECT_EQ(planted(same, true), "");
  planted(never, true);
  EXPECT_TRUE(has("never waits for it")) << printed;
  planted(late, true);
  EXPECT_TRUE(has("is unordered with")) << printed;
  EXPECT_EQ(planted(late, false), "other bytes");
  planted(three, true);
  EXPECT_TRUE(has("three would overlap")) << printed;
}

} // namespace

// Which code of a bundle a device is given, and what becomes of cubins on disk.
#include "Folder.h"
#include "Sgd.h"
#include "compile/Cache.h"
#include "fake/OpenFake.h"

using namespace altgrad::runtime;

namespace {

const std::string ptx90 = "// ptx for sm_90\n";

class CudaModule : public Folder {
protected:
  void SetUp() override {
    Folder::SetUp();
    fake() = FakeCuda();
  }
  void TearDown() override {
    EXPECT_EQ(fake().alive, 0);
    Folder::TearDown();
  }
  // Makes a plan; what was loaded for it, and how often PTX was linked.
  std::string loaded(const char *path = SGD_BUNDLE) {
    int before = fake().calls["cuLinkComplete"];
    fake().images.clear();
    PlanPointer plan = planSgd("cuda", path);
    linked = fake().calls["cuLinkComplete"] - before;
    return fake().images.empty() ? "" : fake().images.back();
  }
  std::string onlyEntry() {
    std::vector<std::string> names = list(cache);
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : cache + "/" + names[0];
  }
  int linked = 0;
};

TEST_F(CudaModule, ACubinOfTheBundleIsForItsCapabilityAlone) {
  EXPECT_EQ(loaded(CUBIN_BUNDLE), "cubin in the bundle");
  EXPECT_EQ(fake().images.size(), 1u);
  EXPECT_EQ(linked, 0);
  EXPECT_TRUE(list(cache).empty());
  for (int other : {80, 86, 89, 100, 120}) {
    fake().capability = other;
    std::string target = other < 90 ? "sm_80" : "sm_90";
    EXPECT_EQ(loaded(CUBIN_BUNDLE), "cubin of // ptx for " + target + "\n");
    EXPECT_EQ(linked, 1) << other;
  }
}

TEST_F(CudaModule, ACubinThatIsRefusedGivesWayToThePtx) {
  for (auto *errors : {&fake().refused, &fake().lacking}) {
    (*errors)["in the bundle"] = 209;
    EXPECT_EQ(loaded(CUBIN_BUNDLE), "cubin of " + ptx90);
    EXPECT_EQ(fake().images.size(), 2u);
    errors->clear();
  }
}

TEST_F(CudaModule, PtxIsLinkedOnceForEachDriverAndDevice) {
  auto twice = [&](const char *what) {
    EXPECT_EQ(loaded(), "cubin of " + ptx90);
    EXPECT_EQ(linked, 1) << what;
    EXPECT_EQ(loaded(), "cubin of " + ptx90);
    EXPECT_EQ(linked, 0) << what;
  };
  twice("the first");
  fake().name = "Other GPU";
  twice("another name");
  fake().version = 13000;
  twice("another driver");
  fake().capability = 100;
  twice("another capability");
  EXPECT_EQ(list(cache).size(), 4u);
}

TEST_F(CudaModule, ADamagedEntryIsMadeAgain) {
  loaded();
  std::string whole = read(onlyEntry());
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = char(damaged[i] ^ (1 << i % 8));
    write(onlyEntry(), i % 2 ? damaged : whole.substr(0, i));
    EXPECT_EQ(loaded(), "cubin of " + ptx90);
    ASSERT_EQ(linked, 1) << i;
    ASSERT_EQ(read(onlyEntry()), whole) << i;
  }
}

TEST_F(CudaModule, AForeignEntryIsMadeAgain) {
  loaded();
  std::string path = onlyEntry(), whole = read(path);
  // An entry is cubin, key and 72 bytes.
  size_t first = ("cubin of " + ptx90).size() + 1;
  std::string key = whole.substr(first, whole.size() - first - 72);
  EXPECT_EQ(key.rfind("altgrad cubin 1\n", 0), 0u);
  fake().refused["no image"] = 200;
  fake().lacking["other kernels"] = 500;
  for (std::string foreign : {"cubin, no image", "cubin of other kernels"}) {
    std::vector<char> entry =
        packEntry(key, std::vector<char>(foreign.c_str(),
                                         foreign.c_str() + foreign.size() + 1));
    write(path, std::string(entry.begin(), entry.end()));
    EXPECT_EQ(loaded(), "cubin of " + ptx90);
    EXPECT_EQ(linked, 1);
    EXPECT_EQ(read(path), whole) << foreign;
  }
}

TEST_F(CudaModule, WithoutACacheEachPlanLinks) {
  write(cache, "no folder");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded(), "cubin of " + ptx90);
    EXPECT_EQ(linked, 1);
  }
  unlink(cache.c_str());
  fake().failures["cuDeviceGetName"] = 101;
  EXPECT_EQ(loaded(), "cubin of " + ptx90);
  EXPECT_TRUE(list(cache).empty()) << "nobody can say for which device";
}

TEST_F(CudaModule, PtxThatDoesNotLinkIsGivenToTheDriverAsItIs) {
  for (const char *call : {"cuLinkCreate", "cuLinkAddData", "cuLinkComplete"}) {
    fake().failures = {{call, 222}};
    EXPECT_EQ(loaded(), ptx90) << call;
    fake().failures.clear();
  }
  fake().refused["cubin of"] = 209;
  EXPECT_EQ(loaded(), ptx90);
  EXPECT_TRUE(list(cache).empty()) << "only what has been loaded is kept";
}

} // namespace

// Which code of a bundle a device is given, and what becomes of cubins on disk.
#include "CudaFixture.h"
#include "files/Cache.h"

using namespace altgrad::runtime;

namespace {

// The first line of what was loaded.
const std::string ptx90 = "// ptx for sm_90", cubin90 = "cubin of " + ptx90;

class CudaModule : public Cuda {
protected:
  void TearDown() override {
    altgrad::runtime::Gpu::forgetAll();
    EXPECT_EQ(fakecuda_get("alive"), 0);
    Cuda::TearDown();
  }
  // Makes a plan; what was loaded for it, and how often PTX was linked.
  std::string loaded(const char *path = SGD_BUNDLE) {
    int64_t before = fakecuda_calls("cuLinkComplete");
    planSgd("cuda", path);
    linked = int(fakecuda_calls("cuLinkComplete") - before);
    std::string last;
    for (images = 0; const char *image = fakecuda_image(seen); ++images, ++seen)
      last = image;
    return last.substr(0, last.find('\n'));
  }
  std::string onlyEntry() {
    std::vector<std::string> names = list(cache);
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : cache + "/" + names[0];
  }
  int linked = 0;
  size_t images = 0, seen = 0;
};

TEST_F(CudaModule, ACubinOfTheBundleIsForItsCapabilityAlone) {
  EXPECT_EQ(loaded(CUBIN_BUNDLE), "cubin of // in the bundle");
  EXPECT_EQ(images, 1u);
  EXPECT_EQ(linked, 0);
  EXPECT_TRUE(list(cache).empty());
  for (int other : {80, 86, 89, 100, 120}) {
    fakecuda_set("capability", other);
    std::string target = other < 90 ? "sm_80" : "sm_90";
    EXPECT_EQ(loaded(CUBIN_BUNDLE), "cubin of // ptx for " + target);
    EXPECT_EQ(linked, 1) << other;
  }
}

TEST_F(CudaModule, ACubinThatIsRefusedGivesWayToThePtx) {
  for (auto *refuse : {fakecuda_refuse, fakecuda_lack}) {
    refuse("in the bundle", 209);
    EXPECT_EQ(loaded(CUBIN_BUNDLE), cubin90);
    EXPECT_EQ(images, 2u);
    refuse("in the bundle", 0);
  }
}

TEST_F(CudaModule, PtxIsLinkedOnceForEachDriverAndDevice) {
  auto twice = [&](const char *what) {
    EXPECT_EQ(loaded(), cubin90);
    EXPECT_EQ(linked, 1) << what;
    EXPECT_EQ(loaded(), cubin90);
    EXPECT_EQ(linked, 0) << what;
  };
  twice("the first");
  fakecuda_name("Other GPU");
  twice("another name");
  fakecuda_set("driver", 13000);
  twice("another driver");
  fakecuda_set("capability", 100);
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
    EXPECT_EQ(loaded(), cubin90);
    ASSERT_EQ(linked, 1) << i;
    ASSERT_EQ(read(onlyEntry()), whole) << i;
  }
}

TEST_F(CudaModule, AForeignEntryIsMadeAgain) {
  loaded();
  std::string path = onlyEntry(), whole = read(path);
  // An entry is cubin, key and 72 bytes.
  size_t first = whole.find('\0') + 1;
  std::string key = whole.substr(first, whole.size() - first - 72);
  EXPECT_EQ(key.rfind("altgrad cubin 1\n", 0), 0u);
  fakecuda_refuse("no image", 200);
  fakecuda_lack("other kernels", 500);
  for (std::string foreign : {"cubin, no image", "cubin of other kernels"}) {
    std::vector<char> entry =
        packEntry(key, std::vector<char>(foreign.c_str(),
                                         foreign.c_str() + foreign.size() + 1));
    write(path, std::string(entry.begin(), entry.end()));
    EXPECT_EQ(loaded(), cubin90);
    EXPECT_EQ(linked, 1);
    EXPECT_EQ(read(path), whole) << foreign;
  }
}

TEST_F(CudaModule, WithoutACacheEachPlanLinks) {
  write(cache, "no folder");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded(), cubin90);
    EXPECT_EQ(linked, 1);
  }
  unlink(cache.c_str());
  fakecuda_fail("cuDeviceGetName", 101, 1, -1);
  EXPECT_EQ(loaded(), cubin90);
  EXPECT_TRUE(list(cache).empty()) << "nobody can say for which device";
}

TEST_F(CudaModule, PtxThatDoesNotLinkIsGivenToTheDriverAsItIs) {
  for (const char *call : {"cuLinkCreate", "cuLinkAddData", "cuLinkComplete"}) {
    fakecuda_fail(call, 222, 1, -1);
    EXPECT_EQ(loaded(), ptx90) << call;
    fakecuda_fail(nullptr, 0, 0, 0);
  }
  fakecuda_refuse("cubin of", 209);
  EXPECT_EQ(loaded(), ptx90);
  EXPECT_TRUE(list(cache).empty()) << "only what has been loaded is kept";
}

} // namespace

// What the test driver promises of its functions, of modules and of what their
// kernels take.
#include "PtxOfTests.h"

#include <cstdlib>
#include <unistd.h>

namespace {

class FakeModule : public OneContext {};

TEST_F(FakeModule, FunctionsAreFoundByNameAndVersion) {
  void *function = nullptr;
  int why = 0;
  auto find = [&](const char *name, int version) {
    EXPECT_EQ(cuGetProcAddress_v2(name, &function, version, 0, &why), 0);
    EXPECT_EQ(function == nullptr, why != 0) << "success, and no function";
    return why;
  };
  constexpr int notFound = 1, versionNotSufficient = 2;
  EXPECT_EQ(find("cuMemAlloc", 11030), 0);
  EXPECT_EQ(find("cuNothing", 11030), notFound);
  EXPECT_EQ(find("cuLaunchKernelEx", 11030), versionNotSufficient)
      << "it came with 11.6";
  EXPECT_EQ(find("cuStreamGetCaptureInfo", 11030), 0);
  EXPECT_EQ(find("cuStreamGetCaptureInfo", 12030), notFound)
      << "has 7 parameters";
  fakecuda_missing("cuMemAlloc");
  EXPECT_EQ(find("cuMemAlloc", 11030), notFound);
#define ALTGRAD_DRIVER(name, ...)                                              \
  EXPECT_TRUE(find(#name, 11030) == 0 || !strcmp(#name, "cuMemAlloc")) << #name;
#include "cuda/DriverTable.def"
#undef ALTGRAD_DRIVER
}

TEST_F(FakeModule, ModulesAreForDevicesAndDrivers) {
  void *out = nullptr;
  auto load = [&](const std::string &text) {
    return cu("cuModuleLoadDataEx", &out, (const void *)text.c_str(), 0u,
              (int *)nullptr, (void **)nullptr);
  };
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_90")), 0);
  fakecuda_set("capability", 86);
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_90")), 209);
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_80")), 0);
  fakecuda_set("driver", 11070);
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_80")), 222);
  EXPECT_EQ(load(ptxOfTests("7.7", "sm_80")), 0);
  EXPECT_EQ(load("no PTX"), 218);
  char log[100] = "";
  int options[] = {5, 6};
  void *values[] = {log, (void *)sizeof log};
  EXPECT_EQ(cu("cuModuleLoadDataEx", &out, (const void *)"no PTX", 2u, options,
               values),
            218);
  EXPECT_NE(std::string(log).find("line 1"), std::string::npos) << log;
  EXPECT_EQ(cu("cuModuleGetFunction", &out, module, "nothing"), 500);
}

TEST_F(FakeModule, LinkedPtxIsACubinThatRuns) {
  std::string text = ptxOfTests("7.8", "sm_90");
  void *state = nullptr, *cubin = nullptr, *loaded = nullptr;
  size_t size = 0;
  auto link = [&](int type, size_t bytes) {
    return cu("cuLinkAddData", state, type, (void *)text.c_str(), bytes,
              (const char *)"name", 0u, (int *)nullptr, (void **)nullptr);
  };
  auto load = [&](const void *image) {
    return cu("cuModuleLoadDataEx", &loaded, image, 0u, (int *)nullptr,
              (void **)nullptr);
  };
  EXPECT_EQ(cu("cuLinkCreate", 0u, (int *)nullptr, (void **)nullptr, &state),
            0);
  EXPECT_EQ(cu("cuLinkComplete", state, &cubin, &size), 1) << "of nothing";
  EXPECT_EQ(link(0, text.size() + 1), 1) << "not as PTX";
  EXPECT_EQ(link(1, text.size()), 1) << "without its end";
  fakecuda_set("capability", 80);
  EXPECT_EQ(link(1, text.size() + 1), 209);
  fakecuda_set("capability", 90);
  EXPECT_EQ(link(1, text.size() + 1), 0);
  EXPECT_EQ(cu("cuLinkComplete", state, &cubin, &size), 0);
  std::string image((char *)cubin, size);
  int64_t alive = fakecuda_get("alive");
  EXPECT_EQ(cu("cuLinkDestroy", state), 0);
  EXPECT_EQ(cu("cuLinkDestroy", state), 400);
  EXPECT_EQ(fakecuda_get("alive"), alive - 1);
  fakecuda_clear_images();
  EXPECT_EQ(load(image.c_str()), 0);
  EXPECT_EQ(fakecuda_image(0), "cubin of " + text);
  module = loaded, functions.clear();
  increment(&number, nullptr);
  fakecuda_drain();
  EXPECT_EQ(number, 1u);
}

TEST_F(FakeModule, ImagesAreRefusedOnDemand) {
  std::string text = ptxOfTests();
  void *loaded = nullptr;
  auto load = [&](const char *image) {
    return cu("cuModuleLoadDataEx", &loaded, (const void *)image, 0u,
              (int *)nullptr, (void **)nullptr);
  };
  EXPECT_EQ(load("\x7f"
                 "ELF"),
            209)
      << "real cubins are not run";
  fakecuda_refuse("increment", 222);
  EXPECT_EQ(load(text.c_str()), 222);
  fakecuda_refuse("increment", 0);
  fakecuda_lack("increment", 500);
  EXPECT_EQ(load(text.c_str()), 0);
  void *kernel = nullptr;
  EXPECT_EQ(cu("cuModuleGetFunction", &kernel, loaded, "add"), 500);
  char name[20] = "";
  fakecuda_name("a GPU");
  EXPECT_EQ(cu("cuDeviceGetName", name, 20, 0), 0);
  EXPECT_STREQ(name, "a GPU");
}

TEST_F(FakeModule, AttributesOfALaunchAreRead) {
  struct {
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
    void *stream = nullptr;
    void *attributes;
    unsigned count = 1;
  } config;
  struct {
    int id = 6, padding = 0, value = 1, rest[15] = {};
  } attribute;
  config.attributes = &attribute;
  uint64_t pointer = uint64_t(&number);
  void *parameters[] = {&pointer}, *kernel = function("increment");
  auto run = [&] {
    return cu("cuLaunchKernelEx", (const void *)&config, kernel, parameters,
              (void **)nullptr);
  };
  attribute.value = 0;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 0);
  EXPECT_EQ(number, 1u);
  attribute.value = 7;
  EXPECT_EQ(run(), 1);
  attribute.id = 4;
  EXPECT_EQ(run(), 801);
  attribute.id = 6, attribute.value = 1;
  fakecuda_set("capability", 80);
  EXPECT_EQ(run(), 801) << "not before 9.0";
  fakecuda_set("capability", 90);
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 719);
  EXPECT_NE(faultWords().find("never waits for it"), std::string::npos);
}

TEST_F(FakeModule, KernelsAndDevicesHaveAttributes) {
  int value = 0;
  void *kernel = function("increment");
  EXPECT_EQ(cu("cuFuncGetAttribute", &value, 0, kernel), 0);
  EXPECT_EQ(value, 32) << "its .maxntid";
  fakecuda_set("registers", 72);
  EXPECT_EQ(cu("cuFuncGetAttribute", &value, 4, kernel), 0);
  EXPECT_EQ(value, 72);
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 75, 1), 0);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 75, 2), 101);
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 9999, 0), 1);
}

TEST_F(FakeModule, ResidentBlocksFollowFromWhatAKernelTakes) {
  auto resident = [&](int threads, size_t shared) {
    int blocks = 0;
    EXPECT_EQ(cu("cuOccupancyMaxActiveBlocksPerMultiprocessor", &blocks,
                 function("increment"), threads, shared),
              0);
    return blocks;
  };
  EXPECT_EQ(resident(256, 0), 6) << "40 registers";
  fakecuda_set("registers", 64);
  EXPECT_EQ(resident(256, 0), 4);
  EXPECT_EQ(resident(256, 100 << 10), 2) << "of 228 KB";
  fakecuda_set("registers", 16);
  EXPECT_EQ(resident(256, 0), 8) << "2048 threads";
  EXPECT_EQ(resident(32, 0), 32);
  fakecuda_set("capability", 86);
  EXPECT_EQ(resident(256, 0), 6) << "1536 threads";
  fakecuda_set("occupancy", 3);
  EXPECT_EQ(resident(256, 0), 3) << "as a test wants";
}

TEST_F(FakeModule, PtxasIsAskedWhereThereIsOne) {
  const char *ptxas = getenv("ALTGRAD_PTXAS");
  if (!ptxas || access(ptxas, X_OK) != 0)
    GTEST_SKIP() << "no ptxas: registers are 40, modules pass the parser alone";
  setenv("FAKE_CUDA_PTXAS", ptxas, 1);
  again();
  int registers = 0;
  EXPECT_EQ(cu("cuFuncGetAttribute", &registers, 4, function("increment")), 0);
  EXPECT_GT(registers, 0);
  EXPECT_LT(registers, 20);
  std::string large = ptxOfTests();
  large.replace(large.find("{"), 1, "{\n.shared .b8 large[50000];");
  void *loaded = nullptr;
  char log[200] = "";
  int options[] = {5, 6};
  void *values[] = {log, (void *)sizeof log};
  EXPECT_EQ(cu("cuModuleLoadDataEx", &loaded, (const void *)large.c_str(), 2u,
               options, values),
            218);
  EXPECT_NE(std::string(log).find("too much shared data"), std::string::npos)
      << log;
  unsetenv("FAKE_CUDA_PTXAS");
  EXPECT_EQ(cu("cuModuleLoadDataEx", &loaded, (const void *)large.c_str(), 0u,
               (int *)nullptr, (void **)nullptr),
            0)
      << "the parser takes it";
}

} // namespace

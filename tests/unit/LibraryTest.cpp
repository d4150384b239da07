// The shared library as a program meets it: dlopen, no thread, no driver.
#include <cstdint>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <string>
#include <unistd.h>

namespace {

int threads() {
  std::unique_ptr<DIR, int (*)(DIR *)> tasks(opendir("/proc/self/task"),
                                             closedir);
  int count = -2; // "." and ".."
  while (readdir(tasks.get()))
    ++count;
  return count;
}

std::string outputOf(const std::string &command) {
  std::unique_ptr<FILE, int (*)(FILE *)> pipe(popen(command.c_str(), "r"),
                                              pclose);
  std::string text;
  for (int c; (c = fgetc(pipe.get())) != EOF;)
    text += char(c);
  return text;
}

TEST(Library, LoadingStartsNoThreadAndOpensNoDriver) {
  void *library = dlopen(ALTGRAD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  auto load = reinterpret_cast<int (*)(const char *, void **)>(
      dlsym(library, "altgrad_load"));
  auto create = reinterpret_cast<int (*)(void *, const char *, void **)>(
      dlsym(library, "altgrad_plan_create"));
  using Free = void (*)(void *);
  auto freePlan = reinterpret_cast<Free>(dlsym(library, "altgrad_plan_free"));
  auto freeBundle =
      reinterpret_cast<Free>(dlsym(library, "altgrad_bundle_free"));
  void *bundle = nullptr, *plan = nullptr;
  ASSERT_EQ(load(SGD_BUNDLE, &bundle), 0);
  ASSERT_EQ(create(bundle, "cpu", &plan), 0);
  EXPECT_EQ(threads(), 1);
  std::ifstream maps("/proc/self/maps");
  std::string text(std::istreambuf_iterator<char>(maps), {});
  EXPECT_NE(text.find("libaltgrad.so"), std::string::npos);
  EXPECT_EQ(text.find("libcuda"), std::string::npos);
  freePlan(plan);
  freeBundle(bundle);
}

// The manifest of a bundle that a copy of the library has loaded first of all.
std::string firstManifest(const std::string &library, const char *bundle) {
  void *copy = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), *loaded = nullptr;
  EXPECT_TRUE(copy) << dlerror();
  auto load = reinterpret_cast<int (*)(const char *, void **)>(dlsym(copy, "altgrad_load"));
  auto manifest = reinterpret_cast<const char *(*)(void *)>(dlsym(copy, "altgrad_manifest"));
  auto release = reinterpret_cast<void (*)(void *)>(dlsym(copy, "altgrad_bundle_free"));
  EXPECT_EQ(load(bundle, &loaded), 0);
  std::string words = manifest(loaded);
  release(loaded);
  return words;
}

TEST(Library, TwoCopiesInAProcessLoadTheirOwnBundles) {
  char folder[] = "/tmp/altgrad-copies-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  const std::string copies[] = {std::string(folder) + "/one.so", std::string(folder) + "/two.so"};
  for (const std::string &copy : copies)
    std::ofstream(copy, std::ios::binary) << std::ifstream(ALTGRAD_LIBRARY, std::ios::binary).rdbuf();
  EXPECT_NE(firstManifest(copies[0], SGD_BUNDLE).find("\"sgd\""), std::string::npos);
  EXPECT_NE(firstManifest(copies[1], OTHER_BUNDLE).find("\"other\""), std::string::npos);
  for (const std::string &copy : copies)
    unlink(copy.c_str());
  rmdir(folder);
}

TEST(Library, ExportsOnlyTheCInterface) {
  std::string names =
      outputOf("nm -D --defined-only " ALTGRAD_LIBRARY
               " | awk '{print $3}' | sort | tr '\\n' ' '");
  std::string declared =
      outputOf("grep -hv '^//' " ALTGRAD_HEADERS
               " | grep -oE 'altgrad_[a-z_]+\\(' | tr -d '(' | sort -u"
               " | tr '\\n' ' '");
  EXPECT_EQ(names, declared);
}

TEST(Library, NeedsOnlyLibc) {
  std::string needed = outputOf("readelf -d " ALTGRAD_LIBRARY
                                " | grep NEEDED | sed 's/.*\\[//; s/\\]//'");
  for (const char *unwanted :
       {"libstdc++", "libcuda", "LLVM", "MLIR", "torch", "python"})
    EXPECT_EQ(needed.find(unwanted), std::string::npos) << needed;
}

TEST(Library, TheCompilerBesideItIsFound) {
  std::string folder = "/tmp/altgrad-beside-" + std::to_string(getpid());
  std::string script = "#!/bin/sh\\necho beside >&2\\nexit 1\\n";
  outputOf("mkdir -p " + folder + "/lib " + folder +
           "/bin && cp " ALTGRAD_LIBRARY " " + folder +
           "/lib/beside.so && printf '" + script + "' > " + folder +
           "/bin/altgrad-opt && chmod 755 " + folder + "/bin/altgrad-opt");
  void *library = dlopen((folder + "/lib/beside.so").c_str(), RTLD_NOW);
  ASSERT_TRUE(library) << dlerror();
  auto compile = reinterpret_cast<int (*)(const char *, uint64_t, const char *,
                                          const char *, void **)>(
      dlsym(library, "altgrad_compile"));
  auto words =
      reinterpret_cast<const char *(*)()>(dlsym(library, "altgrad_last_error"));
  unsetenv("ALTGRAD_OPT"); // the caller's own, which would come first
  void *bundle = nullptr;
  EXPECT_EQ(compile("x", 1, "--x", nullptr, &bundle), 5);
  EXPECT_STREQ(words(), "beside\n"); // what that compiler said
  outputOf("rm -r " + folder);
}

} // namespace

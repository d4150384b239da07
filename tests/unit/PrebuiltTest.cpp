// Bundles built with the library: which requests they answer, and what is passed over.
#include "compile/Prebuilt.h"
#include "Folder.h"
#include "files/Cache.h"

#include <set>

using namespace altgrad::runtime;

namespace {

class Prebuilt : public Folder {
protected:
  void SetUp() override {
    Folder::SetUp();
    for (const char *name : {"/lib", "/bundles", "/templates", "/lib/bundles"})
      mkdir((folder + name).c_str(), 0755);
    library = folder + "/lib";
    write(folder + "/templates/adamw.mlir", "one rule");
    write(folder + "/templates/sgd.mlir", "another");
    key = keyOf({"--set=rule=adamw param=f32"});
  }
  std::string keyOf(const Strings &options) {
    return prebuiltKey(templateFolders(library), options);
  }
  void keep(const std::string &place, const std::string &bytes) {
    std::vector<char> entry = packEntry(key, {bytes.begin(), bytes.end()});
    write(folder + place + entryName(key), {entry.begin(), entry.end()});
  }
  // In a child, because a warning is given once in a process.
  bool finds(const std::string &expected) {
    return inChild([&] {
             std::vector<char> found;
             return findPrebuilt(library, key, found) &&
                    std::string(found.begin(), found.end()) == expected;
           }) == 1;
  }
  std::string library, key;
};

TEST_F(Prebuilt, OnlyStockRulesByNameHaveAKey) {
  EXPECT_NE(key, "");
  EXPECT_NE(keyOf({"--rule=sgd{nesterov}", "--clip"}), "");
  for (const Strings &options : std::vector<Strings>{
           {"--clip"},
           {"--rule=lion"},
           {"--rule=./templates/adamw.mlir"},
           {"--rule=../templates/adamw"},
           {"--rule=adamw.mlir"},
           {"--rule="},
           {"--set= rule=adamw"},
           {"--set=param=f32 rule=adamw"},
           {"--set=rule=adamw", "--set=rule=lion"},
           {"--rule=adamw", "--rule-path=" + folder},
           {"--set=rule=adamw", "--rule-path"}})
    EXPECT_EQ(keyOf(options), "") << options[0];
}

TEST_F(Prebuilt, EverythingThatMattersIsInTheKey) {
  std::set<std::string> keys = {key};
  for (const Strings &options : std::vector<Strings>{
           {"--set=rule=adamw param=bf16"},
           {"--set=rule=adamw{amsgrad} param=f32"},
           {"--set=rule=sgd param=f32"},
           {"--set=rule=adamw param=f32", "--clip"},
           {"--set=rule=adamw param=f32", "--set=rule=adamw param=f32"}})
    EXPECT_TRUE(keys.insert(keyOf(options)).second) << options[0];
  EXPECT_NE(key.find("ABI 5"), std::string::npos);
  write(folder + "/templates/sgd.mlir", "changed");
  EXPECT_EQ(keyOf({"--set=rule=adamw param=f32"}), key) << "it names no sgd";
  write(folder + "/templates/adamw.mlir", "changed");
  EXPECT_NE(keyOf({"--set=rule=adamw param=f32"}), key);
}

TEST_F(Prebuilt, EquivalentRequestsHaveOneKey) {
  const std::string set = "--set=rule=adamw{a,b} param=bf16 grad=bf16 states=param step=f32";
  const std::string one = keyOf({set + " copy=mxfp8,both", "--target=x", "--clip"});
  for (const Strings &options : std::vector<Strings>{
           {"--clip", set + " copy=mxfp8,both", "--target=x"},
           {"--set=rule=adamw{b,a} copy=ocp.e4m3fn:32:ocp.e8m0,both step=f32 grad=bf16  param=bf16 states=bf16",
            "--target=x", "--clip"}})
    EXPECT_EQ(keyOf(options), one) << options[0];
  EXPECT_EQ(keyOf({"--set=rule=sgd param=f32 grad=f32 states=param step=i64"}), keyOf({"--set=rule=sgd"}));
  for (const Strings &options : std::vector<Strings>{
           {set + " copy=mxfp8", "--target=x", "--clip"},
           {set + " copy=mxfp8,both copy=mxfp8,both", "--target=x", "--clip"},
           {"--set=rule=adamw{a} param=bf16 grad=bf16 states=param step=f32 copy=mxfp8,both", "--target=x", "--clip"},
           {set + " copy=mxfp8,both m=f32", "--target=x", "--clip"}})
    EXPECT_NE(keyOf(options), one) << options[0];
  EXPECT_NE(keyOf({"--set=rule=sgd", "--set=rule=adamw"}), keyOf({"--set=rule=adamw", "--set=rule=sgd"}))
      << "sets are counted in their order";
}

TEST_F(Prebuilt, ItIsFoundBesideTheLibraryOrInItsFolder) {
  EXPECT_FALSE(finds("code"));
  EXPECT_EQ(printed, "") << "that there is none is no defect";
  keep("/lib/bundles/", "code");
  EXPECT_TRUE(finds("code"));
  keep("/bundles/", "first");
  EXPECT_TRUE(finds("first"));
}

TEST_F(Prebuilt, ADamagedOneIsPassedOver) {
  keep("/lib/bundles/", "code");
  std::string path = folder + "/bundles/" + entryName(key);
  keep("/bundles/", "code of another key");
  std::string whole = read(path);
  for (size_t at : {size_t(0), whole.size() / 2, whole.size() - 1}) {
    std::string other = whole;
    other[at] = char(other[at] ^ 1);
    write(path, other);
    EXPECT_TRUE(finds("code")) << at;
    EXPECT_EQ(warnings(), 1u) << printed;
  }
  std::vector<char> entry = packEntry("another key", {'x'});
  write(path, {entry.begin(), entry.end()});
  EXPECT_TRUE(finds("code"));
  write(path, "");
  EXPECT_TRUE(finds("code"));
}

TEST_F(Prebuilt, OneThatOthersMayChangeIsPassedOver) {
  keep("/bundles/", "code");
  std::string path = folder + "/bundles/" + entryName(key);
  chmod(path.c_str(), 0646);
  EXPECT_FALSE(finds("code"));
  EXPECT_NE(printed.find("is writable by others"), std::string::npos);
  chmod(path.c_str(), 0664);
  EXPECT_FALSE(finds("code"));
  EXPECT_NE(printed.find("is writable by others"), std::string::npos);
  chmod(library.c_str(), 0775);
  EXPECT_FALSE(finds("code")) << "whoever may replace the library";
  chmod(path.c_str(), 0644);
  EXPECT_TRUE(finds("code"));
  for (mode_t mode : {0775, 0757}) {
    chmod((folder + "/bundles").c_str(), mode);
    EXPECT_FALSE(finds("code"));
    EXPECT_NE(printed.find("/bundles: is writable by others, or by a group; chmod go-w mends that"), std::string::npos)
        << printed;
  }
  chmod((folder + "/bundles").c_str(), 0755);
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(finds("code"));
  EXPECT_NE(printed.find("belongs to another user"), std::string::npos);
  ASSERT_EQ(chown(library.c_str(), 65534, 65534), 0);
  EXPECT_TRUE(finds("code")) << "the library's owner may";
}

TEST_F(Prebuilt, AFifoIsPassedOverAtOnce) {
  ASSERT_EQ(mkfifo((folder + "/bundles/" + entryName(key)).c_str(), 0600), 0);
  EXPECT_FALSE(finds("code"));
}

} // namespace

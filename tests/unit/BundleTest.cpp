// Bundles that are not bundles: words, never a crash.
#include "Sgd.h"
#include "bundle/Manifest.h"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::string contents(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class BundleFile : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/altgrad-test-XXXXXX";
    int fd = mkstemp(name);
    ASSERT_GE(fd, 0);
    close(fd);
    path = name;
  }
  void TearDown() override { unlink(path.c_str()); }

  altgrad_status load(const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    altgrad_bundle *bundle = nullptr;
    altgrad_status status = altgrad_load(path.c_str(), &bundle);
    altgrad_bundle_free(bundle);
    return status;
  }
  std::string path;
};

TEST_F(BundleFile, EveryPrefixIsBroken) {
  std::string whole = contents(SGD_BUNDLE);
  ASSERT_EQ(load(whole), ALTGRAD_OK) << altgrad_last_error();
  for (size_t size = 0; size < whole.size(); size += size < 256 ? 1 : 97)
    ASSERT_EQ(load(whole.substr(0, size)), ALTGRAD_BROKEN) << size;
  EXPECT_EQ(load(whole.substr(0, whole.size() - 1)), ALTGRAD_BROKEN);
}

// Every byte of the header, of the program headers and of the end, and many of the code and of the manifest: the loader
// would follow some of them out of the file.
TEST_F(BundleFile, EveryChangedByteIsBroken) {
  const std::string whole = contents(SGD_BUNDLE);
  Elf64_Ehdr header;
  memcpy(&header, whole.data(), sizeof header);
  const size_t ends[] = {size_t(header.e_phoff + header.e_phnum * header.e_phentsize), whole.size() - 256};
  for (size_t at = 0; at < whole.size(); at += at < ends[0] || at >= ends[1] ? 1 : 61)
    for (int bits : {1, 128, 255}) {
      std::string other = whole;
      other[at] = char(other[at] ^ bits);
      ASSERT_EQ(load(other), ALTGRAD_BROKEN) << at;
      const bool marked = at < whole.size() - 48 || at >= whole.size() - 32;
      ASSERT_NE(strstr(altgrad_last_error(), marked ? "is damaged" : "does not end in a digest"), nullptr) << at;
    }
}

TEST_F(BundleFile, MovedSectionsSegmentsAndSizesAreBroken) {
  const std::string whole = contents(SGD_BUNDLE);
  for (size_t at = 0; at + 8 <= 64 + 56 * 12; at += 4)
    for (uint64_t word : {uint64_t(0), ~uint64_t(0), uint64_t(whole.size()), uint64_t(1) << 40, uint64_t(1) << 63}) {
      std::string other = whole;
      memcpy(&other[at], &word, sizeof word);
      ASSERT_EQ(load(other), other == whole ? ALTGRAD_OK : ALTGRAD_BROKEN) << at << " " << word;
    }
}

TEST_F(BundleFile, OtherFilesAreBroken) {
  const char *words = "does not end in a digest: it is damaged, no bundle, or one of an older altgrad-opt; compile it again";
  EXPECT_REFUSED(load(std::string(5000, 'x')), ALTGRAD_BROKEN, words);
  EXPECT_REFUSED(load(contents("/proc/self/exe").substr(0, 64)), ALTGRAD_BROKEN, words);
  EXPECT_REFUSED(load(""), ALTGRAD_BROKEN, words);
  const std::string whole = contents(SGD_BUNDLE);
  EXPECT_REFUSED(load(whole.substr(0, whole.size() - 48)), ALTGRAD_BROKEN, words); // as older ones wrote them
  EXPECT_REFUSED(load(whole + "a footer"), ALTGRAD_BROKEN, words);
  EXPECT_REFUSED(load(contents(EMPTY_BUNDLE)), ALTGRAD_BROKEN, "has no altgrad_manifest");
}

// The loader keeps a part of some files that it refuses, under their path.
TEST_F(BundleFile, RefusedFilesLeaveNothingBehind) {
  std::string whole = contents(SGD_BUNDLE);
  for (size_t size = 64; size < whole.size(); size += 997)
    load(whole.substr(0, size));
  EXPECT_REFUSED(load(contents(EMPTY_BUNDLE)), ALTGRAD_BROKEN,
                 "has no altgrad_manifest");
}

TEST(Bundle, OnlyRegularFilesAreRead) {
  altgrad_bundle *bundle = nullptr;
  EXPECT_REFUSED(altgrad_load("/tmp", &bundle), ALTGRAD_INVALID,
                 "is not a regular file");
  EXPECT_REFUSED(altgrad_load("/dev/zero", &bundle), ALTGRAD_INVALID,
                 "is not a regular file");
  std::string fifo = "/tmp/altgrad-fifo-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_REFUSED(altgrad_load(fifo.c_str(), &bundle), ALTGRAD_INVALID,
                 "is not a regular file");
  unlink(fifo.c_str());
}

TEST(Bundle, MissingKernelIsNamed) {
  BundlePointer bundle = loadSgd(NO_KERNEL_BUNDLE);
  altgrad_plan *plan = nullptr;
  EXPECT_REFUSED(altgrad_plan_create(bundle.get(), "cpu:v3", &plan),
                 ALTGRAD_BROKEN, "has no altgrad_sgd_norm_v3");
}

//===-- Manifests ------------------------------------------------------------//

std::string manifest() { return altgrad_manifest(loadSgd().get()); }

std::string wordsFor(const std::string &text) {
  try {
    altgrad::runtime::parseManifest(text);
    return "accepted";
  } catch (const std::exception &error) {
    return error.what();
  }
}

std::string edited(const std::string &from, const std::string &to) {
  std::string text = manifest();
  size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST_F(BundleFile, AnotherVersionSaysWhatToDo) {
  EXPECT_REFUSED(load(contents(OLD_BUNDLE)), ALTGRAD_BROKEN,
                 path + ": manifest 4 (a hand), this runtime reads 5: compile "
                        "it again");
}

TEST(Manifest, UnknownKeysAreAllowed) {
  const std::string text = edited("\"inputs\": 1", "\"inputs\": 1, \"new\": []");
  EXPECT_EQ(wordsFor(text), "accepted");
}

TEST(Manifest, AnUnknownWordIsNamed) {
  const std::string text = edited("\"role\": \"master\"", "\"role\": \"boss\"");
  EXPECT_EQ(wordsFor(text), "role is \"boss\", which this runtime does not know");
}

TEST(Manifest, WhatIsMissingIsNamed) {
  const std::string text = edited("\"spills\": 1", "\"spill\": 1");
  const std::string words = wordsFor(text);
  EXPECT_NE(words.find("the manifest is damaged: "), std::string::npos) << words;
  EXPECT_NE(words.find("key 'spills' not found"), std::string::npos) << words;
}

TEST(Manifest, EveryPrefixIsRefused) {
  const std::string text = manifest();
  EXPECT_EQ(wordsFor(text), "accepted");
  for (size_t size = 0; size < text.size(); ++size)
    ASSERT_NE(wordsFor(text.substr(0, size)), "accepted");
}

TEST(Manifest, DeepNestingIsNoCrash) {
  const std::string deep(100000, '[');
  EXPECT_NE(wordsFor(deep), "accepted");
  EXPECT_NE(wordsFor(deep + std::string(100000, ']')), "accepted");
}

} // namespace

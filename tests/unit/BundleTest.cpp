// Bundles that are not bundles: words, never a crash.
#include "Sgd.h"
#include "bundle/Manifest.h"
#include "files/Sha256.h"

#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <utility>
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

// Stripped of its section headers, a file is still measured by its segments.
TEST_F(BundleFile, EveryPrefixOfTheSegmentsIsBroken) {
  std::string whole = contents(SGD_BUNDLE);
  Elf64_Ehdr header;
  memcpy(&header, whole.data(), sizeof header);
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  memcpy(whole.data(), &header, sizeof header);
  ASSERT_EQ(load(whole), ALTGRAD_OK) << altgrad_last_error();
  size_t end = 0;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, &whole[header.e_phoff + i * sizeof segment],
           sizeof segment);
    if (segment.p_type == PT_LOAD)
      end = std::max(end, size_t(segment.p_offset + segment.p_filesz));
  }
  for (size_t size = 64; size < end; size += 193)
    ASSERT_EQ(load(whole.substr(0, size)), ALTGRAD_BROKEN) << size;
  EXPECT_EQ(load(whole.substr(0, end - 1)), ALTGRAD_BROKEN);
}

TEST_F(BundleFile, OtherFilesAreBroken) {
  EXPECT_REFUSED(load(std::string(5000, 'x')), ALTGRAD_BROKEN,
                 "is not an ELF file");
  EXPECT_REFUSED(load(contents("/proc/self/exe").substr(0, 64)), ALTGRAD_BROKEN,
                 "cut off");
  EXPECT_REFUSED(load(contents(EMPTY_BUNDLE)), ALTGRAD_BROKEN,
                 "has no altgrad_manifest");
}

// The loader keeps a part of some files that it refuses, under their path.
TEST_F(BundleFile, RefusedFilesLeaveNothingBehind) {
  std::string whole = contents(SGD_BUNDLE);
  for (size_t size = 64; size < whole.size(); size += 997)
    load(whole.substr(0, size));
  EXPECT_REFUSED(load(contents(EMPTY_BUNDLE)), ALTGRAD_BROKEN,
                 "has no altgrad_manifest");
}

TEST_F(BundleFile, TrailingBytesDoNotMatter) {
  EXPECT_EQ(load(contents(SGD_BUNDLE) + "a footer"), ALTGRAD_OK)
      << altgrad_last_error();
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

std::string digestOf(const std::string &text) {
  altgrad::runtime::Sha256 hash;
  hash.update(text.data(), text.size());
  return altgrad::runtime::hexadecimal(hash.finish());
}

std::string wordsFor(const std::string &text, const std::string &digest) {
  try {
    altgrad::runtime::parseManifest(text, digest);
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
  EXPECT_EQ(wordsFor(text, digestOf(text)), "accepted");
}

TEST(Manifest, AnUnknownWordIsNamed) {
  const std::string text = edited("\"role\": \"master\"", "\"role\": \"boss\"");
  EXPECT_EQ(wordsFor(text, digestOf(text)), "role is \"boss\", which this runtime does not know");
}

TEST(Manifest, WhatIsMissingIsNamed) {
  const std::string text = edited("\"spills\": 1", "\"spill\": 1");
  const std::string words = wordsFor(text, digestOf(text));
  EXPECT_NE(words.find("the manifest is damaged: "), std::string::npos) << words;
  EXPECT_NE(words.find("key 'spills' not found"), std::string::npos) << words;
}

TEST(Manifest, EveryPrefixIsRefused) {
  const std::string text = manifest();
  EXPECT_EQ(wordsFor(text, digestOf(text)), "accepted");
  for (size_t size = 0; size < text.size(); ++size)
    ASSERT_NE(wordsFor(text.substr(0, size), digestOf(text.substr(0, size))), "accepted");
}

TEST(Manifest, EverySingleByteChangeIsRefused) {
  const std::string text = manifest(), digest = digestOf(text);
  for (size_t i = 0; i < text.size(); ++i)
    for (char c : {'\0', '"', '9', '}', '\xff'})
      if (std::string other = text; std::exchange(other[i], c) != c)
        ASSERT_NE(wordsFor(other, digest), "accepted") << i;
}

TEST(Manifest, DeepNestingIsNoCrash) {
  const std::string deep(100000, '[');
  EXPECT_NE(wordsFor(deep, digestOf(deep)), "accepted");
  EXPECT_NE(wordsFor(deep + std::string(100000, ']'), ""), "accepted");
}

} // namespace

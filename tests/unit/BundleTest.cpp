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

std::string wordsFor(const std::string &text) {
  try {
    altgrad::runtime::parseManifest(text.data(), text.size());
    return "accepted";
  } catch (const std::exception &error) {
    return error.what();
  }
}

std::string edited(const std::string &from, const std::string &to,
                   std::string text = manifest()) {
  size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

struct Edit {
  const char *from, *to, *words;
};

class ManifestEdit : public testing::TestWithParam<Edit> {};

TEST_P(ManifestEdit, IsRefusedWithPlaceAndValue) {
  const Edit &edit = GetParam();
  EXPECT_NE(wordsFor(edited(edit.from, edit.to)).find(edit.words),
            std::string::npos)
      << wordsFor(edited(edit.from, edit.to));
}

const Edit edits[] = {
    {"\"altgrad\": 5", "\"altgrad\": 4",
     "manifest 4 (a hand), this runtime reads 5: compile it again"},
    {"\"altgrad\": 5", "\"altgrad\": \"2\"", "manifest.altgrad is \"2\""},
    {"\"producer\"", "\"made by\"", "manifest has no \"producer\""},
    {"\"inputs\": 1", "\"inputs\": 1.5", "manifest.inputs is 1.5"},
    {"\"inputs\": 1", "\"inputs\": 18446744073709551615", "manifest.inputs is"},
    {"\"inputs\": 1", "\"inputs\": 0",
     "streams[0].slot is 0, but inputs has 0"},
    {"\"row_words\": 15", "\"row_words\": 14",
     "scalars[1].slot is 2, but a row has 2"},
    {"\"row_words\": 15", "\"row_words\": 11",
     "manifest.row_words is 11, not in [12, 4096]"},
    {"\"row_words\": 15", "\"row_words\": -1", "manifest.row_words is -1"},
    {"\"slot\": 2", "\"slot\": 1", "scalars[1].slot is 1, taken before"},
    {"\"slot\": 2", "\"slot\": -1", "scalars[1].slot is -1"},
    {"\"name\": \"model\"", "\"name\": \"grads\"",
     "streams[2].name is \"grads\", taken before"},
    {"\"name\": \"model\"", "\"name\": \"a b\"", "streams[2].name is not"},
    {"\"key\": \"model\"", "\"key\": \"a.b\"", "streams[2].key is not"},
    {"\"key\": \"model\", \"role\": \"param\"",
     "\"key\": \"grad\", \"role\": \"grad\"",
     "streams[2].key is \"grad\", taken before in its set and role"},
    {"\"role\": \"master\"", "\"role\": \"boss\"",
     "streams[1].role is \"boss\""},
    {"\"role\": \"master\"", "\"role\": \"norm\"",
     "streams[1].role is \"norm\", which is of scalars"},
    {"\"role\": \"step\"", "\"role\": \"state\"",
     "scalars[1].role is \"state\", which is of streams"},
    {"\"access\": \"out\"", "\"access\": \"outin\"", "access is \"outin\""},
    {"\"bits\": 16", "\"bits\": 24",
     "streams[2].bits is 24, not a power of two"},
    {"\"bits\": 16", "\"bits\": 128", "streams[2].bits is 128, not in [1, 64]"},
    {"\"bits\": 16", "\"bits\": 4",
     "streams[2].even is none beside 4 bits: codes of 4 bits share bytes"},
    {"\"even\": \"none\"", "\"even\": \"low\"",
     "streams[0].even is low beside 32 bits"},
    {"\"even\": \"none\"", "\"even\": \"odd\"", "streams[0].even is \"odd\""},
    {"\"block\": 1", "\"block\": 48",
     "streams[0].block is 48, not a power of two"},
    {"\"block\": 1", "\"block\": 8192", "streams[0].block is 8192"},
    {"\"format\": \"bf16\"", "\"format\": \"b\\n\"",
     "streams[2].format holds a control character"},
    {"\"scope\": \"group\"", "\"scope\": 7",
     "scalars[0].scope is 7, not a string"},
    {"\"type\": \"i64\"", "\"type\": \"f16\"", "scalars[1].type is \"f16\""},
    {"\"default\": 0.001", "\"default\": \"x\"",
     "scalars[0].default is neither"},
    {"\"default\": 0.001", "\"default\": 1e999", "number overflow"},
    {"\"slot\": 0, \"set\": null", "\"slot\": 0, \"set\": 0",
     "scalars[2].set is 0, but a scalar of the step has none"},
    {"\"group_scalars\": 1", "\"group_scalars\": 0", "but a group has 0"},
    {"\"step_scalars\": 1", "\"step_scalars\": 0", "but scalars has 0"},
    {"\"spills\": 1", "\"spill\": 1", "manifest.workspace has no \"spills\""},
    {"\"sets\": 1", "\"sets\": 0", "manifest.sets is 0, not in [1, 64]"},
    {"\"sets\": 1", "\"sets\": 65", "manifest.sets is 65, not in [1, 64]"},
    {"\"slot\": 1, \"set\": 0", "\"slot\": 1, \"set\": 1",
     "streams[2].set is 1, not in [0, 0]"},
    {"\"slot\": 1, \"set\": 0", "\"slot\": 1, \"set\": null",
     "streams[2].set is null"},
    {"\"chunks\", \"set\": 0", "\"chunks\", \"set\": 1",
     "phases[0].set is 1, not in [0, 0]"},
    {"\"domain\": \"once\"", "\"domain\": \"twice\"",
     "phases[1].domain is \"twice\""},
    {"\"domain\": \"once\"", "\"domain\": \"rows\"",
     "phases[1].domain is \"rows\" of a total phase"},
    {"\"kind\": \"sweep\"", "\"kind\": \"walk\"", "phases[0].kind is \"walk\""},
    {"\"per_block\": 8", "\"per_block\": 0", "phases[0].per_block is 0"},
    {"\"tiles\": 0", "\"tiles\": 2", "phases[0].tiles is 2"},
    {"\"columns\": 0", "\"columns\": 2", "streams[0].columns is 2"},
    {"\"columns\": 0", "\"columns\": 128",
     "streams[0].columns is 128 of blocks of 1 rows"},
    {"\"finishes\": 0", "\"finishes\": 3",
     "phases[0].finishes is 3, but the launch ends before"},
    {"\"block\": 1, \"read\"", "\"block\": 3, \"read\"",
     "phases[0].block is 3, not a power of two"},
    {"\"symbol\": \"altgrad_sgd_total\"", "\"symbol\": \"a;b\"",
     "phases[1].symbol is not a name"},
    {"\"ptx\": [", "\"ptx\": [9, ", "manifest.ptx names a target"},
    {"\"host\": [", "\"host\": [\"v 3\", ", "manifest.host names a target"},
    {"\"phases\": [", "\"phases\": [[], ", "phases[0] is not an object"},
    {"\"streams\": [", "\"streams\": {}, \"other\": [",
     "manifest.streams is not a list"},
    {"\"read\": 4", "\"read\": null", "phases[0].read is null, not a number"},
    {"\"read\": 4", "\"read\": -0.5", "phases[0].read is -0.5"},
    {"\"exchanges\": []", "\"exchanges\": [], \"warnings\": [{\"set\": 9}]",
     "warnings[0].set is 9, not in [0, 0]"},
    {"\"exchanges\": []", "\"exchanges\": [{\"phase\": 0, \"words\": []}]",
     "exchanges[0].phase is 0, not in [1, 3]"},
    {"\"exchanges\": []", "\"exchanges\": [{\"phase\": 4, \"words\": []}]",
     "exchanges[0].phase is 4, not in [1, 3]"},
    {"\"exchanges\": []", "\"exchanges\": [{\"phase\": 2, \"words\": []}]",
     "exchanges[0].words is empty"},
    {"\"exchanges\": []",
     "\"exchanges\": [{\"phase\": 2, \"words\": [{\"word\": 1}]}]",
     "exchanges[0].words[0].word is 1, not in [0, 0]"},
    {"\"exchanges\": []",
     "\"exchanges\": [{\"phase\": 2, \"words\": [{\"word\": 0, "
     "\"reduction\": \"mean\"}]}]",
     "exchanges[0].words[0].reduction is \"mean\""}};

INSTANTIATE_TEST_SUITE_P(Every, ManifestEdit, testing::ValuesIn(edits));

std::string sets() { return altgrad_manifest(loadSgd(SETS_BUNDLE).get()); }

// What different sets have may share words; what every set has may not.
const Edit setEdits[] = {
    {"\"slot\": 2, \"set\": 0", "\"slot\": 1, \"set\": 0",
     "scalars[4].slot is 1, taken before"},
    {"\"slot\": 2, \"set\": 0", "\"slot\": 0, \"set\": 0",
     "scalars[4].slot is 0, taken before"},
    {"\"slot\": 0, \"set\": null", "\"slot\": 1, \"set\": null",
     "scalars[1].slot is 1, taken before"},
    {"\"slot\": 2, \"set\": 1", "\"slot\": 1, \"set\": 1",
     "streams[4].slot is 1, taken before"},
    {"\"set\": 1", "\"set\": 2", "streams[2].set is 2, not in [0, 1]"},
    {"\"phase\": 3", "\"phase\": 7", "exchanges[0].phase is 7"},
    {"[{\"phase\": 3",
     "[{\"phase\": 3, \"words\": [{\"word\": 0, \"reduction\": \"max\"}]}, "
     "{\"phase\": 3",
     "exchanges[1].phase is 3, not in [4, 6]"}};

TEST(Manifest, SetsShareWordsOnlyWithEachOther) {
  EXPECT_EQ(wordsFor(sets()), "accepted");
  for (const Edit &edit : setEdits) {
    std::string words = wordsFor(edited(edit.from, edit.to, sets()));
    EXPECT_NE(words.find(edit.words), std::string::npos) << words;
  }
}

TEST_F(BundleFile, AnotherVersionSaysWhatToDo) {
  EXPECT_REFUSED(load(contents(OLD_BUNDLE)), ALTGRAD_BROKEN,
                 path + ": manifest 4 (a hand), this runtime reads 5: compile "
                        "it again");
}

TEST(Manifest, EveryPrefixIsRefused) {
  std::string text = manifest();
  EXPECT_EQ(wordsFor(text), "accepted");
  for (size_t size = 0; size < text.size(); ++size)
    ASSERT_NE(wordsFor(text.substr(0, size)), "accepted");
}

TEST(Manifest, UnknownKeysAreAllowed) {
  EXPECT_EQ(wordsFor(edited("\"inputs\": 1", "\"inputs\": 1, \"new\": []")),
            "accepted");
}

TEST(Manifest, DeepNestingIsNoCrash) {
  std::string deep(100000, '[');
  EXPECT_NE(wordsFor(deep), "accepted");
  EXPECT_NE(wordsFor(deep + std::string(100000, ']')), "accepted");
}

TEST(Manifest, EverySingleByteChangeIsNoCrash) {
  std::string text = manifest();
  for (size_t i = 0; i < text.size(); ++i)
    for (char c : {'\0', '"', '9', '}', '\xff'}) {
      std::string other = text;
      other[i] = c;
      wordsFor(other);
    }
}

} // namespace

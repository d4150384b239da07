// Which rules are in the key of a compilation: those that the compiler may read.
#include "Folder.h"
#include "compile/Prebuilt.h"
#include "compile/Rules.h"
#include "files/Cache.h"

using namespace altgrad::runtime;

namespace {

class RuleKey : public Folder {
protected:
  void SetUp() override {
    Folder::SetUp();
    for (const char *name : {"/templates", "/bin", "/mine", "/working",
                             "/working/templates"})
      mkdir((folder + name).c_str(), 0755);
    stock = altgrad::stockFolders(folder + "/bin");
    char here[4096];
    home = getcwd(here, sizeof here);
    ASSERT_EQ(chdir((folder + "/working").c_str()), 0);
  }
  void TearDown() override {
    ASSERT_EQ(chdir(home.c_str()), 0);
    Folder::TearDown();
  }
  // Whether the identity of this request changes with the content of `file`.
  bool reads(const std::string &file, const Strings &options,
             bool hasText = false) {
    write(folder + file, "one");
    std::string first = ruleIdentity(stock, options, hasText);
    write(folder + file, "two");
    std::string second = ruleIdentity(stock, options, hasText);
    unlink((folder + file).c_str());
    return first != second;
  }
  Strings stock;
  std::string home;
};

TEST_F(RuleKey, AStockNameIsAFileOfTheInstallation) {
  Strings options = {"--set=rule=adamw{amsgrad} param=f32", "--set=rule=sgd"};
  EXPECT_TRUE(reads("/templates/adamw.mlir", options));
  EXPECT_TRUE(reads("/templates/sgd.mlir", options));
  EXPECT_TRUE(reads("/templates/adamw.mlir", {"--rule=adamw"}));
  EXPECT_FALSE(reads("/templates/lion.mlir", options)) << "nobody names it";
  EXPECT_FALSE(reads("/templates/adamw", options));
}

TEST_F(RuleKey, TheWorkingDirectoryHasNoRules) {
  for (bool hasText : {false, true})
    for (const char *file :
         {"/working/templates/adamw.mlir", "/working/adamw.mlir"})
      EXPECT_FALSE(reads(file, {"--rule=adamw"}, hasText)) << file;
}

TEST_F(RuleKey, APathIsTheFileItself) {
  EXPECT_TRUE(reads("/working/a.mlir", {"--rule=a.mlir"}));
  EXPECT_TRUE(reads("/working/a.mlir", {"--rule=./a.mlir{flip}"}));
  EXPECT_TRUE(reads("/mine/no ending", {"--rule=../mine/no ending"}));
  EXPECT_TRUE(reads("/mine/a b.mlir", {"--set=rule=../mine/a b.mlir{x} param=f32"}));
  EXPECT_TRUE(reads("/mine/{x}.mlir", {"--rule=" + folder + "/mine/{x}.mlir"}));
  EXPECT_FALSE(reads("/templates/a.mlir", {"--rule=a.mlir"}));
}

TEST_F(RuleKey, TheRulePathHasTheRest) {
  Strings options = {"--rule=own", "--rule-path=/nowhere:" + folder + "/mine"};
  EXPECT_TRUE(reads("/mine/own.mlir", options));
  EXPECT_TRUE(reads("/templates/own.mlir", options)) << "the installation first";
  EXPECT_FALSE(reads("/mine/other.mlir", options));
  EXPECT_FALSE(reads("/mine/own.mlir", {"--rule=own"}));
}

TEST_F(RuleKey, ATextMayNameAnyRule) {
  Strings options = {"--rule-path=" + folder + "/mine"};
  EXPECT_TRUE(reads("/mine/other.mlir", options, true));
  EXPECT_TRUE(reads("/templates/lion.mlir", {}, true));
  EXPECT_FALSE(reads("/mine/other.txt", options, true));
}

TEST_F(RuleKey, GradientsAloneReadNoRule) {
  Strings options = {"--set=grad=bf16", "--set=grad=f32 copy=f32", "--clip"},
          names;
  EXPECT_TRUE(plainRules(options, names));
  EXPECT_TRUE(names.empty());
  EXPECT_FALSE(reads("/templates/adamw.mlir", options));
  EXPECT_FALSE(prebuiltKey({folder + "/templates"}, options).empty());
  EXPECT_TRUE(prebuiltKey({folder + "/templates"}, {"--clip"}).empty());
  options.push_back("--rule-path=" + folder);
  EXPECT_FALSE(plainRules(options, names));
}

TEST(Key, NoTwoListsOfPartsGiveOneKey) {
  auto keyOf = [](const Strings &parts) {
    std::string key;
    for (const std::string &part : parts)
      addPart(key, "option", part);
    return key;
  };
  EXPECT_NE(keyOf({"a", "b"}), keyOf({"a\noption 1\nb"}));
  EXPECT_NE(keyOf({"a", ""}), keyOf({"a"}));
}

} // namespace

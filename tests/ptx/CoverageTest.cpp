// The coverage counter names what a corpus uses and what no test has run.
#include "Coverage.h"
#include "Parser.h"
#include "TestVm.h"

#include <sstream>

using namespace ptx;

TEST(Coverage, countsFormsAsWritten) {
  auto module =
      parseModule(test::kernel("add.s32 %r2, %r0, 1; @%p0 add.s32 %r2, %r0, 1; "
                               "mov.b64 {%r3, %r4}, %rd0;"));
  FormCounts counts = countForms(*module);
  EXPECT_EQ(counts["add.s32"], 2u);
  EXPECT_EQ(counts["mov.b64 unpack2"], 1u);
  EXPECT_EQ(counts["ret"], 1u) << "the parser's own return does not count";
}

TEST(Coverage, namesTheUntested) {
  std::istringstream list("# comment\nadd.s32\t1000\nsub.s32\t10\n");
  FormCounts tested = readTested(list);
  FormCounts used{{"add.s32", 1}, {"sub.s32", 1}, {"xor.b32", 3}};
  EXPECT_EQ(untested(used, tested, 1), (std::vector<std::string>{"xor.b32"}));
  EXPECT_EQ(untested(used, tested, 1000),
            (std::vector<std::string>{"sub.s32", "xor.b32"}));
  EXPECT_TRUE(untested({}, tested, 1).empty());
}

TEST(Coverage, refusesAMalformedList) {
  for (const char *text :
       {"add.s32 1000\n", "add.s32\t\n", "add.s32\tmany\n", "add.s32\t-1\n"}) {
    std::istringstream list(text);
    EXPECT_THROW(readTested(list), std::runtime_error) << text;
  }
}

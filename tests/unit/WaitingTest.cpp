// Who waits for a compiler: threads, children of fork, and somebody who presses Ctrl-C.
#include "Folder.h"
#include "Sgd.h"
#include "compile/Compiler.h"

#include <atomic>
#include <chrono>
#include <thread>

using namespace altgrad::runtime;

namespace {

class Waiting : public Folder {
protected:
  // A compiler that notes its runs in `runs` and does `body` before it writes a bundle.
  void writeCompiler(const std::string &body) {
    compiler = folder + "/altgrad-opt";
    write(compiler, "#!/bin/sh\ncd " + folder + "\necho run >> runs\nwhile [ $# -gt 0 ]; do\n" +
                        "  if [ \"$1\" = -o ]; then out=$2; fi; shift\ndone\n"
                        "if [ \"$out\" = - ]; then out=/proc/self/fd/1; fi\n" + body +
                        "\ncp " SGD_BUNDLE " \"$out\"\n");
    chmod(compiler.c_str(), 0755);
  }
  altgrad_status compile(const std::string &spec) {
    altgrad_bundle *bundle = nullptr;
    altgrad_status status =
        altgrad_compile(spec.data(), spec.size(), "--target=x", compiler.c_str(), &bundle);
    altgrad_bundle_free(bundle);
    return status;
  }
  size_t runs() { return read(folder + "/runs").size() / 4; }
  bool happens(const std::string &file) {
    for (int i = 0; i < 2000 && read(folder + file).empty(); ++i)
      usleep(10000);
    return !read(folder + file).empty();
  }

  std::string compiler;
};

TEST_F(Waiting, TwoRulesAreCompiledAtTheSameTime) {
  writeCompiler("while [ $(wc -l < runs) -lt 2 ]; do sleep 0.01; done");
  altgrad_status other = -1;
  std::thread thread([&] { other = compile("one"); });
  EXPECT_EQ(compile("the other"), ALTGRAD_OK) << altgrad_last_error();
  thread.join();
  EXPECT_EQ(other, ALTGRAD_OK);
}

TEST_F(Waiting, OneRuleIsCompiledOnce) {
  writeCompiler("sleep 0.2");
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { good += compile("the same") == ALTGRAD_OK; });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(runs(), 1u);
}

TEST_F(Waiting, OneThatFailsIsTriedByTheNext) {
  writeCompiler("[ $(wc -l < runs) -gt 1 ] || { sleep 0.2; exit 1; }");
  altgrad_status other = -1;
  std::thread thread([&] { other = compile("again"); });
  ASSERT_TRUE(happens("/runs"));
  EXPECT_EQ(compile("again"), ALTGRAD_OK) << altgrad_last_error();
  thread.join();
  EXPECT_EQ(other, ALTGRAD_COMPILE);
}

TEST_F(Waiting, AChildOfForkCompilesWhatItsParentIsAbout) {
  writeCompiler("[ -e first ] || { echo parent > first; while [ ! -e go ]; do sleep 0.01; done; }");
  altgrad_status parents = -1;
  std::thread thread([&] { parents = compile("both"); });
  ASSERT_TRUE(happens("/first")); // else the child might be the first
  EXPECT_EQ(inChild([&] { return compile("both"); }), 0);
  write(folder + "/go", "go");
  thread.join();
  EXPECT_EQ(parents, ALTGRAD_OK);
  EXPECT_EQ(runs(), 2u);
}

TEST_F(Waiting, AnInterruptEndsTheCompilerAndLeavesNothing) {
  writeCompiler("echo $$ > pid; sleep 100");
  std::string temporary = folder + "/tmp";
  mkdir(temporary.c_str(), 0755);
  setenv("TMPDIR", temporary.c_str(), 1);
  static std::string pid; // of the last of several runs
  pid = folder + "/pid";
  altgrad_set_interrupt([] { return int32_t(!read(pid).empty()); });
  auto start = std::chrono::steady_clock::now();
  EXPECT_REFUSED(compile("rule"), ALTGRAD_INTERRUPTED, "was interrupted");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
  altgrad_set_interrupt(nullptr);
  EXPECT_TRUE(list(temporary).empty());
  EXPECT_TRUE(list(cache).empty());
  EXPECT_EQ(kill(atoi(read(pid).c_str()), 0), -1) << "its process is gone";
  writeCompiler("");
  EXPECT_EQ(compile("rule"), ALTGRAD_OK) << altgrad_last_error();
  unsetenv("TMPDIR");
}

TEST_F(Waiting, WhoWaitsForAnotherThreadIsInterruptedToo) {
  writeCompiler("while [ ! -e go ]; do sleep 0.01; done");
  altgrad_status other = -1;
  std::thread thread([&] { other = compile("rule"); });
  ASSERT_TRUE(happens("/runs"));
  altgrad_set_interrupt([] { return int32_t(1); });
  EXPECT_REFUSED(compile("rule"), ALTGRAD_INTERRUPTED, "was interrupted");
  altgrad_set_interrupt(nullptr);
  write(folder + "/go", "go");
  thread.join();
  EXPECT_EQ(other, ALTGRAD_OK) << "this thread's wish is its own";
}

// The identity of a compiler of these bytes, whose path it need not know.
TEST_F(Waiting, ACompilerIsKnownByItsBuildId) {
  auto identityOf = [&](const std::string &bytes) {
    compiler = folder + "/altgrad-opt";
    write(compiler, bytes);
    chmod(compiler.c_str(), 0755);
    Compiler found;
    EXPECT_EQ(findCompiler(compiler.c_str(), found), ALTGRAD_OK);
    return found.identity;
  };
  const std::string head("\4\0\0\0\24\0\0\0\3\0\0\0GNU\0", 16), id(20, 'a');
  const std::string with = "begin " + head + id;
  EXPECT_EQ(identityOf(with + " end"), id);
  EXPECT_EQ(identityOf(with + " stripped"), id);
  EXPECT_NE(identityOf("begin " + head + std::string(20, 'b') + " end"), id);
  EXPECT_NE(identityOf("no id"), identityOf("none either"));
  EXPECT_NE(identityOf(head), identityOf("x" + head)) << "an id that is cut off is none";
}

} // namespace

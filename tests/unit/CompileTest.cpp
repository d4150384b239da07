// altgrad_compile with shell scripts as compilers: good, hanging, dying, lying.
#include "Folder.h"
#include "Sgd.h"
#include "files/Cache.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/time.h>

namespace {

class Compile : public Folder {
protected:
  void SetUp() override {
    Folder::SetUp();
    compiler = folder + "/altgrad-opt";
    writeCompiler("cp " SGD_BUNDLE " \"$out\"");
  }
  // A compiler that notes its runs, finds its output's name and does `body`.
  void writeCompiler(const std::string &body) {
    write(compiler, "#!/bin/sh\n"
                    "cd " +
                        folder +
                        "\n"
                        "echo run >> runs\n"
                        "for a in \"$@\"; do echo \"$a\"; done > arguments\n"
                        "while [ $# -gt 0 ]; do\n"
                        "  if [ \"$1\" = -o ]; then out=$2; fi; shift\n"
                        "done\n"
                        "if [ \"$out\" = - ]; then out=/proc/self/fd/1; fi\n" +
                        body + "\n");
    chmod(compiler.c_str(), 0755);
  }
  altgrad_status compile(const char *spec, const char *options = "--target=x") {
    altgrad_bundle *bundle = nullptr;
    altgrad_status status = altgrad_compile(spec, spec ? strlen(spec) : 0,
                                            options, compiler.c_str(), &bundle);
    EXPECT_EQ(bundle != nullptr, status == ALTGRAD_OK);
    altgrad_bundle_free(bundle);
    return status;
  }
  size_t runs() { return read(folder + "/runs").size() / 4; }

  std::string compiler;
};

TEST_F(Compile, TheCompilersBundleRuns) {
  altgrad_bundle *bundle = nullptr;
  ASSERT_ALTGRAD(
      altgrad_compile("a", 1, "--target=x", compiler.c_str(), &bundle));
  altgrad_plan *raw = nullptr;
  ASSERT_ALTGRAD(altgrad_plan_create(bundle, "cpu", &raw));
  altgrad_bundle_free(bundle);
  PlanPointer plan(raw);
  Tensors actual({5000}), expected({5000});
  actual.bind(plan.get());
  ASSERT_ALTGRAD(actual.run(plan.get()));
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
}

TEST_F(Compile, AProcessCompilesOnce) {
  unsetenv("ALTGRAD_CACHE_DIR");
  setenv("HOME", "/nonexistent", 1);
  ASSERT_ALTGRAD(compile("once"));
  ASSERT_ALTGRAD(compile("once"));
  EXPECT_EQ(runs(), 1u) << "memory is the cache where there is no directory";
  ASSERT_ALTGRAD(compile("twice"));
  EXPECT_EQ(runs(), 2u);
}

TEST_F(Compile, ProcessesShareTheCache) {
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(inChild([&] { return compile("shared"); }), 0);
  EXPECT_EQ(runs(), 1u);
  EXPECT_EQ(warnings(), 0u) << printed;
}

TEST_F(Compile, ADamagedEntryIsCompiledAgain) {
  EXPECT_EQ(inChild([&] { return compile("damaged"); }), 0);
  std::string path = cache + "/" + list(cache).at(0), whole = read(path);
  for (size_t size :
       {size_t(0), size_t(1), whole.size() / 2, whole.size() - 1}) {
    write(path, whole.substr(0, size));
    size_t before = runs();
    EXPECT_EQ(inChild([&] { return compile("damaged"); }), 0) << size;
    EXPECT_EQ(runs(), before + 1) << size;
    EXPECT_EQ(warnings(), 1u) << printed;
    EXPECT_EQ(read(path), whole) << "the entry is replaced";
  }
}

TEST_F(Compile, EverythingThatMattersIsInTheKey) {
  std::string rules = folder + "/rules";
  mkdir(rules.c_str(), 0755);
  write(rules + "/adamw.mlir", "one");
  std::string path = "--rule=adamw\n--rule-path=" + rules;
  auto count = [&](const char *spec, const std::string &options) {
    EXPECT_EQ(inChild([&] { return compile(spec, options.c_str()); }), 0);
    return runs();
  };
  EXPECT_EQ(count("spec", path), 1u);
  EXPECT_EQ(count("spec", path), 1u);
  EXPECT_EQ(count("speck", path), 2u);
  EXPECT_EQ(count(nullptr, path), 3u) << "no spec is not an empty one";
  EXPECT_EQ(count("", path), 4u);
  EXPECT_EQ(count("spec", path + "\n--clip"), 5u);
  write(rules + "/adamw.mlir", "two");
  EXPECT_EQ(count("spec", path), 6u) << "a template has changed";
  timeval later[2] = {{2000000000, 0}, {2000000000, 0}};
  utimes(compiler.c_str(), later);
  EXPECT_EQ(count("spec", path), 6u) << "it is the same compiler";
  writeCompiler(": another; cp " SGD_BUNDLE " \"$out\"");
  EXPECT_EQ(count("spec", path), 7u) << "the compiler has changed";
}

// What an older altgrad left under the very same key does not load here.
TEST_F(Compile, AnEntryOfAnotherAbiIsCompiledAgain) {
  EXPECT_EQ(inChild([&] { return compile("abi"); }), 0);
  std::string path = cache + "/" + list(cache).at(0), whole = read(path);
  std::string key = whole.substr(read(SGD_BUNDLE).size());
  key.resize(key.size() - 72); // the footer
  EXPECT_NE(key.find("ABI 5"), std::string::npos);
  std::string old = read(OLD_BUNDLE);
  std::vector<char> entry =
      altgrad::runtime::packEntry(key, {old.begin(), old.end()});
  write(path, {entry.begin(), entry.end()});
  EXPECT_EQ(inChild([&] { return compile("abi"); }), 0);
  EXPECT_EQ(runs(), 2u);
  EXPECT_EQ(read(path), whole) << "the entry is replaced";
}

TEST_F(Compile, ACompilerOfAnotherAbiIsAnError) {
  writeCompiler("cp " OLD_BUNDLE " \"$out\"");
  EXPECT_REFUSED(compile("old"), ALTGRAD_BROKEN,
                 "manifest 4 (a hand), this runtime reads 5: compile it again");
  EXPECT_TRUE(list(cache).empty());
}

TEST_F(Compile, TheWordsOfAnErrorAreTheCompilers) {
  writeCompiler("echo \"-:3:5: error: no rule @adam\" >&2; exit 1");
  EXPECT_EQ(compile("wrong"), ALTGRAD_COMPILE);
  EXPECT_STREQ(altgrad_last_error(), "-:3:5: error: no rule @adam\n");
  EXPECT_TRUE(list(cache).empty());
  writeCompiler("exit 3");
  EXPECT_REFUSED(compile("wrong"), ALTGRAD_COMPILE, "exit status 3");
}

TEST_F(Compile, AHangingCompilerIsEnded) {
  writeCompiler("sleep 100 & echo $! > grandchild; echo busy >&2; wait");
  setenv("ALTGRAD_COMPILE_TIMEOUT", "2", 1); // a shell has begun by then, on a busy machine, too
  auto start = std::chrono::steady_clock::now();
  EXPECT_REFUSED(compile("hang"), ALTGRAD_COMPILE, "took more than 2 s");
  EXPECT_NE(strstr(altgrad_last_error(), "busy"), nullptr);
  unsetenv("ALTGRAD_COMPILE_TIMEOUT");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(50));
  pid_t grandchild = atoi(read(folder + "/grandchild").c_str());
  ASSERT_GT(grandchild, 0);
  auto state = [&] { return read("/proc/" + std::to_string(grandchild) + "/stat"); };
  auto hasEnded = [&] { return state().empty() || state().find(") Z") != std::string::npos; };
  for (int i = 0; i < 2000 && !hasEnded(); ++i)
    usleep(10000);
  EXPECT_TRUE(hasEnded()) << state();
}

TEST_F(Compile, ADyingCompilerIsAnError) {
  writeCompiler("echo oops >&2; kill -SEGV $$");
  EXPECT_REFUSED(compile("die"), ALTGRAD_COMPILE, "signal 11");
  EXPECT_NE(strstr(altgrad_last_error(), "oops"), nullptr);
}

TEST_F(Compile, ALyingCompilerIsAnError) {
  writeCompiler("exit 0");
  EXPECT_REFUSED(compile("lie"), ALTGRAD_COMPILE, "wrote no bundle");
  writeCompiler(": > \"$out\"");
  EXPECT_REFUSED(compile("lie"), ALTGRAD_COMPILE, "wrote no bundle");
  writeCompiler("echo garbage > \"$out\"");
  EXPECT_REFUSED(compile("lie"), ALTGRAD_BROKEN, "does not end in a digest");
  writeCompiler("head -c 5000 " SGD_BUNDLE " > \"$out\"");
  EXPECT_REFUSED(compile("lie"), ALTGRAD_BROKEN, "does not end in a digest");
  EXPECT_TRUE(list(cache).empty()) << "none of it is kept";
}

TEST_F(Compile, ArgumentsPassAsTheyAre) {
  writeCompiler("cat > spec; cp " SGD_BUNDLE " \"$out\"");
  const char *options = "--rule=adamw\n\n--storage=a b;$(touch x) 'c\n--clip";
  ASSERT_ALTGRAD(compile("the\nspec", options));
  EXPECT_EQ(read(folder + "/spec"), "the\nspec");
  std::string arguments = read(folder + "/arguments");
  EXPECT_EQ(arguments.find("--rule=adamw\n--storage=a b;$(touch x) 'c\n--clip\n"
                           "--emit=bundle\n-o\n"),
            0u)
      << arguments;
  EXPECT_EQ(arguments.substr(arguments.size() - 2), "-\n");
  ASSERT_ALTGRAD(compile(nullptr, options));
  EXPECT_NE(read(folder + "/arguments").substr(arguments.size() - 2), "-\n");
}

TEST_F(Compile, OptionsThatAreNoneAreRefused) {
  for (const char *bad : {"-o=x", "adamw", "--rule=a\nx.mlir", "--", " --clip"})
    EXPECT_REFUSED(compile("s", bad), ALTGRAD_INVALID,
                   "does not begin with --");
  for (const char *ours : {"--emit=ptx", "--emit", "--o=x", "--o"})
    EXPECT_REFUSED(compile("s", ours), ALTGRAD_INVALID, "by the runtime");
  for (const char *program : {"--ptxas=/bin/true", "--ptxas"})
    EXPECT_REFUSED(compile("s", program), ALTGRAD_INVALID, "are built ahead");
  for (const char *bare : {"--rule\n--x", "--rule-path\n--x", "--set"})
    EXPECT_REFUSED(compile("s", bare), ALTGRAD_INVALID, "has no value: write");
  for (const char *bad : {"--storage=a\rb", "--storage=a\tb", "--rule=\x01",
                          "--rule=a\x7f"})
    EXPECT_REFUSED(compile("s", bad), ALTGRAD_INVALID, "a control character");
  EXPECT_REFUSED(compile(nullptr, ""), ALTGRAD_INVALID, "neither spec nor");
  altgrad_bundle *bundle = nullptr;
  std::string big(1 << 20, ' ');
  EXPECT_REFUSED(
      altgrad_compile(big.data(), big.size() + 1, "--x", nullptr, &bundle),
      ALTGRAD_INVALID, "more than 1 MiB");
  EXPECT_EQ(runs(), 0u);
}

TEST_F(Compile, NoDescriptorIsInherited) {
  writeCompiler("ls -l /proc/$$/fd > descriptors; cp " SGD_BUNDLE " \"$out\"");
  int leak = open("/dev/zero", O_RDONLY); // without O_CLOEXEC
  ASSERT_ALTGRAD(compile("descriptors"));
  close(leak);
  std::string open = read(folder + "/descriptors");
  EXPECT_EQ(open.find("/dev/zero"), std::string::npos) << open;
}

TEST_F(Compile, TheCompilerIsFound) {
  altgrad_bundle *bundle = nullptr;
  auto find = [&](const char *given) {
    return altgrad_compile("find", 4, "--x", given, &bundle);
  };
  EXPECT_REFUSED(find("/nowhere/altgrad-opt"), ALTGRAD_NOT_FOUND,
                 "/nowhere/altgrad-opt is not a program");
  EXPECT_REFUSED(find("/etc/passwd"), ALTGRAD_NOT_FOUND, "is not a program");
  setenv("ALTGRAD_OPT", "/nowhere", 1);
  EXPECT_REFUSED(find(nullptr), ALTGRAD_NOT_FOUND, "(from ALTGRAD_OPT)");
  setenv("ALTGRAD_OPT", compiler.c_str(), 1);
  ASSERT_ALTGRAD(find(nullptr));
  altgrad_bundle_free(bundle);
  unsetenv("ALTGRAD_OPT");
  std::string before = getenv("PATH");
  setenv("PATH", ("/nowhere::.:" + folder + ":" + before).c_str(), 1);
  ASSERT_ALTGRAD(find(nullptr));
  altgrad_bundle_free(bundle);
  setenv("PATH", "/nowhere:.:", 1);
  ASSERT_EQ(chdir(folder.c_str()), 0);
  // Never from the current folder.
  EXPECT_REFUSED(find(nullptr), ALTGRAD_NOT_FOUND, "no compiler: altgrad-opt");
  setenv("PATH", before.c_str(), 1);
  ASSERT_EQ(chdir("/"), 0);
}

// As containers have it: the same program and rules, under other paths.
TEST_F(Compile, InstallationsShareTheCache) {
  for (const char *place : {"/one", "/two"}) {
    std::string root = folder + place;
    for (const std::string &made : {root, root + "/bin", root + "/templates"})
      mkdir(made.c_str(), 0755);
    write(root + "/templates/adamw.mlir", "a rule");
    write(root + "/bin/altgrad-opt", read(compiler));
    chmod((root + "/bin/altgrad-opt").c_str(), 0755);
  }
  for (const char *place : {"/one", "/two"})
    for (const char *spec : {"", "text"}) {
      compiler = folder + place + "/bin/altgrad-opt";
      EXPECT_EQ(inChild([&] { return compile(*spec ? spec : nullptr, "--rule=adamw\n--profile=x"); }), 0);
    }
  EXPECT_EQ(runs(), 2u);
}

TEST_F(Compile, AProgramThatIgnoresItsChildrenCanCompile) {
  auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(compile("ignored"), ALTGRAD_OK) << altgrad_last_error();
  writeCompiler("echo \"-:3:5: error: no rule @adam\" >&2; exit 1");
  EXPECT_EQ(compile("refused"), ALTGRAD_COMPILE);
  EXPECT_STREQ(altgrad_last_error(), "-:3:5: error: no rule @adam\n");
  writeCompiler("exit 1");
  EXPECT_REFUSED(compile("silent"), ALTGRAD_COMPILE, "wrote no bundle; why is not known where SIGCHLD is ignored");
  signal(SIGCHLD, before);
  EXPECT_REFUSED(compile("silent"), ALTGRAD_COMPILE, "exit status 1");
}

TEST_F(Compile, AFloodOfWordsIsBounded) {
  writeCompiler("head -c 20000000 /dev/zero | tr '\\0' x >&2; exit 1");
  EXPECT_EQ(compile("flood"), ALTGRAD_COMPILE);
  EXPECT_LT(strlen(altgrad_last_error()), 100000u);
}

// Who may write to the folder of temporary files would replace it on its way.
TEST_F(Compile, ABundleOnItsWayHasNoName) {
  std::string temporary = folder + "/tmp";
  mkdir(temporary.c_str(), 0755);
  setenv("TMPDIR", temporary.c_str(), 1);
  writeCompiler("here=$(readlink /proc/$$/fd/1); echo $(ls tmp)$here > meanwhile; cp " SGD_BUNDLE " \"$out\"");
  ASSERT_ALTGRAD(compile("unnamed"));
  unsetenv("TMPDIR");
  EXPECT_EQ(read(folder + "/meanwhile"), "/memfd:altgrad-out (deleted)\n");
  EXPECT_TRUE(list(temporary).empty());
}

} // namespace

// Programmatic dependent launch: what a thread may not do before it has waited
// for the launch before.
#include "Machine.h"
#include "Parser.h"
#include "TestVm.h"

using namespace ptx::test;

namespace {

constexpr char waits[] = "griddepcontrol.wait;\n",
               lets[] = "griddepcontrol.launch_dependents;\n",
               loads[] = "ld.global.b32 %r2, [%rd1];\n",
               stores[] = "st.global.b32 [%rd1], 1;\n";

std::string followerFault(const std::string &body, unsigned flags = 0) {
  Vm vm(kernel(body));
  std::vector<uint32_t> out(64);
  vm.map(out, flags);
  vm.options.follows = 1;
  return vm.with(out).size(1, 64).fault();
}

TEST(Overlap, waitingComesBeforeEverythingButReadOnlyMemory) {
  std::string w = waits, l = lets, load = loads, store = stores;
  EXPECT_EQ(followerFault(w + l + load + store), "none");
  EXPECT_EQ(followerFault(load + w), "overlap");
  EXPECT_EQ(followerFault(load + w, PTX_READ_ONLY), "none");
  EXPECT_EQ(followerFault(store + w), "overlap");
  EXPECT_EQ(followerFault(l + w), "overlap");
  EXPECT_EQ(followerFault(""), "overlap");
  EXPECT_EQ(followerFault("setp.eq.u32 %p0, %r0, 63;\n@%p0 ret;\n" + w),
            "overlap")
      << "one thread of many";
  EXPECT_EQ(faultOf(l + store + w), "none") << "it comes first";
}

TEST(Overlap, aVariableOfTheModuleThatIsReadEarlyIsAConstantFromThenOn) {
  const std::string cell = ".global .align 4 .b32 cell = 77;",
                    at = "mov.u64 %rd3, cell;\n",
                    load = at + "ld.global.nc.b32 %r2, [%rd3];\n",
                    store = at + "st.global.b32 [%rd3], 1;\n";
  auto faults = [&](const std::string &body) {
    Vm vm(kernel(body, cell));
    std::vector<uint32_t> out(1);
    vm.map(out);
    std::string first = vm.with(out).fault(); // which follows no launch
    vm.options.follows = 1;
    return first + ", " + vm.fault();
  };
  EXPECT_EQ(faults(load + waits), "none, none");
  EXPECT_EQ(faults(waits + load + store), "none, none");
  EXPECT_EQ(faults(load + waits + store), "none, overlap");
  Vm vm(kernel(load + waits + store, cell));
  std::vector<uint32_t> out(1);
  vm.map(out);
  vm.options.follows = 1;
  EXPECT_EQ(vm.with(out).fault(), "read-only");
}

// Two launches of `k` by hand, the second of which begins before the first.
struct Pair {
  explicit Pair(const std::string &first, const std::string &second)
      : one(ptx::parseModule(kernel(first))),
        two(ptx::parseModule(kernel(second))) {
    memory.map("words", uint64_t(words), sizeof words, (uint8_t *)words, 0);
    uint64_t address = uint64_t(words);
    options.parameters.resize(8);
    memcpy(options.parameters.data(), &address, 8);
    options.grid = {3, 1, 1};
  }
  ptx::FaultKind run(bool ahead) {
    ptx::Machine before(*one, *one->find("k"), memory, options);
    ptx::LaunchOptions follows = options;
    follows.follows = true;
    follows.before = before.launchNumber;
    ptx::Machine after(*two, *two->find("k"), memory, follows);
    if (ahead) {
      if (ptx::FaultKind fault = after.begin(2).fault; bool(fault))
        return fault;
      before.overlapWith(after.launchNumber);
    }
    if (ptx::FaultKind fault = before.run().fault; bool(fault))
      return fault;
    return after.run().fault;
  }
  std::unique_ptr<ptx::Module> one, two;
  ptx::Memory memory;
  ptx::LaunchOptions options;
  uint32_t words[8] = {};
};

const std::string own = "mad.wide.u32 %rd2, %r1, 4, %rd0;\n",
                  fill = own + "st.global.b32 [%rd2], 7;\n",
                  look = own + "ld.global.b32 %r2, [%rd2];\n",
                  raise = "add.u32 %r2, %r2, 1;\nst.global.b32 [%rd2], %r2;\n";

TEST(Overlap, theNextLaunchGoesOnWhenTheOneBeforeHasEnded) {
  for (bool ahead : {false, true}) {
    Pair pair(lets + fill, waits + look + raise);
    EXPECT_EQ(pair.run(ahead), ptx::FaultKind::None);
    EXPECT_EQ(pair.words[2], 8u);
  }
}

TEST(Overlap, whatBothTouchIsARaceInEitherOrder) {
  for (bool ahead : {false, true}) {
    EXPECT_EQ(Pair(lets + fill, look + waits + raise).run(ahead),
              ptx::FaultKind::GlobalRace)
        << "a load that comes early";
    EXPECT_EQ(Pair(lets + look, fill + waits).run(ahead),
              ptx::FaultKind::GlobalRace)
        << "a store that comes early";
    EXPECT_EQ(Pair(lets + look, look + waits).run(ahead), ptx::FaultKind::None);
  }
}

} // namespace

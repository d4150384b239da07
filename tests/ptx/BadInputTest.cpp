// Truncated, mutated and random text: a message with a line or a valid module,
// never a crash.
#include "TestVm.h"

#include <random>

using namespace ptx::test;

static const char *const Samples[] = {"adamw.ptx", "lion-bf16.ptx", "norm.ptx",
                                      "fp8-block.ptx", "philox.ptx"};

/// Accepts, or says "line N: ..." with N inside the text.
static void accountFor(const std::string &text, unsigned &accepted) {
  std::string answer = refusal(text);
  if (answer == "accepted") {
    ++accepted;
    return;
  }
  unsigned line = 0;
  ASSERT_EQ(std::sscanf(answer.c_str(), "line %u: ", &line), 1) << answer;
  ASSERT_GE(line, 1u) << answer;
  ASSERT_LE(line, 1u + size_t(std::count(text.begin(), text.end(), '\n')))
      << answer;
}

TEST(BadInput, everyPrefixOfTheSamples) {
  for (const char *name : Samples) {
    std::string text = readKernel(name);
    unsigned accepted = 0;
    for (size_t length = 0; length < text.size(); ++length)
      accountFor(text.substr(0, length), accepted);
    // Nothing but the header, or the whole kernel without its last newline.
    EXPECT_LT(accepted, 60u) << name;
  }
}

TEST(BadInput, randomMutationsOfTheSamples) {
  std::mt19937 random(7);
  unsigned accepted = 0, total = 0;
  for (const char *name : Samples) {
    const std::string text = readKernel(name);
    for (unsigned n = 0; n < 1500; ++n, ++total) {
      std::string changed = text;
      for (unsigned edits = 1 + random() % 3; edits; --edits) {
        size_t at = random() % changed.size(), to = random() % changed.size();
        switch (random() % 4) {
        case 0:
          changed[at] = char(random() % 256);
          break;
        case 1:
          changed.erase(at, 1 + random() % 20);
          break;
        case 2:
          changed.insert(at, changed.substr(to, random() % 30));
          break;
        case 3:
          std::swap(changed[at], changed[to]);
          break;
        }
      }
      accountFor(changed, accepted);
    }
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, total);
}

TEST(BadInput, randomBytesAndRandomWords) {
  std::mt19937 random(8);
  const char *const words[] = {
      ".entry",  "{",          "}",       "(",      ")",
      ".param",  ".reg",       ".b32",    "%r<4>",  ";",
      "add.s32", "%r1",        ",",       "[",      "]",
      "@",       "bra",        "x",       ":",      "=",
      "1",       "0f00000000", ".shared", ".align", ".branchtargets"};
  unsigned accepted = 0;
  for (unsigned n = 0; n < 3000; ++n) {
    std::string bytes, soup = header(".visible .entry k() {\n");
    for (unsigned i = random() % 200; i; --i)
      bytes += char(random() % 256);
    for (unsigned i = random() % 60; i; --i)
      soup += std::string(words[random() % std::size(words)]) +
              (random() % 8 ? " " : "\n");
    accountFor(bytes, accepted);
    accountFor(soup, accepted);
  }
}

TEST(BadInput, hostileSizes) {
  EXPECT_NE(refusal(header(".visible .entry k() {" + std::string(100000, '{'))),
            "accepted");
  EXPECT_NE(refusal(header(".global .align 4 .b8 x[99999999999];")),
            "accepted");
  EXPECT_NE(
      refusal(header(".visible .entry k() { .shared .b8 s[4294967295]; }")),
      "accepted");
  EXPECT_NE(refusal(std::string(1 << 20, '[')), "accepted");
  EXPECT_NE(refusal(header(".visible .entry k(.param .b8 p[40000]) { ret; }")),
            "accepted");
}

TEST(BadInput, mutatedKernelsRunToAnEndOrAFault) {
  std::mt19937 random(9);
  const std::string text = readKernel("norm.ptx");
  unsigned faults = 0, runs = 0;
  for (unsigned n = 0; n < 1500; ++n) {
    std::string changed = text;
    size_t from = text.find("mov.u32"),
           at = from + random() % (text.size() - from);
    changed[at] = "0123456789rdfp"[random() % 14];
    ptx_vm *vm = ptx_create(changed.c_str());
    if (!vm)
      continue;
    std::vector<uint32_t> data(64);
    uint64_t address = uint64_t(data.data());
    ASSERT_TRUE(ptx_map(vm, address, data.data(), 256, 0));
    uint64_t parameters[] = {address, 40, address + 160, address + 240,
                             address + 248};
    ptx_launch_options o{};
    o.grid[0] = 2;
    o.grid[1] = o.grid[2] = o.block[1] = o.block[2] = 1;
    o.block[0] = 64;
    o.parameters = parameters;
    o.parameter_bytes = sizeof parameters;
    o.step_limit = 20000;
    ++runs;
    faults += !ptx_launch(vm, "norm", &o);
    ptx_destroy(vm);
  }
  EXPECT_GT(runs, 100u);
  EXPECT_GT(faults, 20u);
  EXPECT_LT(faults, runs);
}

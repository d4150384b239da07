// The sample kernels under kernels/ give what the same formulas give on the
// host.
#include "TestVm.h"

#include "SoftFloat.h"

#include <cmath>
#include <random>

using namespace ptx::test;
using namespace ptx;

namespace {

uint32_t bitsOf(float f) {
  uint32_t b;
  std::memcpy(&b, &f, 4);
  return b;
}
float floatOf(uint32_t b) {
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}

std::vector<float> random(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> v(n);
  for (float &x : v)
    x = normal(engine);
  return v;
}

} // namespace

TEST(Kernels, adamwEqualsTheHostBitForBit) {
  const float keep = 0.999f, blend1 = 0.1f, blend2 = 0.001f, beta2 = 0.999f;
  const float rate = 1e-3f, root2 = 0.0316f, eps = 1e-8f;
  for (size_t n : {1u, 3u, 4u, 1023u, 1024u, 1030u, 5000u}) {
    // The host's allocator gives 16-byte alignment.
    auto p = random(n, 1), g = random(n, 2, 1e-2f), m = random(n, 3, 1e-3f),
         v = random(n, 4);
    for (float &x : v)
      x *= x;
    auto wantP = p, wantM = m, wantV = v;
    for (size_t i = 0; i < n; ++i) {
      wantM[i] = std::fma(blend1, g[i] - m[i], m[i]);
      float square = blend2 * g[i];
      square = square * g[i];
      wantV[i] = beta2 * v[i] + square;
      float denominator = std::sqrt(wantV[i]) / root2 + eps;
      wantP[i] = p[i] * keep - rate * (wantM[i] / denominator);
    }
    Vm vm(readKernel("adamw.ptx"));
    for (auto *t : {&p, &g, &m, &v})
      vm.map(*t, t == &g ? PTX_READ_ONLY : 0);
    std::vector<uint64_t> rows{uint64_t(p.data()), uint64_t(g.data()),
                               uint64_t(m.data()), uint64_t(v.data()), n};
    std::vector<uint64_t> chunks;
    for (size_t first = 0; first < n; first += 1024)
      chunks.insert(chunks.end(), {0, first});
    std::vector<float> scalars{keep, blend1, blend2, beta2,
                               rate, root2,  eps,    0};
    vm.map(rows, PTX_READ_ONLY);
    vm.map(chunks, PTX_READ_ONLY);
    vm.map(scalars, PTX_READ_ONLY);
    vm.with(rows)
        .with(chunks)
        .with(uint64_t(chunks.size() / 2))
        .with(scalars)
        .size(2, 256);
    ASSERT_TRUE(vm.launch("adamw")) << vm.message;
    EXPECT_EQ(0, std::memcmp(p.data(), wantP.data(), n * 4)) << n;
    EXPECT_EQ(0, std::memcmp(m.data(), wantM.data(), n * 4)) << n;
    EXPECT_EQ(0, std::memcmp(v.data(), wantV.data(), n * 4)) << n;
  }
}

TEST(Kernels, lionInBfloat16) {
  const float beta1 = 0.9f, blend1 = 0.1f, beta2 = 0.99f, blend2 = 0.01f,
              rate = 1e-3f, decay = 0.1f;
  const size_t n = 4096;
  auto narrow = [](float x) {
    return uint16_t(
        soft::convert(F32, BF16, bitsOf(x), Rounding::NearestEven, false));
  };
  auto wide = [](uint16_t x) { return floatOf(uint32_t(x) << 16); };
  std::vector<uint16_t> p, g, m, wantP, wantM;
  auto fp = random(n, 1), fg = random(n, 2), fm = random(n, 3);
  fg[7] = fm[7] = 0; // sign(0) = 0
  for (size_t i = 0; i < n; ++i) {
    p.push_back(narrow(fp[i]));
    g.push_back(narrow(fg[i]));
    m.push_back(narrow(fm[i]));
    float x = wide(p[i]), y = wide(g[i]), z = wide(m[i]);
    float c = std::fma(beta1, z, blend1 * y);
    float sign = c == 0 ? 0 : std::copysign(1.0f, c);
    wantP.push_back(narrow(x - rate * std::fma(decay, x, sign)));
    wantM.push_back(narrow(std::fma(beta2, z, blend2 * y)));
  }
  std::vector<float> scalars{beta1, blend1, beta2, blend2, rate, decay, 0, 0};
  Vm vm(readKernel("lion-bf16.ptx"));
  vm.map(p);
  vm.map(g, PTX_READ_ONLY);
  vm.map(m);
  vm.map(scalars, PTX_READ_ONLY);
  vm.with(p).with(g).with(m).with(uint64_t(n)).with(scalars).size(9, 64);
  ASSERT_TRUE(vm.launch("lion")) << vm.message;
  EXPECT_EQ(p, wantP);
  EXPECT_EQ(m, wantM);
}

TEST(Kernels, normIsTheSameInEveryBlockOrder) {
  auto x = random(10000, 5);
  std::vector<uint32_t> bits;
  for (uint32_t order : {PTX_FORWARD, PTX_BACKWARD, PTX_SHUFFLED}) {
    Vm vm(readKernel("norm.ptx"));
    std::vector<float> partials(7), result(1);
    std::vector<uint32_t> ticket(1);
    vm.map(x, PTX_READ_ONLY);
    vm.map(partials, PTX_UNINITIALISED);
    vm.map(ticket);
    vm.map(result, PTX_UNINITIALISED);
    vm.options.order = order;
    vm.options.resident_blocks = order + 1;
    vm.with(x)
        .with(uint64_t(x.size()))
        .with(partials)
        .with(ticket)
        .with(result)
        .size(7, 256);
    ASSERT_TRUE(vm.launch("norm")) << vm.message;
    bits.push_back(bitsOf(result[0]));
    EXPECT_EQ(ticket[0], 0u);
  }
  EXPECT_EQ(bits[0], bits[1]);
  EXPECT_EQ(bits[0], bits[2]);
  double sum = 0;
  for (float y : x)
    sum += double(y) * y;
  EXPECT_NEAR(floatOf(bits[0]), sum, sum * 1e-6);
}

TEST(Kernels, normWithoutItsFenceIsFound) {
  std::string text = readKernel("norm.ptx");
  text.replace(text.find("fence.acq_rel.gpu;"), 18, "");
  auto x = random(1000, 5);
  Vm vm(text);
  std::vector<float> partials(3), result(1);
  std::vector<uint32_t> ticket(1);
  vm.map(x);
  vm.map(partials);
  vm.map(ticket);
  vm.map(result);
  vm.with(x)
      .with(uint64_t(x.size()))
      .with(partials)
      .with(ticket)
      .with(result)
      .size(3, 128);
  EXPECT_EQ(vm.fault("norm"), "global-race");
}

TEST(Kernels, fp8BlocksAreTheNearestCodes) {
  const size_t blocks = 40, n = blocks * 32;
  auto x = random(n, 6);
  for (size_t i = 0; i < n; ++i)
    x[i] = std::ldexp(x[i], int(i / 32) * 7 - 140);
  x[3] = 0;
  std::vector<uint8_t> codes(n);
  std::vector<float> scales(blocks), back(n);
  Vm vm(readKernel("fp8-block.ptx"));
  vm.map(x, PTX_READ_ONLY);
  vm.map(codes, PTX_UNINITIALISED);
  vm.map(scales, PTX_UNINITIALISED);
  vm.map(back, PTX_UNINITIALISED);
  vm.with(x).with(codes).with(scales).with(back).size(blocks, 32);
  ASSERT_TRUE(vm.launch("fp8")) << vm.message;
  for (size_t i = 0; i < n; ++i) {
    float scale = scales[i / 32];
    ASSERT_EQ(scale, std::ldexp(1.0f, std::ilogb(scale)));
    uint64_t want = soft::convert(F32, E4M3, bitsOf(x[i] / scale),
                                  Rounding::NearestEven, true);
    ASSERT_EQ(codes[i], want) << i;
    ASSERT_EQ(back[i], floatOf(uint32_t(soft::convert(
                           E4M3, F32, want, Rounding::NearestEven, false))) *
                           scale)
        << i;
  }
}

TEST(Kernels, philoxKnownAnswers) {
  struct Known {
    std::vector<uint32_t> state, want;
  };
  const Known all[] = {
      {{0, 0, 0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (Known known : all) {
    Vm vm(readKernel("philox.ptx"));
    std::vector<uint32_t> out(40 * 4);
    vm.map(known.state, PTX_READ_ONLY);
    vm.map(out, PTX_UNINITIALISED);
    vm.with(known.state).with(out).with(uint32_t(40)).size(2, 32);
    ASSERT_TRUE(vm.launch("philox")) << vm.message;
    out.resize(4);
    EXPECT_EQ(out, known.want);
  }
}

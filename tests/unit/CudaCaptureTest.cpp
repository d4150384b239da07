// Captured graphs, and numbers that a plan brings to the device.
#include "CudaFixture.h"

namespace {

// What a graph is captured with stays as it was, whatever is bound afterwards;
// its replays and other runs of the plan follow each other.
TEST_F(Cuda, CapturedGraphsHaveTablesOfTheirOwn) {
  Tensors actual({5000, 7}), other({5000, 7}), expected({5000, 7});
  PlanPointer plan = planSgd("cuda:0");
  actual.bind(plan.get());
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *streams[] = {cuNewStream(), cuNewStream()};
  Graph graph = capture(streams[0], [&] {
    ASSERT_ALTGRAD(altgrad_run(plan.get(), actual.workspace.get(),
                               actual.workspaceBytes, 0, -1, streams[0]));
  });
  EXPECT_EQ(fakecuda_get("launches"), 0) << "what is captured is not done";
  auto grads = Tensors::pointers(other.grads);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cu("cuGraphLaunch", graph.get(), streams[i % 2]), 0);
    expected.step();
    ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "grads", grads.data(), 2));
    ASSERT_ALTGRAD(altgrad_run(plan.get(), actual.workspace.get(),
                               actual.workspaceBytes, 0, -1, streams[1]));
    expected.grads.swap(other.grads);
    expected.step();
    expected.grads.swap(other.grads);
  }
  fakecuda_drain();
  EXPECT_STREQ(fakecuda_fault(), "");
  EXPECT_TRUE(actual.equals(expected));
}

// Whoever reads or writes a block that went back finds these bytes.
void spoilSpareBlocks() {
  std::shared_ptr<altgrad::runtime::Gpu> gpu;
  ASSERT_ALTGRAD(altgrad::runtime::Gpu::find(0, gpu));
  std::vector<altgrad::runtime::Block> blocks(20);
  for (auto &block : blocks) {
    ASSERT_ALTGRAD(gpu->acquire(1, block));
    EXPECT_EQ(cu("cuMemsetD8Async", block.device, (unsigned char)0xee,
                 block.bytes, (void *)nullptr),
              0);
  }
  fakecuda_drain();
  for (auto &block : blocks)
    gpu->giveBack(block, nullptr);
}

TEST_F(Cuda, AGraphKeepsTablesEventsAndModuleWhenItsPlanIsGone) {
  Tensors actual({5000, 7}), expected({5000, 7});
  PlanPointer plan = planSgd("cuda:0");
  actual.bind(plan.get());
  ASSERT_ALTGRAD(actual.run(plan.get()));
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *stream = cuNewStream();
  Graph graph = capture(stream, [&] {
    ASSERT_ALTGRAD(altgrad_run(plan.get(), actual.workspace.get(),
                               actual.workspaceBytes, 0, -1, stream));
  });
  plan.reset(); // and with it the last handle of its bundle
  spoilSpareBlocks();
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(cu("cuGraphLaunch", graph.get(), stream), 0);
  fakecuda_drain();
  EXPECT_STREQ(fakecuda_fault(), "");
  for (int i = 0; i < 4; ++i)
    expected.step();
  EXPECT_TRUE(actual.equals(expected));
}

TEST_F(Cuda, CapturedAThousandTimesNothingGrows) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda:0");
  t.bind(plan.get());
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *stream = cuNewStream();
  int64_t alive = 0;
  for (int i = 0; i < 1000; ++i) {
    Graph graph = capture(stream, [&] {
      ASSERT_ALTGRAD(altgrad_run(plan.get(), t.workspace.get(),
                                 t.workspaceBytes, 0, -1, stream));
    });
    if (i == 10)
      alive = fakecuda_get("alive");
  }
  EXPECT_LE(fakecuda_get("alive"), alive);
}

// What a test has handed to graphs, and what came back.
struct Memory {
  int held = 0, released = 0;
  static void *hold(void *context) {
    ++static_cast<Memory *>(context)->held;
    return context;
  }
  static void release(void *held) { ++static_cast<Memory *>(held)->released; }
};

TEST_F(Cuda, AnOwnersMemoryIsKeptUntilTheGraphIsGone) {
  Tensors t({5000});
  Memory memory;
  PlanPointer plan = planSgd("cuda:0"), other = planSgd("cuda:0");
  ASSERT_ALTGRAD(altgrad_set_owner(plan.get(), Memory::hold, Memory::release,
                                   &memory));
  t.bind(plan.get());
  t.bind(other.get());
  ASSERT_ALTGRAD(t.run(plan.get()));
  EXPECT_EQ(memory.held, 0) << "nobody captures";
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *stream = cuNewStream();
  Graph graph = capture(stream, [&] {
    ASSERT_ALTGRAD(altgrad_run(plan.get(), t.workspace.get(), t.workspaceBytes,
                               0, -1, stream));
  });
  EXPECT_EQ(memory.held, 1);
  plan.reset();
  ASSERT_ALTGRAD(t.run(other.get()));
  EXPECT_EQ(memory.released, 0) << "the graph is alive";
  graph.reset();
  EXPECT_EQ(memory.released, 0) << "in the driver's thread nobody is called";
  ASSERT_ALTGRAD(t.run(other.get()));
  EXPECT_EQ(memory.released, 1);
}

TEST_F(Cuda, AnOwnerWithoutMemoryFailsTheRun) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda:0");
  auto none = [](void *) -> void * { return nullptr; };
  ASSERT_ALTGRAD(altgrad_set_owner(plan.get(), none, Memory::release, nullptr));
  t.bind(plan.get());
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *stream = cuNewStream();
  Graph graph = capture(stream, [&] {
    EXPECT_REFUSED(altgrad_run(plan.get(), t.workspace.get(), t.workspaceBytes,
                               0, -1, stream),
                   ALTGRAD_SYSTEM, "keeps no memory");
  });
}

TEST_F(Cuda, ADriverThatKeepsNothingIsRefused) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda:0");
  t.bind(plan.get());
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *stream = cuNewStream();
  for (const char *function : {"cuUserObjectCreate", "cuGraphRetainUserObject"}) {
    fakecuda_fail(function, 801, 1, 1);
    Graph graph = capture(stream, [&] {
      EXPECT_REFUSED(altgrad_run(plan.get(), t.workspace.get(),
                                 t.workspaceBytes, 0, -1, stream),
                     ALTGRAD_CUDA, "keeping tables with a captured graph");
    });
  }
  ASSERT_ALTGRAD(t.run(plan.get()));
  fakecuda_drain();
  EXPECT_STREQ(fakecuda_fault(), "");
}

TEST_F(Cuda, NothingUnderCaptureIsRefusedByTheDriver) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda:0"), gone = planSgd("cuda:0");
  t.bind(gone.get());
  ASSERT_ALTGRAD(t.run(gone.get()));
  fakecuda_drain();
  t.bind(plan.get());
  cu("cuCtxPushCurrent", cuPrimaryContext());
  void *stream = cuNewStream();
  fakecuda_clear_calls();
  Graph graph = capture(stream, [&] {
    for (int64_t phase = 0; phase < 4; ++phase)
      ASSERT_ALTGRAD(altgrad_run(plan.get(), t.workspace.get(),
                                 t.workspaceBytes, phase, phase + 1, stream));
    gone.reset();
  });
  EXPECT_EQ(fakecuda_calls("cuMemcpyHtoDAsync"), 1) << "one copy of the tables";
  EXPECT_EQ(fakecuda_calls("cuMemFree"), 0);
}

TEST_F(Cuda, MirroredValuesAreSentWhereTheyDiffer) {
  Tensors actual({5000}), expected({5000});
  PlanPointer plan = planSgd("cuda:0");
  actual.bind(plan.get());
  double rates[2] = {0.5, 0.25};
  void *pointers[] = {&rates[0], &rates[1]};
  ASSERT_ALTGRAD(altgrad_mirror(plan.get(), rates, sizeof rates));
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "lr", pointers, 2));
  double sent = 0;
  for (double rate : {0.5, 0.5, 0.125}) {
    rates[0] = rate;
    fakecuda_clear_calls();
    ASSERT_ALTGRAD(actual.run(plan.get()));
    rates[0] = 1e9; // what is sent is what it was
    fakecuda_drain();
    expected.lr[0] = rate;
    expected.step();
    EXPECT_TRUE(actual.equals(expected)) << rate;
    bool another = rate != sent;
    EXPECT_EQ(fakecuda_calls("cuMemcpyHtoDAsync"), another) << rate;
    rates[0] = sent = rate;
  }
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "gnorm", pointers, 1),
                 ALTGRAD_INVALID, "lies among the mirrored values");
  fakecuda_drain();
}

TEST_F(Cuda, OutOfMemoryForMirroredValuesCanBeTriedAgain) {
  Tensors actual({5000}), expected({5000});
  PlanPointer plan = planSgd("cuda:0");
  actual.bind(plan.get());
  std::vector<double> rates(100000, 0.5); // more than the tables' block has
  void *pointers[] = {&rates[0], &rates[99999]};
  fakecuda_fail("cuMemAlloc", 2, 1, -1);
  for (int i = 0; i < 2; ++i) {
    altgrad_status status =
        altgrad_mirror(plan.get(), rates.data(), rates.size() * sizeof(double));
    if (!i)
      EXPECT_REFUSED(status, ALTGRAD_CUDA, "memory for the tables of a plan");
    EXPECT_REFUSED(actual.run(plan.get()), ALTGRAD_CUDA, "memory for the");
  }
  fakecuda_fail(nullptr, 0, 0, 0);
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "lr", pointers, 2));
  ASSERT_ALTGRAD(actual.run(plan.get()));
  fakecuda_drain();
  expected.lr[0] = expected.lr[1] = 0.5;
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
}

} // namespace

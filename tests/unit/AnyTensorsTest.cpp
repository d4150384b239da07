// Random tensors: whatever is accepted keeps the promises of Tensors.h, and nothing crashes.
#include "Sgd.h"
#include "bundle/Bundle.h"
#include "plan/Plan.h"

#include <random>

using namespace altgrad::runtime;

namespace {

using Random = std::mt19937;

int64_t someNumber(Random &random) {
  static const int64_t all[] = {-1, 0, 1, 2, 3, 5, 32, 64, 4095, 4096, 4097,
                                int64_t(1) << 32, int64_t(1) << 44, INT64_MAX,
                                INT64_MIN};
  return all[random() % (random() % 4 ? 7 : std::size(all))];
}

// Declares random tensors; few enough elements that a plan of them is small.
void declareSome(altgrad_plan *plan, Random &random) {
  std::vector<altgrad_tensor> tensors(random() % 4);
  int64_t groups = int64_t(random() % 4);
  for (altgrad_tensor &tensor : tensors) {
    tensor = {sizeof(altgrad_tensor), someNumber(random), someNumber(random),
              someNumber(random),     someNumber(random), int64_t(random() % 3),
              int64_t(random() % 3),  someNumber(random), someNumber(random),
              someNumber(random),     int64_t(random() % 2)};
    if (random() % 2)
      tensor.offset = tensor.rows = tensor.columns = tensor.units =
          tensor.whole = 0;
    tensor.numel = std::min(tensor.numel, int64_t(1) << 20);
  }
  if (altgrad_bind_tensors(plan, tensors.data(), int64_t(tensors.size()),
                           groups) != ALTGRAD_OK)
    return;
  const Tables &tables = plan->tables;
  const Manifest &manifest = plan->bundle->manifest();
  ASSERT_EQ(tables.setRows.size(), size_t(manifest.sets) + 1);
  EXPECT_TRUE(std::is_sorted(tables.setRows.begin(), tables.setRows.end()));
  EXPECT_TRUE(std::is_sorted(tables.setChunks.begin(), tables.setChunks.end()));
  EXPECT_EQ(tables.setRows.back(), int64_t(tensors.size()));
  EXPECT_EQ(tables.setChunks.back(), int64_t(tables.chunks.size()));
  for (const altgrad_tensor &tensor : tensors)
    EXPECT_GE(tensor.numel, 0);
  uint64_t bytes = 0;
  EXPECT_EQ(altgrad_workspace(plan, &bytes), ALTGRAD_OK);
}

// Binds every name with some count of some pointers.
void bindAll(altgrad_plan *plan, Random &random) {
  alignas(64) static char memory[64];
  for (const Stream &stream : plan->bundle->manifest().streams) {
    std::vector<void *> pointers(8, memory + random() % 2 * (random() % 9));
    altgrad_bind_stream(plan, stream.name.c_str(), pointers.data(),
                        int64_t(random() % 5));
    altgrad_bind_stream(plan, stream.name.c_str(), pointers.data(), INT64_MIN);
    altgrad_bind_stream(plan, stream.name.c_str(), pointers.data(), INT64_MAX);
  }
  for (const Scalar &scalar : plan->bundle->manifest().scalars) {
    std::vector<void *> pointers(8, memory);
    altgrad_bind_scalar(plan, scalar.name.c_str(), pointers.data(),
                        int64_t(random() % 5));
    altgrad_bind_scalar(plan, scalar.name.c_str(), pointers.data(), -1);
  }
}

TEST(AnyTensors, AreRefusedOrPlanned) {
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    altgrad_plan *raw = nullptr;
    ASSERT_ALTGRAD(altgrad_plan_create(bundle.get(), "cpu:v3", &raw));
    PlanPointer plan(raw);
    for (int round = 0; round < 8; ++round) {
      declareSome(plan.get(), random);
      if (plan->declared)
        bindAll(plan.get(), random);
    }
    if (HasFailure())
      FAIL() << "seed " << seed;
  }
}

} // namespace

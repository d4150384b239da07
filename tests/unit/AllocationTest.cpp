// A run allocates nothing, and neither does moving the gradients' pointers.
#include "Sgd.h"

#include <atomic>
#include <new>

static std::atomic<int> allocations{0};

void *operator new(size_t size) {
  ++allocations;
  if (void *memory = malloc(size))
    return memory;
  throw std::bad_alloc();
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  ++allocations;
  return malloc(size);
}
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }

TEST(Allocation, ARunMakesNone) {
  Tensors tensors({1000000, 5});
  PlanPointer plan = planSgd();
  ASSERT_ALTGRAD(altgrad_set_threads(plan.get(), 4));
  tensors.bind(plan.get());
  ASSERT_ALTGRAD(tensors.run(plan.get())); // starts the threads
  std::vector<void *> grads = Tensors::pointers(tensors.grads);
  int before = allocations;
  altgrad_status bound =
      altgrad_bind_stream(plan.get(), "grads", grads.data(), 2);
  altgrad_status ran = tensors.run(plan.get());
  int after = allocations;
  EXPECT_EQ(bound, ALTGRAD_OK);
  EXPECT_EQ(ran, ALTGRAD_OK);
  EXPECT_EQ(after, before);
  EXPECT_GT(before, 0) << "they are counted";
}

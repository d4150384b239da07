// What a step demands of tensors, in the words of every front end.
#include "Layout.h"
#include "Tensor.h"

using namespace altgrad::core;

// "[2, 3]"
static std::string listed(const int64_t *numbers, int64_t count) {
  std::string words = "[";
  for (int64_t i = 0; i < count; ++i)
    words += (i ? ", " : "") + std::to_string(numbers[i]);
  return words + "]";
}

void altgrad::core::checkWithin(Handle tensor) {
  if (!isWithin(tensor))
    throw Refusal(ALTGRAD_INVALID, "a tensor of sizes " + listed(sizesOf(tensor), dimsOf(tensor)) + " ends at byte " +
                                       std::to_string(endOf(tensor)) + " of a storage of " +
                                       std::to_string(ask<int64_t>(aoti_torch_get_storage_size, tensor)) +
                                       " bytes: resize the storage before the step");
}

altgrad_status altgrad_core_check_extent(AtenTensorHandle tensor) {
  return guarded([&] { checkWithin(tensor); });
}

altgrad_status altgrad_core_check_addresses(AtenTensorHandle tensor) {
  return guarded([&] {
    const Layout layout(dimsOf(tensor), sizesOf(tensor), stridesOf(tensor));
    if (layout.repeats())
      layout.refuse("has several elements at one address; clone() it");
  });
}

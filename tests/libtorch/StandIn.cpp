// Takes torch's device $ALTGRAD_STANDS_FOR_CUDA for a CUDA device, in tests without a GPU.
#include "tensors/Where.h"

#include <cstdlib>

static const bool said = [] {
  if (const char *word = std::getenv("ALTGRAD_STANDS_FOR_CUDA"))
    altgrad::optim::Where::standIn = at::Device(word).type();
  return true;
}();

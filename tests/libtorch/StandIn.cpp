// Takes torch's device $ALTGRAD_STANDS_FOR_CUDA for a CUDA device, in tests without a GPU.
#include "tensors/DeviceContext.h"

#include <cstdlib>

static const bool said = [] {
  if (const char *word = std::getenv("ALTGRAD_STANDS_FOR_CUDA"))
    altgrad::optim::DeviceContext::cudaStandIn = at::Device(word).type();
  return true;
}();

// The code of a bundle in a context, loaded once for all plans of the bundle.
#ifndef ALTGRAD_RUNTIME_KERNELS_H
#define ALTGRAD_RUNTIME_KERNELS_H

#include "bundle/Bundle.h"
#include "cuda/Gpu.h"

namespace altgrad::runtime {

struct Kernels {
  struct Entry {
    Function kernel; // null where matrices are multiplied
    const Phase *phase;
    int64_t mostBlocks;
    unsigned dynamicShared; // bytes
  };
  ~Kernels();

  std::shared_ptr<Gpu> gpu;
  Module module = nullptr;
  std::vector<Entry> phases;
  int64_t rowWords = 0;
  // By type and by whether columns have no gaps (products.h); null where the code has none.
  Function symmetric[2][2] = {};
  std::string identity; // what keys say of these, of the device and of its driver; "": nothing can be kept
  // Brings numbers to the device; null where the code has no such kernel.
  Function values = nullptr;
  // Whether a launch that follows another one of its run may begin before that
  // has ended.
  bool mayOverlap = false;
};

// Loads them where no plan has before; they live as long as the bundle.
altgrad_status findKernels(std::shared_ptr<Gpu> gpu, const Bundle &bundle, std::shared_ptr<const Kernels> &out);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_KERNELS_H

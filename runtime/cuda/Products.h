// Symmetric products by kernels of a bundle's own, where they are faster than what multiplies otherwise.
#ifndef ALTGRAD_RUNTIME_PRODUCTS_H
#define ALTGRAD_RUNTIME_PRODUCTS_H

#include "cuda/Kernels.h"
#include "executor/Executor.h"

#include <cmath>

namespace altgrad::runtime {

// Of one plan; productsBy() says who multiplies.
class OwnProducts final : public SymmetricProducts {
public:
  explicit OwnProducts(std::shared_ptr<const Kernels> kernels)
      : driver(kernels->gpu->driver), kernels(std::move(kernels)) {}
  // ALTGRAD_INVALID where the word is none of the three.
  altgrad_status open();

  altgrad_status multiply(const altgrad_gemm &product, bool alone, const Library &library) override;
  bool captured = false; // what runs now: nothing is measured

  // Codes of the first matrix of a result, and the fastest of several runs.
  struct Try {
    std::vector<uint16_t> codes;
    float ms = HUGE_VALF;
  };

private:
  Function kernelFor(const altgrad_gemm &product) const;
  std::string keyOf(const altgrad_gemm &product) const;
  altgrad_status isFaster(const altgrad_gemm &product, const Library &library, bool &own) const;
  altgrad_status decide(const altgrad_gemm &product, const Library &library, const std::string &key, bool &own) const;
  altgrad_status measure(const altgrad_gemm &product, const Library &library, Try &byKernel, Try &byLibrary) const;
  altgrad_status launch(const altgrad_gemm &product) const;

  const Driver &driver;
  std::shared_ptr<const Kernels> kernels;
  bool measures = false, forced = false;
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_PRODUCTS_H

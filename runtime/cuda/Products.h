// Symmetric products on a GPU by the fastest of several ways.
#ifndef ALTGRAD_RUNTIME_PRODUCTS_H
#define ALTGRAD_RUNTIME_PRODUCTS_H

#include "altgrad/products.h"
#include "cuda/Kernels.h"
#include "matrix/Multiply.h"

namespace altgrad::runtime {

// The library multiplies whole squares, or strips of rows up to the diagonal; or the function of
// altgrad_set_symmetric_gemm multiplies, or a kernel of the bundle.
enum class Way { Full, TwoStrips, FourStrips, Given, Own };
struct Try; // what one of them gave, and its time

// Of one plan; productsBy() says who multiplies.
class OwnProducts final : public SymmetricProducts {
public:
  explicit OwnProducts(std::shared_ptr<const Kernels> kernels)
      : driver(kernels->gpu->driver), kernels(std::move(kernels)) {}
  // ALTGRAD_INVALID where the word is none of them.
  altgrad_status open();

  altgrad_status multiply(const altgrad_gemm &product, bool alone, const Library &library) override;
  bool captured = false; // what runs now: nothing is measured

private:
  Function kernelFor(const altgrad_gemm &product) const;
  std::string keyOf(const altgrad_gemm &product) const;
  std::vector<Way> waysOf(const altgrad_gemm &product) const;
  altgrad_status run(Way way, const altgrad_gemm &product, const Library &library) const;
  altgrad_status fastest(const altgrad_gemm &product, const Library &library, Way &way) const;
  altgrad_status decide(const altgrad_gemm &product, const Library &library, const std::string &key, Way &way) const;
  altgrad_status measure(const altgrad_gemm &product, const Library &library, const std::vector<Way> &ways,
                         std::vector<Try> &tries) const;
  altgrad_status launch(const altgrad_gemm &product) const;
  altgrad_status multiplyGiven(const altgrad_gemm &product, const Library &library) const;

  const Driver &driver;
  std::shared_ptr<const Kernels> kernels;
  altgrad::ProductsBy by = altgrad::ProductsBy::Library;
  SymmetricGemm given; // of this product
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_PRODUCTS_H

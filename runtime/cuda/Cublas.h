// cuBLASLt, which multiplies on a GPU where the caller gives no function that does.
#ifndef ALTGRAD_RUNTIME_CUBLAS_H
#define ALTGRAD_RUNTIME_CUBLAS_H

#include "cuda/Gpu.h"
#include "executor/Executor.h"

namespace altgrad::runtime {

// Of a context, for all its plans and for the life of the process.
class Cublas final : public GemmLibrary {
public:
  // The context must be current. ALTGRAD_UNAVAILABLE where there is no libcublasLt.so.13 or .12, nor what
  // ALTGRAD_CUBLASLT names.
  static altgrad_status find(std::shared_ptr<Gpu> gpu, Cublas *&out);
  explicit Cublas(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}
  Cublas(const Cublas &) = delete;

  altgrad_status multiply(const altgrad_gemm &product) override;

private:
  altgrad_status open();
  altgrad_status addToDiagonals(const altgrad_gemm &product);
  altgrad_status multiplyStrips(const altgrad_gemm &product);
  altgrad_status multiplyWhole(const altgrad_gemm &product);

  std::shared_ptr<Gpu> gpu;
  void *handle = nullptr;
  DevicePointer one = 0; // 1 in the format of the products
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_CUBLAS_H

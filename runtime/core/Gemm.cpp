// torch's products for the runtime: oneDNN's or MKL's, by the functions that its own compiled code calls.
#include "Tensor.h"
#include "table.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

using namespace altgrad::core;

namespace {

int32_t typeOf(int32_t type) {
  return type == ALTGRAD_GEMM_BF16  ? aoti_torch_dtype_bfloat16()
         : type == ALTGRAD_GEMM_F16 ? aoti_torch_dtype_float16()
                               : aoti_torch_dtype_float32();
}

// A view of the runtime's memory, of two dimensions where there is one matrix.
class View {
public:
  View(const altgrad_gemm &gemm, const void *data, int64_t rows, int64_t columns, int64_t matrix, int64_t row,
       int64_t column) {
    const int64_t sizes[] = {gemm.batch, rows, columns}, strides[] = {matrix, row, column};
    const int64_t first = gemm.batch == 1;
    require(aoti_torch_create_tensor_from_blob(const_cast<void *>(data), 3 - first, sizes + first, strides + first, 0,
                                               typeOf(gemm.type), aoti_torch_device_type_cpu(), 0, &handle));
  }
  ~View() { aoti_torch_delete_tensor_object(handle); }
  View(const View &) = delete;
  View &operator=(const View &) = delete;
  operator Handle() const { return handle; }

private:
  Handle handle = nullptr;
};

void multiply(const altgrad_gemm &gemm) {
  View a(gemm, gemm.a, gemm.m, gemm.k, gemm.a_matrix, gemm.a_row, gemm.a_column);
  View b(gemm, gemm.b, gemm.k, gemm.n, gemm.b_matrix, gemm.b_row, gemm.b_column);
  View c(gemm, gemm.c, gemm.m, gemm.n, gemm.c_matrix, gemm.c_row, 1);
  const bool one = gemm.batch == 1;
  if (!gemm.d && gemm.alpha == 1)
    return require(one ? aoti_torch_cpu_mm_out(c, a, b) : aoti_torch_cpu_bmm_out(c, a, b));
  // torch does not read what is added where its factor is 0.
  View d(gemm, gemm.d ? gemm.d : gemm.c, gemm.m, gemm.n, gemm.c_matrix, gemm.c_row, 1);
  const double beta = gemm.d ? gemm.beta : 0;
  require(one ? aoti_torch_cpu_addmm_out(c, d, a, b, beta, gemm.alpha)
              : aoti_torch_cpu_baddbmm_out(c, d, a, b, beta, gemm.alpha));
}

} // namespace

int32_t altgrad_table_multiply(const altgrad_gemm *gemm, void *) {
  return guarded([&] { multiply(*gemm); });
}

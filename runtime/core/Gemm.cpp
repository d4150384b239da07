// torch's products for the runtime: oneDNN's, MKL's or cuBLAS's, by the functions that its own compiled code calls.
#include "TableImpl.h"
#include "Tensor.h"
#include "Threads.h"
#include "altgrad/strips.h"

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

#include <dlfcn.h>
#include <map>
#include <mutex>

using namespace altgrad::core;

namespace {

// The products of one of torch's types of devices.
struct Products {
  int32_t device = aoti_torch_device_type_cpu();
  decltype(&aoti_torch_cpu_mm_out) mm = aoti_torch_cpu_mm_out, bmm = aoti_torch_cpu_bmm_out;
  decltype(&aoti_torch_cpu_addmm_out) addmm = aoti_torch_cpu_addmm_out, baddbmm = aoti_torch_cpu_baddbmm_out;
  decltype(&aoti_torch_cpu_add_Scalar) add = aoti_torch_cpu_add_Scalar;
};

// This library is not linked to torch's for CUDA, which is there where a tensor on a GPU is.
template <typename Function> void find(const char *name, Function &function) {
  static void *const library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  void *known = dlsym(RTLD_DEFAULT, name); // of a program that links it; Python keeps it to itself
  function = Function(known || !library ? known : dlsym(library, name));
  if (!function)
    throw Refusal(ALTGRAD_UNAVAILABLE, std::string("this torch has no products of matrices on the device: no ") + name);
}

const Products &productsOn(int32_t device) {
  static std::mutex one;
  static std::map<int32_t, Products> all;
  std::lock_guard<std::mutex> held(one);
  if (auto known = all.find(device); known != all.end())
    return known->second;
  Products products{device};
  find("aoti_torch_cuda_mm_out", products.mm);
  find("aoti_torch_cuda_bmm_out", products.bmm);
  find("aoti_torch_cuda_addmm_out", products.addmm);
  find("aoti_torch_cuda_baddbmm_out", products.baddbmm);
  find("aoti_torch_cuda_add_Scalar", products.add);
  return all.emplace(device, products).first->second;
}

int32_t typeOf(int32_t type) {
  return type == ALTGRAD_GEMM_BF16  ? aoti_torch_dtype_bfloat16()
         : type == ALTGRAD_GEMM_F16 ? aoti_torch_dtype_float16()
                                    : aoti_torch_dtype_float32();
}

// A view of the runtime's memory, without the first dimension where there is one matrix.
class View : public Held {
public:
  View(const Products &products, const altgrad_gemm &gemm, const void *data, std::initializer_list<int64_t> sizes,
       std::initializer_list<int64_t> strides) {
    const int64_t first = gemm.batch == 1;
    require(aoti_torch_create_tensor_from_blob(const_cast<void *>(data), int64_t(sizes.size()) - first,
                                               sizes.begin() + first, strides.begin() + first, 0, typeOf(gemm.type),
                                               products.device, std::max(gemm.device, 0), out()));
  }
};

// No function adds in place: n numbers are copied.
void addToDiagonals(const Products &products, const altgrad_gemm &gemm) {
  View diagonal(products, gemm, gemm.c, {gemm.batch, gemm.n}, {gemm.c_matrix, gemm.c_row + 1});
  Held sum;
  require(products.add(diagonal, gemm.shift, 1, sum.out()));
  require(aoti_torch_copy_(diagonal, sum, /*non_blocking=*/1));
}

void multiply(const Products &products, const altgrad_gemm &gemm) {
  auto view = [&](const void *data, int64_t rows, int64_t columns, int64_t matrix, int64_t row, int64_t column) {
    return View(products, gemm, data, {gemm.batch, rows, columns}, {matrix, row, column});
  };
  View a = view(gemm.a, gemm.m, gemm.k, gemm.a_matrix, gemm.a_row, gemm.a_column);
  View b = view(gemm.b, gemm.k, gemm.n, gemm.b_matrix, gemm.b_row, gemm.b_column);
  View c = view(gemm.c, gemm.m, gemm.n, gemm.c_matrix, gemm.c_row, 1);
  const bool one = gemm.batch == 1;
  if (!gemm.d && gemm.alpha == 1) {
    require((one ? products.mm : products.bmm)(c, a, b));
  } else {
    // torch does not read what is added where its factor is 0.
    View d = view(gemm.d ? gemm.d : gemm.c, gemm.m, gemm.n, gemm.c_matrix, gemm.c_row, 1);
    require((one ? products.addmm : products.baddbmm)(c, d, a, b, gemm.d ? gemm.beta : 0, gemm.alpha));
  }
  if (gemm.shift != 0)
    addToDiagonals(products, gemm);
}

// The transpose of what each strip has below the diagonal comes above it.
void multiplyStrips(const Products &products, const altgrad_gemm &gemm) {
  altgrad::multiplyStrips(gemm, altgrad::stripRows(gemm), [&](const altgrad_gemm &strip, int64_t begin) {
    multiply(products, strip);
    if (begin == 0)
      return ALTGRAD_OK;
    const std::initializer_list<int64_t> sizes = {gemm.batch, begin, strip.m};
    View above(products, gemm, altgrad::moved(gemm.c, gemm, begin), sizes, {gemm.c_matrix, gemm.c_row, 1});
    View below(products, gemm, strip.c, sizes, {gemm.c_matrix, 1, gemm.c_row});
    require(aoti_torch_copy_(above, below, /*non_blocking=*/1));
    return ALTGRAD_OK;
  });
  if (gemm.shift != 0)
    addToDiagonals(products, gemm);
}

// Where a batch has gaps on the CPU, torch does one matrix after the other, each on all threads, and copies numbers of
// 16 bits before and after.
void multiplyBatch(const Products &products, const altgrad_gemm &gemm) {
  if (gemm.strips > 1)
    return multiplyStrips(products, gemm);
  const bool gaps = gemm.c_row != gemm.n || gemm.c_matrix != gemm.m * gemm.n;
  if (gemm.device >= 0 || gemm.batch == 1 || !gaps)
    return multiply(products, gemm);
  uint32_t threads = 1;
  require(torch_get_num_threads(&threads));
  const bool shared = threads > 1 && gemm.batch % threads == 0;
  if (!shared && gemm.type == ALTGRAD_GEMM_F32)
    return multiply(products, gemm);
  auto each = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      multiply(products, altgrad::matrixOf(gemm, i));
  };
  if (!shared)
    return each(0, gemm.batch);
  require(onThreads(gemm.batch, each, /*grain=*/1));
}

} // namespace

void altgrad::core::multiplyOn(int32_t device, altgrad_plan *plan) {
  if (device == aoti_torch_device_type_cpu())
    return;
  const Products &products = productsOn(device);
  check(altgrad_set_gemm(plan, altgrad_core_multiply, const_cast<Products *>(&products)));
  check(altgrad_set_factorize(plan, altgrad_core_factorize, const_cast<int32_t *>(&products.device)));
}

Held altgrad::core::plusNumber(const Held &x, double number) {
  const auto device = ask<int32_t>(aoti_torch_get_device_type, x);
  Held sum;
  require((device == aoti_torch_device_type_cpu() ? Products() : productsOn(device)).add(x, number, 1, sum.out()));
  return sum;
}

void altgrad::core::factorizeByProducts(int32_t device, altgrad_plan *plan) {
  const int32_t *context = device == aoti_torch_device_type_cpu() ? nullptr : &productsOn(device).device;
  check(altgrad_set_factorize(plan, altgrad_core_factorize_by_products, const_cast<int32_t *>(context)));
}

int32_t altgrad_core_multiply(const altgrad_gemm *gemm, void *context) {
  static const Products ofTheCpu;
  return guarded([&] { multiplyBatch(context ? *static_cast<const Products *>(context) : ofTheCpu, *gemm); });
}

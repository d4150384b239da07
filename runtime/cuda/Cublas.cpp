// Products by cuBLASLt, whose functions and numbers are those of NVIDIA's cublasLt.h.
#include "cuda/Cublas.h"
#include "Status.h"
#include "altgrad/strips.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <map>

using namespace altgrad::runtime;

namespace {

// CUBLAS_COMPUTE_32F, CUDA_R_32F and so on; attributes of products, of copies and of layouts; CUBLAS_OP_T.
enum : int { computeF32 = 68, realF32 = 0, realF16 = 2, realBF16 = 14, transposeA = 3, transposeB = 4, transposed = 1 };
enum : int { transposeCopy = 2, batchCount = 5, batchDistance = 6 };

int typeOf(const altgrad_gemm &product) {
  return product.type == ALTGRAD_GEMM_BF16 ? realBF16 : product.type == ALTGRAD_GEMM_F16 ? realF16 : realF32;
}

using Layout = struct LayoutOpaque *;
using Description = struct DescriptionOpaque *;
using CopyDescription = struct CopyDescriptionOpaque *;

#define ALTGRAD_CUBLASLT(FUNCTION)                                                                                     \
  FUNCTION(cublasLtCreate, void **)                                                                                    \
  FUNCTION(cublasLtMatmulDescCreate, Description *, int, int)                                                          \
  FUNCTION(cublasLtMatmulDescDestroy, Description)                                                                     \
  FUNCTION(cublasLtMatmulDescSetAttribute, Description, int, const void *, size_t)                                     \
  FUNCTION(cublasLtMatrixLayoutCreate, Layout *, int, uint64_t, uint64_t, int64_t)                                     \
  FUNCTION(cublasLtMatrixLayoutDestroy, Layout)                                                                        \
  FUNCTION(cublasLtMatrixLayoutSetAttribute, Layout, int, const void *, size_t)                                        \
  FUNCTION(cublasLtMatmul, void *, Description, const void *, const void *, Layout, const void *, Layout,              \
           const void *, const void *, Layout, void *, Layout, const void *, void *, size_t, CudaStream)               \
  FUNCTION(cublasLtMatrixTransformDescCreate, CopyDescription *, int)                                                  \
  FUNCTION(cublasLtMatrixTransformDescDestroy, CopyDescription)                                                        \
  FUNCTION(cublasLtMatrixTransformDescSetAttribute, CopyDescription, int, const void *, size_t)                        \
  FUNCTION(cublasLtMatrixTransform, void *, CopyDescription, const void *, const void *, Layout, const void *,         \
           const void *, Layout, void *, Layout, CudaStream)

struct Functions {
#define ALTGRAD_POINTER(name, ...) int (*name)(__VA_ARGS__);
  ALTGRAD_CUBLASLT(ALTGRAD_POINTER)
#undef ALTGRAD_POINTER
};

// Never destroyed: captured graphs may need what is in it.
struct Registry {
  std::mutex lock;
  bool opened = false;
  Functions functions;
  std::map<Gpu *, std::unique_ptr<Cublas>> known;
};
Registry &registry() {
  static auto *all = new Registry;
  return *all;
}
const Functions &blas() { return registry().functions; }

altgrad_status openLibrary(Functions &out) {
  const char *given = secure_getenv("ALTGRAD_CUBLASLT");
  void *library = nullptr;
  std::string words;
  const bool names = given && *given;
  for (const char *name : {names ? given : "libcublasLt.so.13", names ? given : "libcublasLt.so.12"})
    if (!library && !(library = dlopen(name, RTLD_NOW | RTLD_LOCAL)))
      words = dlerror();
  if (!library)
    return fail(ALTGRAD_UNAVAILABLE,
                "a step multiplies matrices, and there is nobody who does it on the GPU: give a function to "
                "altgrad_set_gemm, or install NVIDIA's cuBLAS, libcublasLt.so.13 or .12 (pip install nvidia-cublas), "
                "where the loader finds it or ALTGRAD_CUBLASLT says (%s)",
                words.c_str());
#define ALTGRAD_FIND(name, ...)                                                                                        \
  if (!(out.name = reinterpret_cast<int (*)(__VA_ARGS__)>(dlsym(library, #name))))                                     \
    return fail(ALTGRAD_UNAVAILABLE, "NVIDIA's cuBLAS has no %s; altgrad_set_gemm takes another function", #name);
  ALTGRAD_CUBLASLT(ALTGRAD_FIND)
#undef ALTGRAD_FIND
  return ALTGRAD_OK;
}

// Matrices that lie column by column, and the first error about them.
class Layouts {
public:
  Layouts() = default;
  Layouts(const Layouts &) = delete;
  ~Layouts() {
    for (Layout layout : layouts)
      if (layout)
        blas().cublasLtMatrixLayoutDestroy(layout);
  }
  // Operand 0 or 1, or the result, 2.
  void place(int which, int type, int64_t rows, int64_t columns, int64_t line, int64_t batch, int64_t distance) {
    Layout &layout = layouts[which];
    const int32_t count = int32_t(batch);
    note(blas().cublasLtMatrixLayoutCreate(&layout, type, uint64_t(rows), uint64_t(columns), line));
    if (layout && batch > 1) {
      note(blas().cublasLtMatrixLayoutSetAttribute(layout, batchCount, &count, sizeof count));
      note(blas().cublasLtMatrixLayoutSetAttribute(layout, batchDistance, &distance, sizeof distance));
    }
  }

protected:
  void note(int status) { error = error ? error : status; }
  altgrad_status status() const {
    return error ? fail(ALTGRAD_CUDA, "cuBLASLt refuses a product: its status is %d, and nothing has changed", error)
                 : ALTGRAD_OK;
  }
  Layout layouts[3] = {};
  int error = 0;
};

// C = alpha op(A) op(B) + beta D, and what describes it.
class Call : public Layouts {
public:
  Call() { note(blas().cublasLtMatmulDescCreate(&description, computeF32, realF32)); }
  ~Call() {
    if (description)
      blas().cublasLtMatmulDescDestroy(description);
  }
  void transpose(int which) {
    const int32_t word = transposed;
    if (!error)
      note(blas().cublasLtMatmulDescSetAttribute(description, which ? transposeB : transposeA, &word, sizeof word));
  }
  // Without a workspace the library sums in one order.
  altgrad_status run(void *handle, const void *a, const void *b, const void *d, void *c, float alpha, float beta,
                     void *stream) {
    if (!error)
      note(blas().cublasLtMatmul(handle, description, &alpha, a, layouts[0], b, layouts[1], &beta, d, layouts[2], c,
                                 layouts[2], nullptr, nullptr, 0, static_cast<CudaStream>(stream)));
    return status();
  }

private:
  Description description = nullptr;
};

// C = Aᵀ.
class Transpose : public Layouts {
public:
  Transpose() {
    const int32_t word = transposed;
    note(blas().cublasLtMatrixTransformDescCreate(&description, realF32));
    if (!error)
      note(blas().cublasLtMatrixTransformDescSetAttribute(description, transposeCopy, &word, sizeof word));
  }
  ~Transpose() {
    if (description)
      blas().cublasLtMatrixTransformDescDestroy(description);
  }
  altgrad_status run(void *handle, const void *a, void *c, void *stream) {
    const float one = 1, zero = 0;
    if (!error)
      note(blas().cublasLtMatrixTransform(handle, description, &one, a, layouts[0], &zero, nullptr, nullptr, c,
                                          layouts[2], static_cast<CudaStream>(stream)));
    return status();
  }

private:
  CopyDescription description = nullptr;
};

} // namespace

altgrad_status Cublas::find(std::shared_ptr<Gpu> gpu, Cublas *&out) {
  Registry &all = registry();
  std::lock_guard<std::mutex> held(all.lock);
  if (!all.opened)
    if (altgrad_status status = openLibrary(all.functions))
      return status;
  all.opened = true;
  if (auto known = all.known.find(gpu.get()); known != all.known.end()) {
    out = known->second.get();
    return ALTGRAD_OK;
  }
  auto made = std::make_unique<Cublas>(gpu);
  if (altgrad_status status = made->open())
    return status;
  out = (all.known[gpu.get()] = std::move(made)).get();
  return ALTGRAD_OK;
}

altgrad_status Cublas::open() {
  RelaxedCapture relaxed(gpu->driver);
  if (int error = blas().cublasLtCreate(&handle))
    return fail(ALTGRAD_UNAVAILABLE, "cuBLASLt does not start: its status is %d", error);
  Result error = gpu->driver.cuMemAlloc(&one, sizeof(float));
  return error ? gpu->driver.refuse(error, "memory for products") : ALTGRAD_OK;
}

// The diagonal of each matrix is a batch of 1 x 1 matrices, to each of which 1 x 1 times `shift` is added.
altgrad_status Cublas::addToDiagonals(const altgrad_gemm &product) {
  const bool isF32 = product.type == ALTGRAD_GEMM_F32;
  constexpr uint32_t oneF32 = 0x3F800000, oneF16 = 0x3C00;
  if (Result error =
          gpu->driver.cuMemsetD32Async(one, isF32 ? oneF32 : oneF16, 1, static_cast<CudaStream>(product.stream)))
    return gpu->driver.refuse(error, "a shift of products");
  Call sum;
  for (int which : {0, 1, 2})
    sum.place(which, typeOf(product), 1, 1, 1, product.n, which == 2 ? product.c_row + 1 : 0);
  const void *factor = reinterpret_cast<const void *>(one);
  for (int64_t matrix = 0; matrix < product.batch; ++matrix) {
    char *first = static_cast<char *>(product.c) + matrix * product.c_matrix * (isF32 ? 4 : 2);
    if (altgrad_status status = sum.run(handle, factor, factor, first, first, float(product.shift), 1, product.stream))
      return status;
  }
  return ALTGRAD_OK;
}

// The transpose of what each strip has below the diagonal comes above it.
altgrad_status Cublas::multiplyStrips(const altgrad_gemm &p) {
  return altgrad::multiplyStrips(p, altgrad::stripRows(p), [&](const altgrad_gemm &strip, int64_t begin) {
    altgrad_status status = multiplyWhole(strip);
    if (status || begin == 0)
      return status;
    Transpose copy;
    copy.place(0, typeOf(p), begin, strip.m, p.c_row, p.batch, p.c_matrix);
    copy.place(2, typeOf(p), strip.m, begin, p.c_row, p.batch, p.c_matrix);
    return copy.run(handle, strip.c, altgrad::moved(p.c, p, begin), p.stream);
  });
}

// What the library does not do in strips it does whole.
altgrad_status Cublas::multiply(const altgrad_gemm &product) {
  const bool inStrips = product.strips > 1 && multiplyStrips(product) == ALTGRAD_OK;
  if (altgrad_status status = inStrips ? ALTGRAD_OK : multiplyWhole(product))
    return status;
  return product.shift != 0 ? addToDiagonals(product) : ALTGRAD_OK;
}

// What lies row by row is the transpose of what lies column by column: the library makes cᵀ = bᵀ aᵀ.
altgrad_status Cublas::multiplyWhole(const altgrad_gemm &p) {
  const int type = typeOf(p);
  Call call;
  auto operand = [&](int which, int64_t rows, int64_t columns, int64_t distance, int64_t along, int64_t line) {
    const bool turned = along != 1; // its lines are the other operand's
    if (turned)
      call.transpose(which);
    call.place(which, type, turned ? columns : rows, turned ? rows : columns,
               std::max(turned ? along : line, turned ? columns : rows), p.batch, distance);
  };
  operand(0, p.n, p.k, p.b_matrix, p.b_column, p.b_row);
  operand(1, p.k, p.m, p.a_matrix, p.a_column, p.a_row);
  call.place(2, type, p.n, p.m, p.c_row, p.batch, p.c_matrix);
  return call.run(handle, p.b, p.a, p.d ? p.d : p.c, p.c, float(p.alpha), p.d ? float(p.beta) : 0, p.stream);
}

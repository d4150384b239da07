// torch's factorizations for the runtime, of LAPACK, MAGMA or cuSOLVER: by its dispatcher, on the device's current
// stream.
#include "Operators.h"
#include "Roots.h"
#include "TableImpl.h"
#include "Threads.h"

#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstring>

using namespace altgrad::core;

namespace {

// Eigenvalues below this part of the largest one are noise of f32.
constexpr float leastEigenvalue = 1e-7f;

// Matrices of a batch, in the runtime's memory.
class Squares {
public:
  Squares(int32_t type, const altgrad_factorization &of) : type(type), of(of) {}
  Held at(const float *data) const {
    const int64_t sizes[] = {of.batch, of.rows, of.n}, strides[] = {of.distance, of.n, 1};
    Held view;
    require(aoti_torch_create_tensor_from_blob(const_cast<float *>(data), 3, sizes, strides, 0,
                                               aoti_torch_dtype_float32(), type, std::max(of.device, 0), view.out()));
    return view;
  }

private:
  int32_t type;
  const altgrad_factorization &of;
};

bool isFinite(const float *numbers, int64_t count) {
  uint32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, numbers + i, sizeof bits);
    found |= (bits & 0x7fffffff) + (1u << 23); // an exponent of ones reaches the sign
  }
  return found < 1u << 31;
}

bool isFinite(const Held &x) {
  bool all = false;
  require(aoti_torch_item_bool(call("aten::all", "", call("aten::isfinite", "", x)), &all));
  return all;
}

// torch gives eigenvalues as they rise. What is flipped is the last dimension but one.
Held eigenbasis(const Held &square) {
  Held vectors = transposed(callTwo("aten::linalg_eigh", "", square, "L").second);
  return transposed(call("aten::fliplr", "", vectors));
}

// Where the j-th largest number of the diagonal was, as row j of a batch has it at place j.
Held order(const Held &square, const Held &basis) {
  Held diagonal = dots(basis, product(square, basis), -2);
  return call("aten::argsort", "stable", diagonal, true, int64_t(-1), true);
}

// Column j of the permutation has its 1 there. On the CPU one_hot would write 8 bytes for each number.
void permute(const altgrad_factorization &of, const Held &places, const Held &factor, bool onCpu) {
  if (!onCpu)
    return require(aoti_torch_copy_(factor, transposed(call("aten::one_hot", "", places, of.n)), 0));
  const auto *place = static_cast<const int64_t *>(readableOf(places));
  memset(of.factor, 0, size_t(of.n * of.n) * sizeof(float));
  for (int64_t j = 0; j < of.n; ++j)
    of.factor[place[j] * of.n + j] = 1;
}

// Without the triangle, which linalg_qr would copy.
Held orthonormal(const Held &square) {
  auto [reflectors, factors] = callTwo("aten::geqrf", "", square);
  return call("aten::linalg_householder_product", "", reflectors, factors);
}

// Of zeros, and of what has no eigenvalue above 0, it is finite, too.
Held inverseRoot(const Held &square, double root) {
  auto [values, vectors] = callTwo("aten::linalg_eigh", "", square, "L");
  Held largest = callTwo("aten::max", "dim", call("aten::abs", "", values), int64_t(-1), true).first;
  Held least = atLeast(scaled(largest, leastEigenvalue), FLT_MIN);
  Held powers = powerOf(call("aten::maximum", "", values, least), float(-1 / root));
  return product(call("aten::mul", "Tensor", vectors, unsqueezed(powers, -2)), transposed(vectors));
}

std::atomic<int64_t> fallen{0};

Held factorOf(const altgrad_factorization &of, const Held &square, bool byProducts) {
  std::optional<Held> found;
  switch (of.what) {
  case ALTGRAD_EIGENBASIS:
    return eigenbasis(square);
  case ALTGRAD_ORTHONORMAL:
    found = byProducts ? choleskyBasis(square) : orthonormal(square);
    break;
  default:
    found = byProducts ? newtonRoot(square, of.root) : inverseRoot(square, of.root);
  }
  if (found)
    return std::move(*found);
  fallen += of.batch;
  return of.what == ALTGRAD_ORTHONORMAL ? orthonormal(square) : inverseRoot(square, of.root);
}

void factorize(int32_t type, const altgrad_factorization &of, bool byProducts) {
  const Squares squares(type, of);
  Held square = squares.at(of.square), factor = squares.at(of.factor);
  if (of.what == ALTGRAD_IDENTITY) {
    float one = 1, none = 0;
    Held diagonal = diagonalOf(factor);
    require(aoti_torch_copy_(factor, number(none), 0));
    return require(aoti_torch_copy_(diagonal, number(one), 0));
  }
  const bool onCpu = type == aoti_torch_device_type_cpu();
  auto isSound = [&](const float *data) {
    return !data || (onCpu ? isFinite(data, of.rows * of.n) : isFinite(squares.at(data)));
  };
  if (float nan = NAN; !isSound(of.square) || !isSound(of.basis))
    return require(aoti_torch_copy_(factor, number(nan), 0));
  if (of.what == ALTGRAD_ORDER)
    return permute(of, order(square, squares.at(of.basis)), factor, onCpu);
  require(aoti_torch_copy_(factor, factorOf(of, square, byProducts), 0));
}

altgrad_factorization squareOf(const altgrad_factorization &of, int64_t index) {
  altgrad_factorization one = of;
  one.batch = 1;
  one.square += index * of.distance;
  one.factor += index * of.distance;
  if (one.basis)
    one.basis += index * of.distance;
  return one;
}

void factorizeAll(const altgrad_factorization &given, void *context, bool byProducts) {
  const int32_t type = context ? *static_cast<const int32_t *>(context) : aoti_torch_device_type_cpu();
  if (type != aoti_torch_device_type_cpu())
    return factorize(type, given, byProducts);
  // LAPACK does one matrix of a batch after the other.
  require(onThreads(
      given.batch,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          factorize(type, squareOf(given, i), byProducts);
      },
      /*grain=*/1));
}

} // namespace

int32_t altgrad_core_factorize(const altgrad_factorization *given, void *context) {
  return guarded([&] { factorizeAll(*given, context, /*byProducts=*/false); });
}

int32_t altgrad_core_factorize_by_products(const altgrad_factorization *given, void *context) {
  return guarded([&] { factorizeAll(*given, context, /*byProducts=*/true); });
}

int64_t altgrad_core_fallen_back() { return fallen; }

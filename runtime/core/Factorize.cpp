// torch's factorizations for the runtime, of LAPACK, MAGMA or cuSOLVER: by its dispatcher, on the device's current
// stream.
#include "TableImpl.h"
#include "Tensor.h"
#include "Threads.h"

#include <torch/headeronly/version.h>

#include <cmath>
#include <cstring>

using namespace altgrad::core;

namespace {

// Eigenvalues below this part of the largest one are noise of f32.
constexpr float leastEigenvalue = 1e-7f;

StableIValue wordOf(bool flag) { return StableIValue(flag); }
StableIValue wordOf(int64_t number) { return StableIValue(number); }
StableIValue wordOf(const char *text) {
  StringHandle handle;
  require(torch_new_string_handle(text, strlen(text), &handle));
  return StableIValue(uintptr_t(handle));
}
// The dispatcher takes a handle of its own.
StableIValue wordOf(const Held &tensor) {
  Handle own;
  require(aoti_torch_new_tensor_handle(tensor, &own));
  return StableIValue(uintptr_t(own));
}

Held takeResult(StableIValue word) { return Held(reinterpret_cast<Handle>(uintptr_t(word))); }

// An operator of one result, and one of two.
template <typename... Words> Held call(const char *name, const char *overload, const Words &...words) {
  StableIValue stack[] = {wordOf(words)...};
  require(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION));
  return takeResult(stack[0]);
}
template <typename... Words> std::pair<Held, Held> callTwo(const char *name, const Words &...words) {
  StableIValue stack[2 + sizeof...(words)] = {wordOf(words)...};
  require(torch_call_dispatcher(name, "", stack, TORCH_ABI_VERSION));
  return {takeResult(stack[0]), takeResult(stack[1])};
}

Held transposed(const Held &x) { return call("aten::mT", "", x); }
Held product(const Held &a, const Held &b) { return call("aten::matmul", "", a, b); }

// Squares of a batch, in the runtime's memory.
class Squares {
public:
  Squares(int32_t type, const altgrad_factorization &of) : type(type), of(of) {}
  Held at(const float *data) const {
    const int64_t sizes[] = {of.batch, of.n, of.n}, strides[] = {of.distance, of.n, 1};
    Held view;
    require(aoti_torch_create_tensor_from_blob(const_cast<float *>(data), 3, sizes, strides, 0,
                                               aoti_torch_dtype_float32(), type, std::max(of.device, 0), view.out()));
    return view;
  }
  // A number on the CPU, which goes with tensors of all devices.
  static Held number(float &value) {
    Held view;
    require(aoti_torch_create_tensor_from_blob(&value, 0, nullptr, nullptr, 0, aoti_torch_dtype_float32(),
                                               aoti_torch_device_type_cpu(), 0, view.out()));
    return view;
  }

private:
  int32_t type;
  const altgrad_factorization &of;
};

bool isFinite(const Held &x) {
  bool all = false;
  require(aoti_torch_item_bool(call("aten::all", "", call("aten::isfinite", "", x)), &all));
  return all;
}

// torch gives eigenvalues as they rise. What is flipped is the last dimension but one.
Held eigenbasis(const Held &square) {
  Held vectors = transposed(callTwo("aten::linalg_eigh", square, "L").second);
  return transposed(call("aten::fliplr", "", vectors));
}

// Column j of the result has its 1 where the j-th largest number of the diagonal was.
Held order(const Held &square, const Held &basis, int64_t n) {
  Held rotated = product(transposed(basis), product(square, basis));
  Held diagonal = call("aten::diagonal", "", rotated, int64_t(0), int64_t(-2), int64_t(-1));
  Held places = call("aten::argsort", "stable", diagonal, true, int64_t(-1), true);
  return transposed(call("aten::one_hot", "", places, n));
}

Held inverseRoot(const Held &square, double root) {
  auto [values, vectors] = callTwo("aten::linalg_eigh", square, "L");
  float least = leastEigenvalue, exponent = float(-1 / root);
  Held largest = call("aten::narrow", "", values, int64_t(-1), int64_t(-1), int64_t(1));
  Held bounded = call("aten::maximum", "", values, call("aten::mul", "Tensor", largest, Squares::number(least)));
  Held powers = call("aten::pow", "Tensor_Tensor", bounded, Squares::number(exponent));
  Held scaled = call("aten::mul", "Tensor", vectors, call("aten::unsqueeze", "", powers, int64_t(-2)));
  return product(scaled, transposed(vectors));
}

Held factorOf(const altgrad_factorization &of, const Held &square, const Squares &squares) {
  switch (of.what) {
  case ALTGRAD_EIGENBASIS:
    return eigenbasis(square);
  case ALTGRAD_ORDER:
    return order(square, squares.at(of.basis), of.n);
  case ALTGRAD_ORTHONORMAL:
    return callTwo("aten::linalg_qr", square, "reduced").first;
  default:
    return inverseRoot(square, of.root);
  }
}

void factorize(int32_t type, const altgrad_factorization &of) {
  const Squares squares(type, of);
  Held square = squares.at(of.square), factor = squares.at(of.factor);
  if (of.what == ALTGRAD_IDENTITY) {
    float one = 1, none = 0;
    Held diagonal = call("aten::diagonal", "", factor, int64_t(0), int64_t(-2), int64_t(-1));
    require(aoti_torch_copy_(factor, Squares::number(none), 0));
    return require(aoti_torch_copy_(diagonal, Squares::number(one), 0));
  }
  if (float nan = NAN; !isFinite(square) || (of.basis && !isFinite(squares.at(of.basis))))
    return require(aoti_torch_copy_(factor, Squares::number(nan), 0));
  require(aoti_torch_copy_(factor, factorOf(of, square, squares), 0));
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

} // namespace

int32_t altgrad_core_factorize(const altgrad_factorization *given, void *context) {
  return guarded([&] {
    const int32_t type = context ? *static_cast<const int32_t *>(context) : aoti_torch_device_type_cpu();
    if (type != aoti_torch_device_type_cpu())
      return factorize(type, *given);
    // LAPACK does one matrix of a batch after the other.
    require(onThreads(
        given->batch,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            factorize(type, squareOf(*given, i));
        },
        /*grain=*/1));
  });
}

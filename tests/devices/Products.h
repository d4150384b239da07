// The device's products of matrices, which are found by their names; for TorchDevice.cpp, in the middle of it.
#ifndef ALTGRAD_TESTS_PRODUCTS_H
#define ALTGRAD_TESTS_PRODUCTS_H

#include <atomic>
#include <cmath>

// While it holds, each product has a NaN for its first element.
std::atomic<bool> productsAreWrong = false;

static void give(Handle out, const Tensor &product) {
  if (productsAreWrong)
    product.view(-1)[0] = NAN;
  onHost(*out).copy_(product);
}

SHIM(mm_out, Handle out, Handle a, Handle b) {
  return computed([&] { give(out, at::mm(onHost(*a), onHost(*b))); });
}
SHIM(bmm_out, Handle out, Handle a, Handle b) {
  return computed([&] { give(out, at::bmm(onHost(*a), onHost(*b))); });
}
SHIM(addmm_out, Handle out, Handle c, Handle a, Handle b, double beta, double alpha) {
  return computed([&] { give(out, at::addmm(onHost(*c), onHost(*a), onHost(*b), beta, alpha)); });
}
SHIM(baddbmm_out, Handle out, Handle c, Handle a, Handle b, double beta, double alpha) {
  return computed([&] { give(out, at::baddbmm(onHost(*c), onHost(*a), onHost(*b), beta, alpha)); });
}

#endif // ALTGRAD_TESTS_PRODUCTS_H

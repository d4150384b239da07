// Whether products of finite matrices are finite: a look at what comes in, and at what goes out.
#include "matrix/Multiply.h"

#include <algorithm>
#include <map>

using namespace altgrad::runtime;

namespace {

constexpr int64_t pieceElements = 1 << 16; // in a cache

// Matrices of a batch without gaps of their own. A piece of one is an item.
struct Scan {
  const char *first;
  int64_t distance, elements, pieces;
  int32_t type;
  char *finite;
};

// With 1 added to the exponent's last place, an exponent of ones reaches the sign.
template <typename Code> bool isFinite(const Code *codes, int64_t count, Code one) {
  constexpr Code magnitude = Code(~Code(0)) >> 1;
  Code found = 0;
  for (int64_t i = 0; i < count; ++i)
    found |= Code((codes[i] & magnitude) + one);
  return found <= magnitude;
}

void scanPieces(int64_t begin, int64_t end, void *context) {
  const Scan &scan = *static_cast<const Scan *>(context);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t matrix = item / scan.pieces, from = item % scan.pieces * pieceElements;
    const int64_t count = std::min(pieceElements, scan.elements - from);
    const char *codes = scan.first + (matrix * scan.distance + from) * (scan.type == ALTGRAD_GEMM_F32 ? 4 : 2);
    const bool finite = scan.type == ALTGRAD_GEMM_F32    ? isFinite((const uint32_t *)codes, count, 1u << 23)
                        : scan.type == ALTGRAD_GEMM_BF16 ? isFinite((const uint16_t *)codes, count, uint16_t(1 << 7))
                                                         : isFinite((const uint16_t *)codes, count, uint16_t(1 << 10));
    if (!finite)
      __atomic_store_n(&scan.finite[matrix], 0, __ATOMIC_RELAXED);
  }
}

// By address how many elements of which type a matrix has, and how far the next one is.
struct List {
  int64_t elements, distance;
  int32_t type;
};
using Lists = std::map<const void *, List>;

// What is read before a product has written it, of what later ones overwrite or of the rest.
Lists operandsOf(const std::vector<altgrad_gemm> &products, bool overwritten) {
  Lists read;
  for (auto product = products.begin(); product != products.end(); ++product) {
    auto add = [&](const void *data, int64_t elements, int64_t distance) {
      auto writes = [&](const altgrad_gemm &one) { return one.c == data; };
      if (data && std::none_of(products.begin(), product, writes) &&
          std::any_of(product, products.end(), writes) == overwritten)
        read[data] = {elements, distance, product->type};
    };
    add(product->a, product->m * product->k, product->a_matrix);
    add(product->b, product->k * product->n, product->b_matrix);
    add(product->d, product->m * product->n, product->c_matrix);
  }
  return read;
}

// What no later product reads.
Lists resultsOf(const std::vector<altgrad_gemm> &products) {
  Lists left;
  for (auto product = products.begin(); product != products.end(); ++product) {
    auto reads = [&](const altgrad_gemm &later) {
      return later.a == product->c || later.b == product->c || later.d == product->c;
    };
    if (std::none_of(product + 1, products.end(), reads))
      left[product->c] = {product->m * product->n, product->c_matrix, product->type};
  }
  return left;
}

} // namespace

altgrad_status altgrad::runtime::findFinite(const std::vector<altgrad_gemm> &products, Numbers which,
                                            std::vector<char> &finite, const Phase &phase, const Launch &launch) {
  if (products.empty())
    return ALTGRAD_OK;
  const altgrad_gemm &any = products.front();
  finite.resize(size_t(any.batch), 1);
  const Lists lists =
      which == Numbers::Results ? resultsOf(products) : operandsOf(products, which == Numbers::Overwritten);
  for (auto &[data, what] : lists) {
    const auto [elements, distance, type] = what;
    const int64_t pieces = (elements + pieceElements - 1) / pieceElements;
    Scan scan{(const char *)data, distance, elements, pieces, type, finite.data()};
    if (altgrad_status status = runItems(any.batch * pieces, scanPieces, &scan, phase, launch))
      return status;
  }
  return ALTGRAD_OK;
}

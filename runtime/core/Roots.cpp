// Inverse roots and bases by products of matrices.
#include "Roots.h"
#include "TableImpl.h"

#include <cmath>

using namespace altgrad::core;

namespace {

Held quotient(const Held &a, const Held &b) { return call("aten::div", "Tensor", a, b); }

// Adds so much to each entry of the diagonal, in place.
Held plusIdentity(Held x, double by = 1) {
  const Held diagonal = diagonalOf(x);
  require(aoti_torch_copy_(diagonal, plusNumber(diagonal, by), 0));
  return x;
}

// The largest distance of an entry to that of the identity. NaN where there is one.
float residualOf(const Held &x) {
  float largest = NAN;
  const Held away = call("aten::abs", "", plusIdentity(scaled(x, 1), -1));
  require(aoti_torch_item_float32(call("aten::max", "", away), &largest));
  return largest;
}

// Of each symmetric matrix a bound of its eigenvalues, the smaller one of its norms of Frobenius and of rows.
Held boundOf(const Held &square) {
  const Held rows = dots(square, call("aten::sign", "", square), -1), squares = dots(square, square, -1);
  const Held largest = callTwo("aten::max", "dim", rows, int64_t(-1), true).first;
  const Held total = dots(squares, powerOf(squares, 0), -1);
  const Held smaller = call("aten::minimum", "", largest, powerOf(unsqueezed(total, -1), 0.5));
  return unsqueezed(atLeast(smaller, 1e-30f), -1);
}

} // namespace

std::optional<Held> altgrad::core::newtonRoot(const Held &square, double root) {
  if (root != 1 && root != 2 && root != 4 && root != 8)
    return {};
  const float p = float(root);
  const Held bound = boundOf(square);
  // m = (square + ridge) z, with z from the bound, so that its eigenvalues lie in (0, (1 + p) / 2].
  Held m = plusIdentity(scaled(quotient(square, bound), 1e7f));
  m = scaled(m, 0.5f * (1 + p) * 1e-7f);
  const Held first = scaled(powerOf(bound, -1 / p), std::pow(0.5f * (1 + p), 1 / p));
  Held x = call("aten::mul", "Tensor", plusIdentity(scaled(square, 0)), first);
  float residual = residualOf(m);
  // Of the smallest eigenvalue 24 steps make 1, or fewer. A step behind a residual of 1e-3 leaves rounding.
  for (int step = 0; step < 40 && residual < p + 1; ++step) {
    Held t = plusIdentity(scaled(m, -1 / p), 1 + 1 / p);
    x = product(x, t);
    for (double power = 1; power < root; power *= 2)
      t = product(t, t);
    m = product(t, m);
    const float before = residual;
    residual = residualOf(m);
    if (before < 1e-3f && residual < 1e-3f)
      return x;
  }
  return {};
}

std::optional<Held> altgrad::core::choleskyBasis(const Held &square) {
  const Held lengths = atLeast(powerOf(dots(square, square, -2), 0.5), 1e-30f);
  Held q = quotient(square, unsqueezed(lengths, -2));
  float residual = NAN;
  for (int pass = 0; pass < 2; ++pass) {
    const Held gram = product(transposed(q), q);
    residual = residualOf(gram);
    auto [factor, failed] = callTwo("aten::linalg_cholesky_ex", "", gram, false, false);
    bool fails = true;
    require(aoti_torch_item_bool(call("aten::any", "", failed), &fails));
    if (fails)
      return {};
    q = call("aten::linalg_solve_triangular", "", transposed(factor), q, true, false, false);
  }
  // What the first pass has left: the second one squares it.
  return residual < 1e-2f ? std::optional(std::move(q)) : std::nullopt;
}

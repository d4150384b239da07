// Factorizations by products of matrices alone, for devices on which those of LAPACK are slow.
#ifndef ALTGRAD_RUNTIME_CORE_ROOTS_H
#define ALTGRAD_RUNTIME_CORE_ROOTS_H

#include "Operators.h"

#include <optional>

namespace altgrad::core {

// square^(-1 / root) of a batch by coupled Newton iterations, with 1e-7 of a bound of the largest eigenvalue added to
// all. None where they do not converge, as of a square with eigenvalues below 0, or where the root is not 1, 2, 4 or 8.
std::optional<Held> newtonRoot(const Held &square, double root);

// Q of square = Q R of a batch, by the Cholesky factors of the Gram matrix of its scaled columns, twice. None where
// these are too close to dependent for f32.
std::optional<Held> choleskyBasis(const Held &square);

} // namespace altgrad::core

#endif // ALTGRAD_RUNTIME_CORE_ROOTS_H

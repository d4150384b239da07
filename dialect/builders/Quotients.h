// Division and square root by products, bit for bit the IEEE ones within
// limits.
#ifndef ALTGRAD_DIALECT_BUILDERS_QUOTIENTS_H
#define ALTGRAD_DIALECT_BUILDERS_QUOTIENTS_H

#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

/// Exponents of two within which the sequences below are exact; 0 is within
/// all. Residuals need leastExact. A test wants leastTested, so that a tested
/// number divided by a uniform divisor still is at least leastExact, and that
/// divided by one more is no subnormal number.
constexpr int leastExact = -100, leastTested = -76, divisorLimit = 24, leastQuotient = -124;

/// n / d from z = RN(1/d), where d is in 2^±divisorLimit (Markstein; of the
/// mantissa that his theorem leaves out, all ones, every quotient was tried).
/// NaN where n or the quotient is not finite.
Value uniformQuotient(CodeBuilder &b, Value n, Value d, Value z);

/// n / d from a GPU's approximate reciprocal. NaN where d is 0, subnormal or
/// not finite, or n or the quotient is not finite. The sign of 0 / d is right
/// for positive d, or with `anySign`.
Value quotient(CodeBuilder &b, Value n, Value d, bool anySign);

/// The square root from a GPU's approximate reciprocal root. NaN for infinity
/// and below -2^leastExact.
Value squareRoot(CodeBuilder &b, Value x);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_BUILDERS_QUOTIENTS_H

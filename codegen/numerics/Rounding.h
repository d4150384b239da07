// How encode rounds a magnitude: what Conversions and Stochastic share.
#ifndef ALTGRAD_CODEGEN_ROUNDING_H
#define ALTGRAD_CODEGEN_ROUNDING_H

#include "codegen/numerics/Bits.h"
#include "dialect/CodeBuilder.h"

namespace altgrad {

/// Numbers of a format that begins below f32's normal ones, as of one that
/// begins with them; `shape` is then that one's.
Value raise(const Bits &bits, Value magnitude, const Format &format, Shape &shape);
/// The code of a magnitude rounded toward zero, or where there is a draw, `drawBits`
/// of an i32, stochastically; beyond the largest one too, and one more where
/// there is no zero.
Value roundDirected(const Bits &bits, Value magnitude, Value draw, unsigned drawBits, const Format &format);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_ROUNDING_H

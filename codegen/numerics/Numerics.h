// Conversions and functions as arithmetic with the same bits on every target.
#ifndef ALTGRAD_CODEGEN_NUMERICS_NUMERICS_H
#define ALTGRAD_CODEGEN_NUMERICS_NUMERICS_H

#include "altgrad/book.h"
#include "dialect/Dialect.h"
#include "dialect/Target.h"
#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

/// An f32 or f64 (or a vector) with every NaN replaced by 7fc00000 or
/// 7ff8000000000000.
Value canonicalNan(CodeBuilder &b, Value number);
/// 2^floor(log2 |x|) of an f32 (or a vector); 0, infinity and NaN stay.
Value roundToBinade(CodeBuilder &b, Value x);
/// The upper 24 bits of an i32 (or a vector) over 2^24.
Value uniformNumber(CodeBuilder &b, Value bits);
/// |x| with the sign of y (f32 or f64, or vectors); the sign of a NaN counts as
/// positive.
Value copySign(CodeBuilder &b, Value x, Value y);

/// Code of an f32 (or a vector) by integer arithmetic and one addition.
Value encodeByBits(CodeBuilder &b, EncodeOp op, const Target &target);
/// The magnitude of an f32 (or a vector) as a number of steps of fixed point with a sign and a magnitude: an i32, 0
/// for a NaN.
Value stepsByBits(CodeBuilder &b, Value number, const Format &format, Round rounding, Value draw);
/// Replaces a move of codes; `inWords`: by arithmetic on an i32 for each.
void lowerAdvanceCode(CodeBuilder &b, AdvanceCodeOp op, bool inWords);

/// The halves of an f32 (or a vector) as `split` has them.
Value lowerUpperCode(CodeBuilder &b, UpperCodeOp op);
Value lowerLowerCode(CodeBuilder &b, LowerCodeOp op);
/// The f32 whose halves they are.
Value lowerJoinCodes(CodeBuilder &b, JoinCodesOp op, bool byWords);

/// base^exponent of an f64 and an i64: r = 1; while e: if e odd, r *= b; b *= b;
/// e >>= 1, on |exponent|; 1 / r for a negative exponent.
Value powerBySquaring(CodeBuilder &b, Value base, Value exponent);
/// e^x of an f64: x = k ln 2 + r, Taylor polynomial of degree 13 in r. One of `many`
/// has the same bits by operations that LLVM compiles faster.
Value exponential(CodeBuilder &b, Value x, bool many);
/// ln x of an f64: x = 2^k m, series in (m - 1) / (m + 1).
Value logarithm(CodeBuilder &b, Value x);

/// A function of one f32 or two (or of vectors of them) by ElementFunctions.h and what includes it; null: `op` is none.
Value lowerElementFunction(CodeBuilder &b, Operation *op);

/// A way to convert between f32 and some formats. Each is a file of its own, and a row of `codecs`; the first that does
/// not say null is taken, and the last one knows all formats but code books.
struct Codec {
  /// The code of an f32, or of each of a vector of them; null: not in this way.
  Value (*encode)(CodeBuilder &b, EncodeOp op, const Target &target);
  /// The f32 that a code stands for, or each of a vector of codes; null: not in this way.
  Value (*decode)(CodeBuilder &b, DecodeOp op, const Target &target);
};

/// Code books, by tables; eight bits by a GPU's instructions for pairs; f16 and bf16, by conversions or by the halves
/// of words; and integer arithmetic.
extern const Codec bookCodec, pairCodec, f16Codec, bitCodec;
inline constexpr const Codec *codecs[] = {&bookCodec, &pairCodec, &f16Codec, &bitCodec};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_NUMERICS_H

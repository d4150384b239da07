// Conversions and functions as arithmetic with the same bits on every target.
#ifndef ALTGRAD_CODEGEN_NUMERICS_H
#define ALTGRAD_CODEGEN_NUMERICS_H

#include "altgrad/book.h"
#include "codegen/Target.h"
#include "dialect/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace altgrad {

/// An f32 or f64 (or a vector) with every NaN replaced by 7fc00000 or
/// 7ff8000000000000.
mlir::Value canonicalNan(mlir::ImplicitLocOpBuilder &b, mlir::Value number);
/// 2^floor(log2 |x|) of an f32 (or a vector); 0, infinity and NaN stay.
mlir::Value binadeOf(mlir::ImplicitLocOpBuilder &b, mlir::Value x);
/// |x| with the sign of y (f32 or f64, or vectors); the sign of a NaN counts as
/// positive.
mlir::Value copySign(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                     mlir::Value y);

/// Code of an f32 (or a vector) by integer arithmetic and one addition.
mlir::Value encodeByBits(mlir::ImplicitLocOpBuilder &b, EncodeOp op);
/// The f32 that the code stands for, without making it: of fixed point with a sign
/// and a magnitude and without a NaN. Null for other formats.
mlir::Value roundByBits(mlir::ImplicitLocOpBuilder &b, EncodeOp op);
/// Its magnitude as an i32, of what `roundByBits` takes: 0 for a NaN.
mlir::Value stepsByBits(mlir::ImplicitLocOpBuilder &b, EncodeOp op);
/// Codes and comparisons of whole numbers, and what these are made of, in integers.
void useIntegers(mlir::Operation *root);
/// Code in f16 or bf16 by the target's conversion, NaN made canonical.
mlir::Value encodeByConversion(mlir::ImplicitLocOpBuilder &b, EncodeOp op);
/// Code of an f32 (or a vector) in a code book, by its lines and one look-up.
mlir::Value encodeByBook(mlir::ImplicitLocOpBuilder &b, EncodeOp op,
                         const Target &target);
/// Whether `count` numbers or codes have a way of their own.
bool hasQuickWay(const Book &book, mlir::Type numbers, int64_t count,
                 const Target &target);
/// The codes of a vector of f32 in a book, `exactly` where the quick way is in
/// doubt about one of them.
mlir::Value encodeQuickly(mlir::ImplicitLocOpBuilder &b, const Book &book,
                          mlir::Value number,
                          llvm::function_ref<mlir::Value()> exactly);
/// The f32 of a vector of 32 codes, by permutations of their halves.
mlir::Value decodeQuickly(mlir::ImplicitLocOpBuilder &b, const Book &book,
                          mlir::Value code);
/// f32 of a place in a code book.
mlir::Value decodeByBook(mlir::ImplicitLocOpBuilder &b, DecodeOp op,
                         const Target &target);
/// f32 of a code: a shift, an exact product, and a choice for Inf and NaN.
mlir::Value decodeByBits(mlir::ImplicitLocOpBuilder &b, mlir::Value code,
                         FormatAttr format);
/// f32 of an f16 code by the target's conversion.
mlir::Value decodeByConversion(mlir::ImplicitLocOpBuilder &b,
                               mlir::Value code);

/// The halves of an f32 (or a vector) as `split` has them.
mlir::Value upperHalf(mlir::ImplicitLocOpBuilder &b, UpperCodeOp op);
mlir::Value lowerHalf(mlir::ImplicitLocOpBuilder &b, LowerCodeOp op);
/// The f32 whose halves they are.
mlir::Value joinHalves(mlir::ImplicitLocOpBuilder &b, JoinCodesOp op,
                       bool byWords);

/// base^exponent of an f64 and an i64: r = 1; while e: if e odd, r *= b; b *= b;
/// e >>= 1, on |exponent|; 1 / r for a negative exponent.
mlir::Value powerBySquaring(mlir::ImplicitLocOpBuilder &b, mlir::Value base,
                            mlir::Value exponent);
/// e^x of an f64: x = k ln 2 + r, Taylor polynomial of degree 13 in r. One of `many`
/// has the same bits by operations that LLVM compiles faster.
mlir::Value exponential(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                        bool many);
/// ln x of an f64: x = 2^k m, series in (m - 1) / (m + 1).
mlir::Value logarithm(mlir::ImplicitLocOpBuilder &b, mlir::Value x);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_H

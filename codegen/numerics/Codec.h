// How a target makes codes of numbers, and numbers of codes.
#ifndef ALTGRAD_CODEGEN_CODEC_H
#define ALTGRAD_CODEGEN_CODEC_H

#include "codegen/Target.h"
#include "dialect/CodeBuilder.h"
#include "dialect/Dialect.h"

namespace altgrad {

/// A way to convert between f32 and some formats. Each is a file of its own, and a row of `codecs`; the first that does
/// not say null is taken, and the last one knows all formats but code books.
struct Codec {
  /// The code of an f32, or of each of a vector of them; null: not in this way.
  Value (*encode)(CodeBuilder &b, EncodeOp op, const Target &target);
  /// The f32 that a code stands for, or each of a vector of codes; null: not in this way.
  Value (*decode)(CodeBuilder &b, DecodeOp op, const Target &target);
};

/// Code books, by tables; eight bits by a GPU's instructions for pairs; f16 and bf16, by conversions or by the halves of
/// words; and integer arithmetic.
extern const Codec bookCodec, pairCodec, halfCodec, bitCodec;
inline constexpr const Codec *codecs[] = {&bookCodec, &pairCodec, &halfCodec, &bitCodec};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_CODEC_H

// Numbers ==> codes of a format, and back.
#ifndef ALTGRAD_DIALECT_BUILDERS_CODES_H
#define ALTGRAD_DIALECT_BUILDERS_CODES_H

#include "dialect/Dialect.h"
#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

/// The number that a code stands for.
inline Value decodeNumber(CodeBuilder &b, Value code, FormatAttr format) {
  return format.isF32() ? code : DecodeOp::create(b, b.getF32Type(), code, format).getNumber();
}

inline Value encodeNumber(CodeBuilder &b, Value number, FormatAttr format, Round rounding = Round::NearestEven,
                          Value draw = {}, OverflowMode overflow = OverflowMode::NonFinite) {
  return EncodeOp::create(b, format.getCodeType(), number, format, rounding, draw, overflow);
}

} // namespace altgrad

#endif // ALTGRAD_DIALECT_BUILDERS_CODES_H

// What the codec of a format needs, takes and costs: who chooses a way by a format asks here.
#ifndef ALTGRAD_DIALECT_CODECS_H
#define ALTGRAD_DIALECT_CODECS_H

#include "dialect/Dialect.h"

namespace altgrad {

struct CodecFacts {
  /// Codes are places in it: to encode is to search it, to decode a load. Null: both are arithmetic.
  const Book *table;
  bool nearestOnly;     ///< Numbers go to the nearest code, so that nothing is drawn for them.
  bool sharesBytes;     ///< With a scale for each block two neighbours share a byte.
  bool isSignMagnitude; ///< Codes are in sign and magnitude, in the order of their numbers, and at most 8 bits.
  bool negative;        ///< There are numbers below 0,
  bool zero;            ///< and 0 itself.
  float least, most;    ///< The smallest number above 0, and the largest.
  float leastScale;     ///< In f32.
};

/// Nothing of a format that is null.
CodecFacts getCodecFacts(FormatAttr format);

/// The table in which an operation searches the code of a number, or looks one up; null where it does neither.
const Book *getTable(mlir::Operation *op);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_CODECS_H

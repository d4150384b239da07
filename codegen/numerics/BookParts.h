// A code book cut where its numbers begin to lie further apart, for a search
// without a table of all of them. Each part is a line that passes k + 1/2 where
// code k + 1 begins (counted from the book's zero), within a small error.
#ifndef ALTGRAD_CODEGEN_BOOKPARTS_H
#define ALTGRAD_CODEGEN_BOOKPARTS_H

#include "altgrad/book.h"

namespace altgrad {

struct BookParts {
  /// Bits behind the point in a line's values.
  static constexpr unsigned fraction = 13;
  /// The bits of 2^-31: what is below belongs to its binade.
  static constexpr uint32_t least = 0x30000000;
  /// In places: as far as the parts of the two signs begin from each other, and a
  /// quotient lies from the product that is searched for instead.
  static constexpr uint32_t margin = 8;

  // Of the binades from 2^-31 to 1, by the low bits of the exponent.
  uint32_t begins[32] = {}; // the bits where a part does, less the margin
  uint32_t after[32] = {};  // one more than the part before it
  // Of parts: before the first number but 0, of each line, from the last number
  // on.
  float slopes[16] = {}, offsets[16] = {};
  float most[16] = {}; // the last code's of the part

  constexpr explicit BookParts(const Book &book) {
    constexpr float one = 1 << fraction;
    unsigned parts = book.lineCount + 2u, code = 0; // the first one's of a part
    for (unsigned part = 0; part < parts; ++part) {
      unsigned last = lastOf(book, part);
      // Half a code more than the book's lines, and 1, so that doubt is above
      // 0.
      if (part > 0 && part + 1 < parts) {
        slopes[part] = book.lines[part - 1].slope * one;
        offsets[part] = book.lines[part - 1].offset * one + one / 2 + 1;
      } else
        offsets[part] = float(last) * one + one / 2;
      most[part] = float(last) * one + one / 2;
      if (part > 0)
        begin(book, part, book.next[book.zero + code - 1]);
      code = last + 1;
    }
  }

private:
  static constexpr unsigned lastOf(const Book &book, unsigned part) {
    if (part > book.lineCount)
      return book.size() - 1 - book.zero;
    return (1u << (part + !book.hasSign)) - 1 - !book.hasSign;
  }
  constexpr void begin(const Book &book, unsigned part, float from) {
    uint32_t bits = __builtin_bit_cast(uint32_t, from);
    for (uint32_t exponent = 96; exponent < 128; ++exponent) {
      if (part == 1)
        begins[exponent % 32] = 0x7f800000, after[exponent % 32] = 1;
      if (exponent > bits >> 23)
        after[exponent % 32] = part + 1;
    }
    begins[(bits >> 23) % 32] = bits - margin;
  }
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_BOOKPARTS_H

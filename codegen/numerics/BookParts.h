// A code book cut where its numbers begin to lie further apart, for a search
// without a table of all of them. A part is a line from 4 to 8, cut into as many
// even cells as the part has codes, a power of two. So the bits of a value on it
// are, behind the exponent, the number of its cell and how far into the cell it is;
// with the exponent's lowest bit, a 1, above it the former is the code, counted from
// the book's zero (from one before it where the book has no sign). Turned to the
// left, by one more from part to part, the code is the lowest byte.
#ifndef ALTGRAD_CODEGEN_NUMERICS_BOOKPARTS_H
#define ALTGRAD_CODEGEN_NUMERICS_BOOKPARTS_H

#include "altgrad/book.h"

namespace altgrad {

struct BookParts {
  /// The bits of 2^-31: what is below belongs to its binade.
  static constexpr uint32_t least = 0x30000000;
  /// Doubt is as many places around where a part begins. The parts of the two
  /// signs are less apart, and so is a quotient from what is searched for instead.
  static constexpr uint32_t margin = 64;
  /// As many places around where a cell does, of floats from 4 to 8.
  static constexpr uint32_t cellMargin = 8;
  /// Bits that are all 0 in doubt: of a value turned, and behind a part's beginning.
  static constexpr uint32_t inCell = 0xfff00000, inPart = 0x007fffff & ~(2 * margin - 1);
  /// The exponent from 4 to 8 without its lowest bit.
  static constexpr uint32_t exponent = 0x40000000;
  /// The bits of the float before 8. A part's last code reaches beyond its line:
  /// greater values count as this one.
  static constexpr uint32_t full = 0x40ffffff;

  // Of the binades from 2^-31 to 1, by the low bits of the exponent. Taken from the
  // bits of a number there, they leave the turn of its part, then in 23 bits how far
  // behind the beginning of the part in this binade it lies.
  uint32_t begins[32] = {};
  // Of the parts, by the low bits of the turn: of zero, of each decade, of 1.
  float slopes[16] = {};
  float offset; // of all lines, for every decade begins at a tenth of its end
  // The bits of a number beyond 1, where the last part's only cell ends: greater
  // ones count as it, and so are in doubt.
  uint32_t end;

  constexpr explicit BookParts(const Book &book)
      : offset(float(4 * 8 / 9. + cellMargin * ulp)), end(getBits(book.hasSign ? 1.05f : 1.02f)) {
    for (unsigned part = 0; part < book.lineCount + 2u; ++part) {
      unsigned turn = part + (book.hasSign ? 8 : 9);
      slopes[turn % 16] = float(getSlope(book, part, getCells(turn)));
      uint32_t code = getCells(turn) - !book.hasSign;
      uint32_t first = part ? getBits(book.next[book.zero + code - 1]) : least;
      for (uint32_t binade = first >> 23; binade < 127; ++binade)
        begins[(binade + 1) % 32] = ((binade + 1 - turn) << 23) - 2 * margin;
      begins[(first >> 23) % 32] = first - (turn << 23) - (part ? margin : 2 * margin);
    }
  }

private:
  static constexpr double ulp = 0x1p-21; // of floats from 4 to 8

  static constexpr uint32_t getBits(float number) { return __builtin_bit_cast(uint32_t, number); }
  static constexpr uint32_t getCells(unsigned turn) { return (1u << turn) >> 9; }

  // Zero's line is beyond 8 but for its first binades, the one of 1 leaves its only
  // cell at `end`.
  constexpr double getSlope(const Book &book, unsigned part, uint32_t cells) const {
    if (part == 0)
      return 0x1p31;
    if (part <= book.lineCount)
      return 4. * book.lines[part - 1].slope / cells;
    return (4 + 4. / cells + cellMargin / 2 * ulp - offset) / __builtin_bit_cast(float, end);
  }
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_BOOKPARTS_H

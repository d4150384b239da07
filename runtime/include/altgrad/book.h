// Code books: formats whose numbers are a table. bitsandbytes and torchao share
// the dynamic maps (Dettmers, 8-Bit Approximations for Parallelism in Deep
// Learning, 2015). These consist of decades. Each decade is divided into twice as many
// equal parts as the decade below it, and the middles of the parts are the numbers. The
// tables here are theirs, bit for bit.
#ifndef ALTGRAD_BOOK_H
#define ALTGRAD_BOOK_H

#include <cstdint>

namespace altgrad {

struct Book {
  uint8_t bits;
  bool hasSign;
  bool evenHigh;      // where two codes share a byte, the even element's is above
  uint8_t zero;       // the code of 0, or of what is next to it; a NaN's too
  uint8_t lineCount;  // of `lines`
  float numbers[256]; // ascending: of each code
  float next[256];    // from here on a number has the code after, if there is one
  float leastScale;   // of a block: smaller numbers do not make a scale smaller
  // The code of a magnitude is the whole part of the lowest line's value there,
  // counted from `zero`, or one more.
  struct Line {
    float slope, offset;
  } lines[7];

  constexpr unsigned size() const { return 1u << bits; }
  /// The lines' values end here.
  constexpr float lastLine() const { return float(size() - 2 - zero) + 0.5f; }
};

namespace detail {

// torch.linspace(0.1, 1, parts + 1): from both ends, each rounded once.
constexpr float rampAt(unsigned i, unsigned parts) {
  float start = 0.1f, step = (1.0f - start) / float(parts);
  return float(i < (parts + 1) / 2 ? double(start) + double(step) * i : 1.0 - double(step) * (parts - i));
}

// The smallest float above `low` that torchao stores as `high`: from half of
// the way on, both differences rounded.
constexpr float storedFrom(float low, float high) {
  float half = (high - low) * 0.5f, from = low + half;
  auto moved = [](float x, bool up) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    return __builtin_bit_cast(float, (x < 0) == up ? bits - 1 : bits + 1);
  };
  while (moved(from, false) - low >= half)
    from = moved(from, false);
  while (from - low < half)
    from = moved(from, true);
  return from;
}

constexpr void finishBook(Book &book) {
  for (unsigned i = 0; i + 1 < book.size(); ++i)
    book.next[i] = storedFrom(book.numbers[i], book.numbers[i + 1]);
  book.next[book.size() - 1] = __builtin_inff();
  book.leastScale = 1e-12f; // torchao's
  book.evenHigh = true;     // codes[::2] << 4 | codes[1::2] of its OptimState4bit
}

constexpr Book dynamicBook(uint8_t bits, bool hasSign, uint8_t decades) {
  constexpr float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  Book book{};
  book.bits = bits;
  book.hasSign = hasSign;
  book.zero = uint8_t(hasSign ? book.size() / 2 - 1 : 0);
  book.lineCount = decades;
  unsigned above = 1; // of `zero`
  for (unsigned i = 0; i < decades; ++i) {
    float power = powers[7 - decades + i];
    unsigned parts = 1u << (i + !hasSign);
    double steep = parts / (0.9 * double(power));
    book.lines[i] = {float(steep), float(above - 0.5 - parts / 9.0)};
    for (unsigned j = 0; j < parts; ++j, ++above) {
      float middle = (rampAt(j, parts) + rampAt(j + 1, parts)) / 2;
      book.numbers[book.zero + above] = power * middle;
      if (hasSign)
        book.numbers[book.zero - above] = -(power * middle);
    }
  }
  book.numbers[book.zero + above] = 1;
  finishBook(book);
  return book;
}

// 1/16 to 1 in even steps, without a zero: nothing is divided by one.
constexpr Book evenBook(uint8_t bits) {
  Book book{};
  book.bits = bits;
  book.lineCount = 1;
  book.lines[0] = {float(book.size()), -1};
  for (unsigned i = 0; i < book.size(); ++i)
    book.numbers[i] = float(i + 1) / float(book.size());
  finishBook(book);
  return book;
}

} // namespace detail

inline constexpr Book books[] = {detail::dynamicBook(8, true, 7), detail::dynamicBook(8, false, 7),
                                 detail::dynamicBook(4, true, 3), detail::evenBook(4)};

/// The nearest number's code; a tie goes up.
constexpr uint32_t encode(const Book &book, float value) {
  if (value != value)
    return book.zero;
  uint32_t code = 0;
  for (uint32_t step = book.size() / 2; step; step /= 2)
    if (value >= book.next[code + step - 1])
      code += step;
  return code;
}

} // namespace altgrad

#endif // ALTGRAD_BOOK_H

// encode and decode of code books: look-ups in their tables.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/BookTable.h"
#include "codegen/numerics/Instructions.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/Codecs.h"

using namespace mlir;
using namespace altgrad;

// A place for the magnitude that is the code's or the one below it: the lowest of
// the lines, which are the decades' inside them. Numbers that are not negative
// are in the order of their bits.
static Value placeOf(const Bits &bits, Value magnitude, const Book &book) {
  Value size = bits.cast(magnitude, bits.f32());
  Value lowest = bits.cast(bits.constant(book.lastLine()), bits.type);
  for (unsigned i = 0; i < book.lineCount; ++i) {
    Value line = bits.b.fma(size, bits.constant(book.lines[i].slope), bits.constant(book.lines[i].offset));
    lowest = bits.least(lowest, bits.cast(line, bits.type));
  }
  return arith::FPToSIOp::create(bits.b, bits.type, bits.cast(lowest, bits.f32()));
}

static Value encodeByLines(CodeBuilder &b, EncodeOp op, const Book &book, const Target &target) {
  Value number = op.getNumber();
  Bits bits{b, number.getType()};
  Value raw = bits.cast(number, bits.type), none = bits.constant(0u);
  Value magnitude = book.hasSign ? bits.both(raw, bits.constant(0x7fffffffu)) : b.most(raw, none);
  Value code = placeOf(bits, magnitude, book);
  if (book.hasSign) { // below zero they count the other way, from one less
    Value all = b.rightSigned(raw, bits.constant(31u));
    code = bits.add(bits.exclusive(code, all), bits.constant(uint32_t(book.zero)));
  }
  code = b.most(code, none);
  Value next = BookTable(b, target, {&book, /*isNext=*/true}).at(code);
  Value above = b.compareF(arith::CmpFPredicate::OGE, number, next);
  code = bits.add(code, b.widen(bits.type, above));
  if (!op.getNeverNan()) {
    Value nan = b.isNan(number);
    code = bits.choose(nan, bits.constant(uint32_t(book.zero)), code);
  }
  return b.narrow(bits.of(b.getI8Type()), code);
}

static Value toCode(CodeBuilder &b, EncodeOp op, const Target &target) {
  const Book *book = tableOf(op);
  if (!book)
    return {};
  auto byLines = [&] { return encodeByLines(b, op, *book, target); };
  if (!hasQuickWay(*book, op.getNumber().getType(), 16, target))
    return byLines();
  return encodeQuickly(b, *book, op.getNumber(), byLines);
}

static Value toNumber(CodeBuilder &b, DecodeOp op, const Target &target) {
  const Book *book = tableOf(op);
  if (!book)
    return {};
  if (hasQuickWay(*book, op.getNumber().getType(), 32, target))
    return decodeQuickly(b, *book, op.getCode());
  if (hasQuickWay(*book, op.getNumber().getType(), 16, target)) {
    Value all = decodeQuickly(b, *book, pick(b, op.getCode(), op.getCode(), 0, 32));
    return pick(b, all, all, 0, 16);
  }
  Integers words{b, likeShape(op.getCode().getType(), b.getI32Type())};
  Value place = b.widen(words.type, op.getCode());
  if (book->bits < 8)
    place = words.both(place, words.constant(book->size() - 1));
  return BookTable(b, target, {book, /*isNext=*/false}).at(place);
}

const Codec altgrad::bookCodec{toCode, toNumber};

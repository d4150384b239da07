// encode and decode of code books: look-ups in their tables. With AVX-512 16 numbers are encoded at once, where none of
// them lies next to the middle of two numbers, and 32 codes decoded. A quotient need not be exact for that: the product
// with the inverse, two places off, has the same code.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/BookParts.h"
#include "codegen/numerics/BookTable.h"
#include "codegen/numerics/Numerics.h"
#include "dialect/Codecs.h"
#include "dialect/builders/Instructions.h"

using namespace mlir;
using namespace altgrad;

//===-- Quick ways ----------------------------------------------------------===//

namespace {
class FastSearch {
public:
  FastSearch(const Bits &bits, const Book &book, Value number)
      : bits(bits), b(bits.b), book(book), parts(book), raw(bits.cast(number, bits.type)) {}

  /// Of the numbers, and of those up to three places off, where `isUnambiguous` holds for
  /// all of them.
  Value code();
  Value isUnambiguous() const;

private:
  template <typename Entry> Value table(ArrayRef<Entry> entries) const {
    Type type = std::is_same_v<Entry, float> ? bits.f32() : bits.type;
    using Bytes = std::conditional_t<std::is_same_v<Entry, float>, float, int32_t>;
    SmallVector<Bytes> all(entries.begin(), entries.end());
    return arith::ConstantOp::create(b, DenseElementsAttr::get(cast<ShapedType>(type), ArrayRef<Bytes>(all)));
  }
  Value getBegin(Value binade) const {
    ArrayRef<uint32_t> all(parts.begins);
    return intrinsic(b, "llvm.x86.avx512.vpermi2var.d.512", bits.type,
                     {table(all.take_front(16)), binade, table(all.drop_front(16))});
  }
  Value getSlope(Value part) const {
    return intrinsic(b, "llvm.x86.avx512.permvar.sf.512", bits.f32(), {table(ArrayRef<float>(parts.slopes)), part});
  }

  const Bits &bits;
  CodeBuilder &b;
  const Book &book;
  BookParts parts;
  Value raw, beyond, turned;
};
} // namespace

Value FastSearch::code() {
  Value size = book.hasSign ? bits.bitAnd(raw, bits.constant(0x7fffffffu)) : raw;
  size = bits.minSigned(b.maxSigned(size, bits.constant(BookParts::least)), bits.constant(parts.end));
  beyond = bits.sub(size, getBegin(bits.shiftRight(size, 23)));
  Value turn = bits.shiftRight(beyond, 23);
  Value line = b.fma(bits.cast(size, bits.f32()), getSlope(turn), bits.constant(parts.offset));
  Value onLine = bits.bitXor(bits.minSigned(bits.cast(line, bits.type), bits.constant(BookParts::full)),
                             bits.constant(BookParts::exponent));
  turned = LLVM::FshlOp::create(b, onLine, onLine, turn);
  Integers codes{b, bits.of(b.getI8Type())};
  Value above = b.truncate(codes.type, turned);
  if (!book.hasSign)
    return codes.sub(above, codes.constant(1));
  Value zero = codes.constant(book.zero);
  Value isNegative = b.less(raw, bits.constant(0u));
  Value below = LLVM::USubSat::create(b, codes.type, zero, above);
  return codes.select(isNegative, below, codes.add(zero, above));
}

Value FastSearch::isUnambiguous() const {
  auto hasAny = [&](Value value, uint32_t of) -> Value {
    return b.notEqual(bits.bitAnd(value, bits.constant(of)), bits.constant(0u));
  };
  return vector::ReductionOp::create(b, vector::CombiningKind::AND,
                                     b.bitAnd(hasAny(turned, BookParts::inCell), hasAny(beyond, BookParts::inPart)));
}

// Of a quotient the first product, so that the others are work for the exact way alone.
static Value getFirstProduct(CodeBuilder &b, Value number) {
  auto quotient = number.getDefiningOp<ScaledQuotientOp>();
  return quotient ? b.mulF(quotient.getNumber(), quotient.getInverse()) : number;
}

// Whether `count` numbers or codes have a way of their own.
static bool hasPermutations(const Book &book, Type numbers, int64_t count, const Target &target) {
  auto vector = dyn_cast<VectorType>(numbers);
  return book.bits == 8 && target.cpu.fastBooks && vector && vector.getNumElements() == count;
}

// The codes of a vector of f32, `exactly` where the quick way is in doubt about one of them.
static Value encodeBySearch(CodeBuilder &b, const Book &book, Value number, function_ref<Value()> exactly) {
  Bits bits{b, number.getType()};
  FastSearch search(bits, book, getFirstProduct(b, number));
  Value code = search.code();
  return branch(
      b, search.isUnambiguous(), code.getType(), [&] { return code; }, exactly);
}

// Halves of numbers at 32 places, by 64 of them at a time.
static Value splitColumn(const Integers &words, Value indices, ArrayRef<float> numbers, unsigned shift) {
  CodeBuilder &b = words.b;
  SmallVector<Value> parts;
  for (size_t from = 0; from < numbers.size(); from += 64) {
    SmallVector<Value, 2> tables;
    for (size_t half : {from, from + 32}) {
      SmallVector<int16_t> entries;
      for (float number : numbers.slice(half, 32))
        entries.push_back(int16_t(llvm::bit_cast<uint32_t>(number) >> shift));
      tables.push_back(arith::ConstantOp::create(
          b, DenseElementsAttr::get(cast<ShapedType>(words.type), ArrayRef<int16_t>(entries))));
    }
    parts.push_back(intrinsic(b, "llvm.x86.avx512.vpermi2var.hi.512", words.type, {tables[0], indices, tables[1]}));
  }
  for (uint64_t bit = 64; parts.size() > 1; bit *= 2) {
    Value high = b.notEqual(words.bitAnd(indices, words.constant(bit)), words.constant(0));
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = words.select(high, parts[2 * i + 1], parts[2 * i]);
    parts.resize(parts.size() / 2);
  }
  return parts[0];
}

// The f32 of a vector of 32 codes, by permutations of their halves. Of a book with a sign the magnitudes but 1, and
// that where places say so.
static Value decodeByPermutation(CodeBuilder &b, const Book &book, Value code) {
  Integers codes{b, code.getType()}, words{b, codes.of(b.getI16Type())};
  ArrayRef<float> numbers(book.numbers, book.size());
  Value index = b.extendUnsigned(words.type, code), sign;
  if (book.hasSign) {
    numbers = numbers.slice(book.zero, 128);
    sign = words.sub(index, words.constant(book.zero));
    index = b.abs(sign);
  }
  Value low = splitColumn(words, index, numbers, 0), high = splitColumn(words, index, numbers, 16);
  if (book.hasSign) {
    Value isOne = b.notEqual(words.bitAnd(index, words.constant(128)), words.constant(0));
    high = words.select(isOne, words.constant(powerBits(0) >> 16), high);
    high = words.bitOr(high, words.bitAnd(sign, words.constant(0x8000)));
  }
  Value pairs = vector::InterleaveOp::create(b, low, high);
  return vector::BitCastOp::create(b, codes.of(b.getF32Type()), pairs);
}

//===-- Tables --------------------------------------------------------------===//

// A place for the magnitude that is the code's or the one below it: the lowest of
// the lines, which are the decades' inside them. Numbers that are not negative
// are in the order of their bits.
static Value estimateCode(const Bits &bits, Value magnitude, const Book &book) {
  Value size = bits.cast(magnitude, bits.f32());
  Value lowest = bits.cast(bits.constant(book.lastLine()), bits.type);
  for (unsigned i = 0; i < book.lineCount; ++i) {
    Value line = bits.b.fma(size, bits.constant(book.lines[i].slope), bits.constant(book.lines[i].offset));
    lowest = bits.minSigned(lowest, bits.cast(line, bits.type));
  }
  return arith::FPToSIOp::create(bits.b, bits.type, bits.cast(lowest, bits.f32()));
}

static Value encodeByLines(CodeBuilder &b, EncodeOp op, const Book &book, const Target &target) {
  Value number = op.getNumber();
  Bits bits{b, number.getType()};
  Value raw = bits.cast(number, bits.type), none = bits.constant(0u);
  Value magnitude = book.hasSign ? bits.bitAnd(raw, bits.constant(0x7fffffffu)) : b.maxSigned(raw, none);
  Value code = estimateCode(bits, magnitude, book);
  if (book.hasSign) { // below zero they count the other way, from one less
    Value all = b.shiftRightSigned(raw, bits.constant(31u));
    code = bits.add(bits.bitXor(code, all), bits.constant(uint32_t(book.zero)));
  }
  code = b.maxSigned(code, none);
  Value next = BookTable(b, target, {&book, /*isNext=*/true}).at(code);
  Value above = b.compareF(arith::CmpFPredicate::OGE, number, next);
  code = bits.add(code, b.extendUnsigned(bits.type, above));
  if (!op.getNeverNan()) {
    Value nan = b.isNan(number);
    code = bits.select(nan, bits.constant(uint32_t(book.zero)), code);
  }
  return b.truncate(bits.of(b.getI8Type()), code);
}

static Value toCode(CodeBuilder &b, EncodeOp op, const Target &target) {
  const Book *book = getTable(op);
  if (!book)
    return {};
  auto byLines = [&] { return encodeByLines(b, op, *book, target); };
  if (!hasPermutations(*book, op.getNumber().getType(), 16, target))
    return byLines();
  return encodeBySearch(b, *book, op.getNumber(), byLines);
}

static Value toNumber(CodeBuilder &b, DecodeOp op, const Target &target) {
  const Book *book = getTable(op);
  if (!book)
    return {};
  if (hasPermutations(*book, op.getNumber().getType(), 32, target))
    return decodeByPermutation(b, *book, op.getCode());
  if (hasPermutations(*book, op.getNumber().getType(), 16, target)) {
    Value all = decodeByPermutation(b, *book, shuffleStrided(b, op.getCode(), op.getCode(), 0, 32));
    return shuffleStrided(b, all, all, 0, 16);
  }
  Integers words{b, withElementType(op.getCode().getType(), b.getI32Type())};
  Value index = b.extendUnsigned(words.type, op.getCode());
  if (book->bits < 8)
    index = words.bitAnd(index, words.constant(book->size() - 1));
  return BookTable(b, target, {book, /*isNext=*/false}).at(index);
}

const Codec altgrad::bookCodec{toCode, toNumber};

// encode and decode of code books: tables in the module, and look-ups in them.
#include "codegen/numerics/Bits.h"
#include "codegen/numerics/Numerics.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace altgrad;

// Of all books the numbers and then what follows them, in one constant: on a GPU
// each symbol would take two registers.
static SmallVector<float> allTables() {
  SmallVector<float> entries;
  for (const Book &book : books) {
    entries.append(book.numbers, book.numbers + book.size());
    entries.append(book.next, book.next + book.size());
  }
  return entries;
}

static constexpr llvm::StringLiteral symbol = "altgrad_books";

namespace {
// A table of a code book in the memory of a kernel's module.
class Table {
public:
  Table(ImplicitLocOpBuilder &b, const Target &target, unsigned place,
        bool isNext)
      : b(b), target(target), size(books[place].size()),
        pointer(LLVM::LLVMPointerType::get(b.getContext(), target.isPtx())) {
    for (unsigned i = 0; i < place; ++i)
      first += int32_t(2 * books[i].size());
    first += isNext ? int32_t(size) : 0;
    Operation *module = SymbolTable::getNearestSymbolTable(
        b.getInsertionBlock()->getParentOp());
    if (!SymbolTable::lookupSymbolIn(module, symbol))
      define(module->getRegion(0).front());
    base = LLVM::AddressOfOp::create(b, pointer, symbol);
  }

  /// The entries at an i32 or at each of a vector of them, all below its size.
  Value at(Value places) const;

private:
  void define(Block &module) const;
  Value moved(Value from, LLVM::GEPArg by) const {
    return LLVM::GEPOp::create(b, pointer, b.getF32Type(), from,
                               ArrayRef<LLVM::GEPArg>{by});
  }
  Value load(Type type, Value from, unsigned alignment) const {
    return LLVM::LoadOp::create(b, type, from, alignment, /*isVolatile=*/false,
                                /*isNonTemporal=*/false, /*isInvariant=*/true);
  }
  // The constant is the load's own.
  Value entry(Value place) const {
    return load(b.getF32Type(), moved(moved(base, place), first), 4);
  }
  Value call(StringRef intrinsic, Type type, ValueRange operands) const {
    return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(intrinsic),
                                         operands)
        .getResult(0);
  }
  Value oneByOne(Value places, VectorType type) const;
  Value gathered(Value places, VectorType type) const;

  ImplicitLocOpBuilder &b;
  const Target &target;
  int64_t size;
  int32_t first = 0; // of its entries
  LLVM::LLVMPointerType pointer;
  Value base;
};
} // namespace

void Table::define(Block &module) const {
  SmallVector<float> entries = allTables();
  OpBuilder top = OpBuilder::atBlockBegin(&module);
  auto values = DenseElementsAttr::get(
      RankedTensorType::get({int64_t(entries.size())}, b.getF32Type()),
      ArrayRef<float>(entries));
  LLVM::GlobalOp::create(
      top, b.getLoc(), LLVM::LLVMArrayType::get(b.getF32Type(), entries.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, symbol, values,
      /*alignment=*/64, pointer.getAddressSpace());
}

Value Table::at(Value places) const {
  auto vector = dyn_cast<VectorType>(places.getType());
  if (!vector)
    return entry(places);
  auto type = VectorType::get(vector.getShape(), b.getF32Type());
  if (!target.isPtx() && type.getNumElements() == 16 && size == 16)
    return call("llvm.x86.avx512.permvar.sf.512", type,
                {load(type, moved(base, first), 64), places});
  if (!target.isPtx() && type.getNumElements() >= 8)
    return gathered(places, type);
  return oneByOne(places, type);
}

Value Table::oneByOne(Value places, VectorType type) const {
  SmallVector<Value> entries;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    entries.push_back(
        entry(vector::ExtractOp::create(b, places, ArrayRef<int64_t>{i})));
  return vector::FromElementsOp::create(b, type, entries);
}

// The CPU's own: LLVM takes a gather apart where it does not know the CPU.
Value Table::gathered(Value places, VectorType type) const {
  Integers words{b, places.getType()};
  Value none = words.splat(b.getF32FloatAttr(0));
  if (type.getNumElements() == 16)
    return call("llvm.x86.avx512.mask.gather.dps.512", type,
                {none, moved(base, first), places,
                 words.splat(b.getBoolAttr(true)),
                 LLVM::ConstantOp::create(b, b.getI32Type(),
                                          b.getI32IntegerAttr(4))});
  Value all = words.splat(
      b.getF32FloatAttr(__builtin_bit_cast(float, 0xffffffffu)));
  auto bytes = LLVM::ConstantOp::create(b, b.getI8Type(), b.getI8IntegerAttr(4));
  return call("llvm.x86.avx2.gather.d.ps.256", type,
              {none, moved(base, first), places, all, bytes});
}

static const Book &bookOf(FormatAttr format) {
  return books[format.getBook() - 1];
}

// A place for the magnitude that is the code's or the one below it: the lowest of
// the lines, which are the decades' inside them. Numbers that are not negative
// are in the order of their bits.
static Value placeOf(const Bits &bits, Value magnitude, const Book &book) {
  Value size = bits.cast(magnitude, bits.f32());
  Value lowest = bits.cast(bits.constant(book.lastLine()), bits.type);
  for (unsigned i = 0; i < book.lineCount; ++i) {
    Value line =
        math::FmaOp::create(bits.b, size, bits.constant(book.lines[i].slope),
                            bits.constant(book.lines[i].offset));
    lowest = bits.least(lowest, bits.cast(line, bits.type));
  }
  return arith::FPToSIOp::create(bits.b, bits.type,
                                 bits.cast(lowest, bits.f32()));
}

static Value encodeByLines(ImplicitLocOpBuilder &b, Value number,
                           FormatAttr format, const Target &target) {
  const Book &book = bookOf(format);
  Bits bits{b, number.getType()};
  Value raw = bits.cast(number, bits.type), none = bits.constant(0u);
  Value magnitude = book.hasSign
                        ? bits.both(raw, bits.constant(0x7fffffffu))
                        : arith::MaxSIOp::create(b, raw, none).getResult();
  Value code = placeOf(bits, magnitude, book);
  if (book.hasSign) { // below zero they count the other way, from one less
    Value all = arith::ShRSIOp::create(b, raw, bits.constant(31u));
    code = bits.add(bits.exclusive(code, all), bits.constant(uint32_t(book.zero)));
  }
  code = arith::MaxSIOp::create(b, code, none);
  Value next =
      Table(b, target, format.getBook() - 1, /*isNext=*/true).at(code);
  Value above =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, number, next);
  code = bits.add(code, arith::ExtUIOp::create(b, bits.type, above));
  Value nan =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, number, number);
  code = bits.choose(nan, bits.constant(uint32_t(book.zero)), code);
  return arith::TruncIOp::create(b, bits.of(b.getI8Type()), code);
}

Value altgrad::encodeByBook(ImplicitLocOpBuilder &b, EncodeOp op,
                            const Target &target) {
  Value number = op.getNumber();
  FormatAttr format = op.getFormat();
  const Book &book = bookOf(format);
  if (!hasQuickWay(book, number.getType(), 16, target))
    return encodeByLines(b, number, format, target);
  return encodeQuickly(
      b, book, number, [&] { return encodeByLines(b, number, format, target); });
}

Value altgrad::decodeByBook(ImplicitLocOpBuilder &b, DecodeOp op,
                            const Target &target) {
  const Book &book = bookOf(op.getFormat());
  if (hasQuickWay(book, op.getNumber().getType(), 32, target))
    return decodeQuickly(b, book, op.getCode());
  if (hasQuickWay(book, op.getNumber().getType(), 16, target)) {
    auto twice = llvm::to_vector(llvm::seq<int64_t>(0, 32));
    Value all = decodeQuickly(
        b, book,
        vector::ShuffleOp::create(b, op.getCode(), op.getCode(), twice));
    return vector::ShuffleOp::create(b, all, all, ArrayRef(twice).take_front(16));
  }
  Integers words{b, Integers{b, op.getCode().getType()}.of(b.getI32Type())};
  Value place = arith::ExtUIOp::create(b, words.type, op.getCode());
  if (book.bits < 8)
    place = words.both(place, words.constant(book.size() - 1));
  return Table(b, target, op.getFormat().getBook() - 1, /*isNext=*/false)
      .at(place);
}

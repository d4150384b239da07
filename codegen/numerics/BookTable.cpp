// Tables of code books: a constant of the module, of which a GPU's kernel has its
// part in shared memory. There the threads of a warp look up places of their own at
// once; a load from elsewhere would take a turn for each line of the cache.
#include "codegen/numerics/BookTable.h"

#include "altgrad/bundle.h"
#include "codegen/numerics/SharedVariable.h"
#include "dialect/Codecs.h"
#include "dialect/builders/Instructions.h"
#include "dialect/builders/Integers.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace altgrad;

static constexpr llvm::StringLiteral symbol = "altgrad_books";
static constexpr auto shared = unsigned(NVVM::NVVMMemorySpace::Shared);

unsigned BookPart::first() const {
  unsigned before = isNext ? size() : 0;
  for (const Book *other = books; other < book; ++other)
    before += 2 * other->size();
  return before;
}

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

static Value getBookConstant(CodeBuilder &b, bool isPtx) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), isPtx);
  Operation *module = SymbolTable::getNearestSymbolTable(b.getInsertionBlock()->getParentOp());
  if (!SymbolTable::lookupSymbolIn(module, symbol)) {
    SmallVector<float> entries = allTables();
    OpBuilder top = OpBuilder::atBlockBegin(&module->getRegion(0).front());
    auto values = DenseElementsAttr::get(RankedTensorType::get({int64_t(entries.size())}, b.getF32Type()),
                                         ArrayRef<float>(entries));
    LLVM::GlobalOp::create(top, b.getLoc(), LLVM::LLVMArrayType::get(b.getF32Type(), entries.size()),
                           /*isConstant=*/true, LLVM::Linkage::Internal, symbol, values,
                           /*alignment=*/64, pointer.getAddressSpace());
  }
  return LLVM::AddressOfOp::create(b, pointer, symbol);
}

static constexpr llvm::StringLiteral copyName = "books";
static std::string getCopyName(LLVM::LLVMFuncOp kernel) { return (kernel.getSymName() + "_" + copyName).str(); }

// The kernel's own copy, or the constant where it has none.
static Value getBookTables(CodeBuilder &b, const Target &target) {
  Operation *around = b.getInsertionBlock()->getParentOp();
  auto kernel = dyn_cast<LLVM::LLVMFuncOp>(around);
  if (!kernel)
    kernel = around->getParentOfType<LLVM::LLVMFuncOp>();
  if (kernel && SymbolTable::lookupNearestSymbolFrom(kernel, b.getStringAttr(getCopyName(kernel))))
    return LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), shared), getCopyName(kernel));
  return getBookConstant(b, target.isPtx());
}

BookTable::BookTable(CodeBuilder &b, const Target &target, BookPart part)
    : b(b), target(target), part(part), base(getBookTables(b, target)) {}

Value BookTable::offsetBy(Value from, LLVM::GEPArg by) const {
  return LLVM::GEPOp::create(b, base.getType(), b.getF32Type(), from, ArrayRef<LLVM::GEPArg>{by});
}

Value BookTable::load(Type type, Value from, unsigned alignment) const {
  bool copied = cast<LLVM::LLVMPointerType>(base.getType()).getAddressSpace() == shared;
  return LLVM::LoadOp::create(b, type, from, alignment, /*isVolatile=*/false,
                              /*isNonTemporal=*/false, /*isInvariant=*/!copied);
}

// The constant is the load's own.
Value BookTable::entry(Value index) const {
  return load(b.getF32Type(), offsetBy(offsetBy(base, index), int32_t(part.first())), 4);
}

Value BookTable::at(Value indices) const {
  auto vector = dyn_cast<VectorType>(indices.getType());
  if (!vector)
    return entry(indices);
  auto type = VectorType::get(vector.getShape(), b.getF32Type());
  if (!target.isPtx() && type.getNumElements() == 16 && part.size() == 16)
    return intrinsic(b, "llvm.x86.avx512.permvar.sf.512", type,
                     {load(type, offsetBy(base, int32_t(part.first())), 64), indices});
  if (!target.isPtx() && type.getNumElements() >= 8)
    return gather(indices, type);
  return scalarize(b, type, indices, [&](ValueRange index) { return entry(index[0]); });
}

// The CPU's own: LLVM takes a gather apart where it does not know the CPU.
Value BookTable::gather(Value indices, VectorType type) const {
  Integers words{b, indices.getType()};
  Value none = words.splat(b.getF32FloatAttr(0));
  Value from = offsetBy(base, int32_t(part.first()));
  if (type.getNumElements() == 16)
    return intrinsic(b, "llvm.x86.avx512.mask.gather.dps.512", type,
                     {none, from, indices, words.splat(b.getBoolAttr(true)),
                      LLVM::ConstantOp::create(b, b.getI32Type(), b.getI32IntegerAttr(4))});
  Value all = words.splat(b.getF32FloatAttr(__builtin_bit_cast(float, 0xffffffffu)));
  auto bytes = LLVM::ConstantOp::create(b, b.getI8Type(), b.getI8IntegerAttr(4));
  return intrinsic(b, "llvm.x86.avx2.gather.d.ps.256", type, {none, from, indices, all, bytes});
}

//===-- The copy of a kernel ------------------------------------------------===//

// A thread copies an entry of each part: none has more than a block has threads.
static void copyParts(CodeBuilder &b, Value copy, ArrayRef<BookPart> parts) {
  Value constant = getBookConstant(b, /*isPtx=*/true);
  Value thread = NVVM::ThreadIdXOp::create(b, b.getI32Type());
  auto at = [&](Value base, BookPart part) -> Value {
    Value own = LLVM::GEPOp::create(b, base.getType(), b.getF32Type(), base, ArrayRef<LLVM::GEPArg>{thread});
    return LLVM::GEPOp::create(b, base.getType(), b.getF32Type(), own, ArrayRef<LLVM::GEPArg>{int32_t(part.first())});
  };
  for (BookPart part : parts) {
    auto copyEntry = [&] {
      Value entry = LLVM::LoadOp::create(b, b.getF32Type(), at(constant, part), 4,
                                         /*isVolatile=*/false, /*isNonTemporal=*/false,
                                         /*isInvariant=*/true);
      LLVM::StoreOp::create(b, entry, at(copy, part), 4);
    };
    if (part.size() < ALTGRAD_BLOCK_THREADS)
      when(b, b.lessUnsigned(thread, b.integer(b.getI32Type(), part.size())), copyEntry);
    else
      copyEntry();
  }
  NVVM::Barrier0Op::create(b);
}

// What is looked up of books in `op`.
static SmallVector<BookPart> collectParts(Operation *op) {
  llvm::SetVector<std::pair<const Book *, unsigned>> used; // and whether next
  op->walk([&](Operation *op) {
    if (const Book *book = getTable(op))
      used.insert({book, isa<EncodeOp>(op)});
  });
  return llvm::map_to_vector(used, [](auto part) { return BookPart{part.first, part.second != 0}; });
}

unsigned altgrad::bookBytes(Operation *op) {
  unsigned entries = 0;
  for (BookPart part : collectParts(op))
    entries = std::max(entries, part.first() + part.size());
  return entries * sizeof(float);
}

static void copyBooks(LLVM::LLVMFuncOp kernel) {
  SmallVector<BookPart> parts = collectParts(kernel);
  if (parts.empty())
    return;
  CodeBuilder b(kernel.getLoc(), kernel);
  b.setInsertionPointToStart(&kernel.getBody().front());
  Value copy = sharedVariable(b, kernel, copyName, bookBytes(kernel), /*alignment=*/16);
  copyParts(b, copy, parts);
}

void altgrad::copyBooksToShared(Operation *module) {
  module->walk([](LLVM::LLVMFuncOp kernel) {
    if (!kernel.isExternal())
      copyBooks(kernel);
  });
}

// Symmetric products of 16-bit matrices: tiles by cp.async, ldmatrix and mma, polynomial and mirror in the epilogue.
#include "altgrad/products.h"
#include "codegen/gpu/GpuKernel.h"

using namespace mlir;
using namespace altgrad;

// What the runtime launches.
constexpr ProductTuning launched = GpuTuning{}.products;
static_assert(launched.rows == ALTGRAD_SYMMETRIC_ROWS && launched.columns == ALTGRAD_SYMMETRIC_COLUMNS &&
              launched.stages * (launched.rows + launched.columns) * launched.depth * 2 == ALTGRAD_SYMMETRIC_SHARED);

//===-- Operands in shared memory ---------------------------------------------===//

// What a copy brings at once, and a row of one of ldmatrix's matrices has.
static constexpr int64_t pieceBytes = 16, pieceElements = 8;

namespace {
// One operand's tile of 16-bit numbers: `extent` rows of the left operand, or columns of the right one, and `depth`
// terms of sums. It has lines as the matrix has them in memory: along sums, a line for each row or column, or across
// them, a line for each term.
//
// Pieces of a line change places with the line's number, so that neither ldmatrix, which reads a piece of each of
// eight lines, nor a copy of neighbouring pieces has a bank conflict.
class OperandTile {
public:
  OperandTile(CodeBuilder &b, bool left, bool along, int64_t extent, int64_t depth, int64_t threads)
      : b(b), left(left), along(along), extent(extent), depth(depth), threads(threads) {}

  int64_t bytes() const { return extent * depth * 2; }

  // Says what the block's thread copies: from a matrix whose lines are `stride` bytes apart and of whose `limit` rows
  // or columns the tile begins with `first`.
  void prepareCopies(Value thread, Value matrix, Value stride, Value first, Value limit);
  // Begins to copy the terms from `from` on. Of all terms there are `terms`; what does not exist is 0.
  void copy(Value stage, Value from, Value terms);

  // Says what the thread `lane` of a warp reads: `groups` times 16 rows or columns, from `start` on.
  void prepareFragments(Value lane, Value start, int64_t groups);
  // For 16 terms, the registers of mma of each group: of a left operand four for 16 rows, of a right one two
  // for each 8 columns.
  SmallVector<SmallVector<Value>> fragments(Value stage, int64_t step);

private:
  struct Copy {
    Value source, offset; // of the tile's first terms
    Value line, bytes;    // across sums: which term, and how much of it exists
    Value bound;          // along sums: twice the terms before it; more than there are where the line does not exist
  };
  int64_t lines() const { return along ? extent : depth; }
  int64_t pieces() const { return (along ? depth : extent) / pieceElements; }
  Value getSwizzledOffset(Value line, Value piece);
  Value clamped(Value bytes);
  Value i32(int64_t value) { return b.integer(b.getI32Type(), value); }

  CodeBuilder &b;
  bool left, along;
  int64_t extent, depth, threads;
  Value stride;
  SmallVector<Copy> copies;
  SmallVector<SmallVector<Value>> fragmentOffsets; // of ldmatrix, by step and group
};
} // namespace

Value OperandTile::getSwizzledOffset(Value line, Value piece) {
  // Lines of 64 bytes are in the same banks as every second one, longer ones as every one.
  assert((pieces() == 4 || pieces() % pieceElements == 0) && "lines in banks of their own");
  Value swapped = pieces() == 4 ? b.bitAnd(b.shiftRight(line, i32(1)), i32(3)) : b.bitAnd(line, i32(7));
  Value begin = b.mul(line, i32(pieces() * pieceBytes));
  return b.add(begin, b.mul(b.bitXor(piece, swapped), i32(pieceBytes)));
}

Value OperandTile::clamped(Value bytes) { return b.minSigned(b.maxSigned(bytes, i32(0)), i32(pieceBytes)); }

void OperandTile::prepareCopies(Value thread, Value matrix, Value lineBytes, Value first, Value limit) {
  stride = lineBytes;
  assert(lines() * pieces() % threads == 0 && "as many copies for each thread");
  for (int64_t number = 0; number < lines() * pieces() / threads; ++number) {
    Value which = b.add(thread, i32(number * threads));
    Value line = b.div(which, i32(pieces()));
    Value piece = b.sub(which, b.mul(line, i32(pieces())));
    Value bytes = b.mul(piece, i32(pieceBytes));
    Copy copy{{}, getSwizzledOffset(line, piece), {}, {}, {}};
    Value at = along ? b.add(first, line) : line;
    Value within = along ? bytes : b.add(b.mul(first, i32(2)), bytes);
    Type i64 = b.getI64Type();
    copy.source = addBytes(b, matrix, b.add(b.mul(b.extendUnsigned(i64, at), stride), b.extendUnsigned(i64, within)));
    if (along) {
      copy.bound = b.select(b.less(at, limit), bytes, i32(INT32_MAX));
    } else {
      copy.line = line;
      copy.bytes = clamped(b.sub(b.mul(limit, i32(2)), within));
    }
    copies.push_back(copy);
  }
}

void OperandTile::copy(Value stage, Value from, Value terms) {
  Value left = b.maxSigned(b.sub(terms, from), i32(0));
  Value advance = b.extendUnsigned(b.getI64Type(), from);
  advance = along ? b.mul(advance, b.integer(advance.getType(), 2)) : b.mul(advance, stride);
  for (const Copy &copy : copies) {
    Value bytes =
        along ? clamped(b.sub(b.mul(left, i32(2)), copy.bound)) : b.select(b.less(copy.line, left), copy.bytes, i32(0));
    NVVM::CpAsyncOp::create(b, addBytes(b, stage, copy.offset), addBytes(b, copy.source, advance), pieceBytes,
                            NVVM::LoadCacheModifierKind::CG, bytes);
  }
}

// Four matrices of 8 x 8: those of threads 0 to 7 and 8 to 15 are the first two of a left operand's rows, and of a
// right operand's terms.
void OperandTile::prepareFragments(Value lane, Value start, int64_t groups) {
  Value low = b.bitAnd(lane, i32(7)), middle = b.bitAnd(b.shiftRight(lane, i32(3)), i32(1)),
        high = b.shiftRight(lane, i32(4));
  Value ofExtent = left ? middle : high, ofDepth = left ? high : middle;
  for (int64_t step = 0; step < depth / 16; ++step) {
    SmallVector<Value> &row = fragmentOffsets.emplace_back();
    for (int64_t group = 0; group < groups; ++group) {
      Value eighth = i32(8);
      if (along) {
        Value line = b.add(start, b.add(b.add(low, b.mul(ofExtent, eighth)), i32(16 * group)));
        row.push_back(getSwizzledOffset(line, b.add(ofDepth, i32(2 * step))));
      } else {
        Value line = b.add(b.add(low, b.mul(ofDepth, eighth)), i32(16 * step));
        row.push_back(getSwizzledOffset(line, b.add(b.div(start, eighth), b.add(ofExtent, i32(2 * group)))));
      }
    }
  }
}

SmallVector<SmallVector<Value>> OperandTile::fragments(Value stage, int64_t step) {
  Type i32 = b.getI32Type();
  auto four = LLVM::LLVMStructType::getLiteral(b.getContext(), {i32, i32, i32, i32});
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  SmallVector<SmallVector<Value>> found;
  for (Value offset : fragmentOffsets[step]) {
    Value words = NVVM::LdMatrixOp::create(b, four, addBytes(b, stage, offset), 4,
                                           along ? NVVM::MMALayout::row : NVVM::MMALayout::col, shape,
                                           NVVM::LdStMatrixEltType::B16);
    SmallVector<Value> each;
    for (int64_t i = 0; i < 4; ++i)
      each.push_back(LLVM::ExtractValueOp::create(b, words, i));
    if (left) {
      found.push_back(each);
      continue;
    }
    found.push_back({each[0], each[1]});
    found.push_back({each[2], each[3]});
  }
  return found;
}

//===-- The kernel --------------------------------------------------------------===//

namespace {

enum Parameter { A, B, D, C, AMatrix, ALine, BMatrix, BLine, CMatrix, CRow, Extent, Depth, Alpha, Beta, Parameters };

// mma's result: rows g and g + 8 of a warp's thread 4 g + t, and in each columns 2 t and 2 t + 1.
constexpr int64_t mmaRows = 16, mmaColumns = 8, mmaDepth = 16;
// Elements behind a line of the result in shared memory, so that neighbouring lines lie in other banks.
constexpr int64_t padding = 8;

class ProductKernel {
public:
  ProductKernel(OpBuilder &builder, Location loc, const ProductTuning &tile, Type type, bool along)
      : b(loc, builder.getContext()), tile(tile), type(type), left(b, true, along, tile.rows, tile.depth, threads),
        right(b, false, along, tile.columns, tile.depth, threads),
        memory(LLVM::LLVMPointerType::get(b.getContext(), 1)) {
    b.restoreInsertionPoint(builder.saveInsertionPoint());
  }
  void write(StringRef name);

private:
  using Values = SmallVector<Value>;
  static constexpr int64_t threads = ALTGRAD_BLOCK_THREADS;
  int64_t groups() const { return tile.rows / tile.down / mmaRows; }         // of a warp's rows
  int64_t strips() const { return tile.columns / tile.across / mmaColumns; } // of its columns
  int64_t stageBytes() const { return left.bytes() + right.bytes(); }
  Value i32(int64_t value) { return b.integer(b.getI32Type(), value); }
  Value i64(int64_t value) { return b.integer(b.getI64Type(), value); }
  Value zeroExtend(Value count) { return b.extendUnsigned(b.getI64Type(), count); }
  Value parameter(Parameter which) { return parameters[which]; }
  Value getMatrix(Parameter which, Parameter distance);
  template <typename Op> Value readSpecialRegister() { return Op::create(b, b.getI32Type()); }
  void barrier() { NVVM::Barrier0Op::create(b); }

  void setUp();
  void computeTile();
  void copyStage(Value number);
  void awaitStage();
  Values fragments(Value number, int64_t part);
  void multiplyAll(ArrayRef<Value> fragments, MutableArrayRef<Value> sums);
  Values step(Value number, Values carried);
  Values sums();
  Value multiply(ArrayRef<Value> a, ArrayRef<Value> b, ValueRange c);
  Values results(const Values &sums);
  Values results(const Values &sums, bool adds);
  std::pair<Value, Value> getTileOrigin(int64_t number);
  Value loadAddend(Value row, Value column);
  void storeToShared(const Values &results, bool transposed);
  void storeTile(bool transposed);
  void storePiece(Value line, Value first, Value from, Value to, Value held);

  CodeBuilder b;
  const ProductTuning &tile;
  Type type;
  OperandTile left, right;
  LLVM::LLVMPointerType memory;
  ValueRange parameters;
  Value shared, thread, group, inGroup; // of a warp's thread: 4 g + t
  Value firstRow, firstColumn;          // of the tile
  Value warpRow, warpColumn;            // of the warp, in the tile
  Value extent, depth, addend, result;  // n, k, and where this matrix's D and C lie
};

} // namespace

Value ProductKernel::getMatrix(Parameter which, Parameter distance) {
  Value first = b.mul(zeroExtend(readSpecialRegister<NVVM::BlockIdZOp>()), parameter(distance));
  return addBytes(b, parameter(which), b.mul(first, i64(2)));
}

void ProductKernel::setUp() {
  thread = readSpecialRegister<NVVM::ThreadIdXOp>();
  Value lane = b.bitAnd(thread, i32(warpThreads - 1)), warp = b.div(thread, i32(warpThreads));
  group = b.shiftRight(lane, i32(2));
  inGroup = b.bitAnd(lane, i32(3));
  Value across = b.div(warp, i32(tile.down));
  warpRow = b.mul(b.sub(warp, b.mul(across, i32(tile.down))), i32(tile.rows / tile.down));
  warpColumn = b.mul(across, i32(tile.columns / tile.across));
  extent = b.truncate(b.getI32Type(), parameter(Extent));
  depth = b.truncate(b.getI32Type(), parameter(Depth));
  addend = getMatrix(D, CMatrix);
  result = getMatrix(C, CMatrix);
  left.prepareCopies(thread, getMatrix(A, AMatrix), b.mul(parameter(ALine), i64(2)), firstRow, extent);
  right.prepareCopies(thread, getMatrix(B, BMatrix), b.mul(parameter(BLine), i64(2)), firstColumn, extent);
  left.prepareFragments(lane, warpRow, groups());
  right.prepareFragments(lane, warpColumn, strips() / 2);
}

//===-- Sums ----------------------------------------------------------------===//

void ProductKernel::copyStage(Value number) {
  Value stage = b.mul(b.bitAnd(number, i32(tile.stages - 1)), i32(stageBytes()));
  stage = addBytes(b, shared, stage);
  Value from = b.mul(number, i32(tile.depth));
  left.copy(stage, from, depth);
  right.copy(addBytes(b, stage, i32(left.bytes())), from, depth);
  NVVM::CpAsyncCommitGroupOp::create(b);
}

Value ProductKernel::multiply(ArrayRef<Value> a, ArrayRef<Value> with, ValueRange c) {
  Type f32 = b.getF32Type();
  auto four = LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  bool isF16 = type.isF16();
  auto typed = [&](ArrayRef<Value> words) {
    auto pair = VectorType::get({2}, type);
    return llvm::map_to_vector(
        words, [&](Value word) -> Value { return isF16 ? LLVM::BitcastOp::create(b, pair, word).getResult() : word; });
  };
  NVVM::MMATypes types = isF16 ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  return NVVM::MmaOp::create(b, four, typed(a), typed(with), c, {mmaRows, mmaColumns, mmaDepth}, std::nullopt,
                             std::nullopt, std::array{types, types},
                             std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
}

// The registers of both operands for 16 terms, one list behind the other.
ProductKernel::Values ProductKernel::fragments(Value number, int64_t part) {
  Value stage = addBytes(b, shared, b.mul(b.bitAnd(number, i32(tile.stages - 1)), i32(stageBytes())));
  Values all;
  for (auto &operand : {left.fragments(stage, part), right.fragments(addBytes(b, stage, i32(left.bytes())), part)})
    for (ArrayRef<Value> words : operand)
      llvm::append_range(all, words);
  return all;
}

void ProductKernel::multiplyAll(ArrayRef<Value> fragments, MutableArrayRef<Value> sums) {
  ArrayRef<Value> rows = fragments.take_front(4 * groups()), columns = fragments.drop_front(4 * groups());
  for (int64_t i = 0; i < groups(); ++i)
    for (int64_t j = 0; j < strips(); ++j) {
      MutableArrayRef<Value> four = sums.slice(4 * (i * strips() + j), 4);
      Value all = multiply(rows.slice(4 * i, 4), columns.slice(2 * j, 2), ValueRange(four));
      for (int64_t k = 0; k < 4; ++k)
        four[k] = LLVM::ExtractValueOp::create(b, all, k);
    }
}

// All threads' copies of the oldest stage on its way are there, and nobody reads the one before any more.
void ProductKernel::awaitStage() {
  NVVM::CpAsyncWaitGroupOp::create(b, tile.stages - 2);
  barrier();
}

// A stage's terms. Of each 16 the fragments are loaded while those before are multiplied. `carried`: the sums, and the
// first fragments of this stage.
ProductKernel::Values ProductKernel::step(Value number, Values carried) {
  int64_t parts = tile.depth / mmaDepth, count = groups() * strips() * 4;
  MutableArrayRef<Value> sums = MutableArrayRef(carried).take_front(count);
  Values now(ArrayRef(carried).drop_front(count));
  for (int64_t part = 0; part < parts; ++part) {
    bool last = part + 1 == parts;
    if (last)
      awaitStage();
    Values next = fragments(last ? b.add(number, i32(1)) : number, last ? 0 : part + 1);
    if (part == 0)
      copyStage(b.add(number, i32(tile.stages - 1)));
    multiplyAll(now, sums);
    now = next;
  }
  Values all(sums);
  llvm::append_range(all, now);
  return all;
}

ProductKernel::Values ProductKernel::sums() {
  for (int64_t stage = 0; stage + 1 < tile.stages; ++stage)
    copyStage(i32(stage));
  awaitStage();
  int64_t count = groups() * strips() * 4;
  Values carried(count, b.f32(0));
  llvm::append_range(carried, fragments(i32(0), 0));
  Value stages = b.div(b.add(depth, i32(tile.depth - 1)), i32(tile.depth));
  scf::ForOp all = loopWith(b, i32(0), stages, i32(1), carried,
                            [&](Value number, Values before) { return step(number, std::move(before)); });
  return Values(all.getResults().take_front(count));
}

//===-- The result ----------------------------------------------------------===//

// Two neighbours of D; what does not exist is not stored.
Value ProductKernel::loadAddend(Value row, Value column) {
  auto pair = VectorType::get({2}, b.getF32Type()), codes = VectorType::get({2}, type);
  return branch(
      b, b.bitAnd(b.less(row, extent), b.less(column, extent)), Type(pair),
      [&]() -> Value {
        Value at = b.add(b.mul(zeroExtend(row), parameter(CRow)), zeroExtend(column));
        Value found = LLVM::LoadOp::create(b, codes, addBytes(b, addend, b.mul(at, i64(2))), /*alignment=*/4);
        return arith::ExtFOp::create(b, pair, found);
      },
      [&] { return b.f32(0, pair); });
}

// Pairs of neighbours, rounded once.
ProductKernel::Values ProductKernel::results(const Values &sums, bool adds) {
  auto pair = VectorType::get({2}, b.getF32Type()), codes = VectorType::get({2}, type);
  Value alpha = b.broadcast(pair, parameter(Alpha)), beta = b.broadcast(pair, parameter(Beta));
  Values found;
  for (size_t number = 0; number < sums.size() / 2; ++number) {
    auto [row, column] = getTileOrigin(number);
    Value two = b.mulF(alpha, b.fromElements(pair, ArrayRef(sums).slice(2 * number, 2)));
    if (adds)
      two = b.fma(beta, loadAddend(b.add(firstRow, row), b.add(firstColumn, column)), two);
    found.push_back(arith::TruncFOp::create(b, codes, two));
  }
  return found;
}

ProductKernel::Values ProductKernel::results(const Values &sums) {
  Value adds = b.notEqual(LLVM::PtrToIntOp::create(b, b.getI64Type(), parameter(D)), i64(0));
  SmallVector<Type> types(sums.size() / 2, VectorType::get({2}, type));
  return branch(
      b, adds, types, [&] { return results(sums, true); }, [&] { return results(sums, false); });
}

// Where the thread's pair of that number stands in the tile.
std::pair<Value, Value> ProductKernel::getTileOrigin(int64_t number) {
  int64_t half = number % 2, strip = number / 2 % strips(), part = number / 2 / strips();
  Value row = b.add(b.add(warpRow, group), i32(part * mmaRows + half * 8));
  return {row, b.add(b.add(warpColumn, b.mul(inGroup, i32(2))), i32(strip * mmaColumns))};
}

// In shared memory, as lines of rows or of columns.
void ProductKernel::storeToShared(const Values &results, bool transposed) {
  int64_t length = (transposed ? tile.rows : tile.columns) + padding;
  for (auto [number, two] : llvm::enumerate(results)) {
    auto [row, column] = getTileOrigin(number);
    auto address = [&](Value line, Value at) {
      return addBytes(b, shared, b.mul(b.add(b.mul(line, i32(length)), at), i32(2)));
    };
    if (!transposed) {
      LLVM::StoreOp::create(b, two, address(row, column), /*alignment=*/4);
      continue;
    }
    for (int64_t k = 0; k < 2; ++k)
      LLVM::StoreOp::create(b, b.element(two, k), address(b.add(column, i32(k)), row), /*alignment=*/2);
  }
}

// Of the elements [first, first + 8) of a line those in [from, to).
void ProductKernel::storePiece(Value line, Value first, Value from, Value to, Value held) {
  from = b.maxSigned(from, first);
  to = b.minSigned(to, b.add(first, i32(pieceElements)));
  Value at = b.mul(b.add(b.mul(zeroExtend(line), parameter(CRow)), zeroExtend(first)), i64(2));
  Value target = addBytes(b, result, at);
  Value whole = b.equal(b.sub(to, from), i32(pieceElements));
  auto ifWhole = scf::IfOp::create(b, whole, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&ifWhole.getThenRegion().front());
  auto four = VectorType::get({4}, b.getI32Type());
  Value piece = LLVM::LoadOp::create(b, four, held, pieceBytes);
  LLVM::StoreOp::create(b, piece, target, pieceBytes);
  b.setInsertionPointToStart(&ifWhole.getElseRegion().front());
  loopWith(b, from, to, i32(1), {}, [&](Value element, Values none) {
    Value behind = b.mul(b.sub(element, first), i32(2));
    Value code = LLVM::LoadOp::create(b, b.getI16Type(), addBytes(b, held, behind), 2);
    LLVM::StoreOp::create(b, code, addBytes(b, target, behind), 2);
    return none;
  });
}

// Each number on or below the diagonal is stored in its row, and each below it in its column's.
void ProductKernel::storeTile(bool transposed) {
  int64_t lines = transposed ? tile.columns : tile.rows, length = transposed ? tile.rows : tile.columns;
  int64_t pieces = length / pieceElements;
  loopWith(b, thread, i32(lines * pieces), i32(threads), {}, [&](Value which, Values none) {
    Value number = b.div(which, i32(pieces));
    Value piece = b.mul(b.sub(which, b.mul(number, i32(pieces))), i32(pieceElements));
    Value line = b.add(transposed ? firstColumn : firstRow, number);
    Value first = b.add(transposed ? firstRow : firstColumn, piece);
    Value next = b.add(line, i32(1));
    Value from = transposed ? next : i32(0);
    Value to = transposed ? extent : b.select(b.less(line, extent), next, i32(0));
    Value held = b.mul(b.add(b.mul(number, i32(length + padding)), piece), i32(2));
    storePiece(line, first, from, to, addBytes(b, shared, held));
    return none;
  });
}

void ProductKernel::computeTile() {
  setUp();
  Values found = results(sums());
  NVVM::CpAsyncWaitGroupOp::create(b, 0);
  for (bool transposed : {false, true}) {
    barrier();
    storeToShared(found, transposed);
    barrier();
    storeTile(transposed);
  }
}

void ProductKernel::write(StringRef name) {
  Type count = b.getI64Type();
  SmallVector<Type> types(Parameters, count);
  std::fill(types.begin(), types.begin() + AMatrix, memory);
  types[Alpha] = types[Beta] = b.getF32Type();
  LLVM::LLVMFuncOp function = makeKernel(b, name, types);
  Block *entry = function.addEntryBlock(b);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry);
  parameters = entry->getArguments();
  shared = sharedVariable(b, function, "stages", /*bytes=*/0, pieceBytes);
  firstRow = b.mul(readSpecialRegister<NVVM::BlockIdYOp>(), i32(tile.rows));
  firstColumn = b.mul(readSpecialRegister<NVVM::BlockIdXOp>(), i32(tile.columns));
  when(b, b.less(firstColumn, b.add(firstRow, i32(tile.rows))), [&] { computeTile(); });
  LLVM::ReturnOp::create(b, ValueRange{});
}

void altgrad::makeProductKernels(gpu::GPUModuleOp kernels, ArrayRef<StepOp> steps, const Target &target) {
  SetVector<Type> types;
  for (StepOp step : steps)
    step.walk([&](MultiplyOp op) {
      if (op.getForm() > ProductForm::Side) // which is not symmetric, or no product
        return;
      StringRef format = cast<TensorsType>(op.getInto().getType()).getFormat().getKnownName();
      if (format == "bf16")
        types.insert(BFloat16Type::get(op.getContext()));
      else if (format == "f16")
        types.insert(Float16Type::get(op.getContext()));
    });
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  for (Type type : types)
    for (bool along : {true, false}) {
      std::string format = type.isBF16() ? "bf16" : "f16";
      std::string name = ALTGRAD_SYMMETRIC_KERNEL + std::string(along ? "" : "columns_") + format;
      ProductKernel(builder, kernels.getLoc(), target.gpu.products, type, along).write(name);
    }
}

// Copies of operands to shared memory, and ldmatrix from there.
#include "codegen/gpu/ProductTiles.h"

using namespace mlir;
using namespace altgrad;

Value OperandTile::place(Value line, Value piece) {
  // Lines of 64 bytes are in the same banks as every second one, longer ones as every one.
  assert((pieces() == 4 || pieces() % pieceElements == 0) && "lines in banks of their own");
  Value swapped = pieces() == 4 ? b.bitAnd(b.shiftRight(line, i32(1)), i32(3)) : b.bitAnd(line, i32(7));
  Value begin = b.mul(line, i32(pieces() * pieceBytes));
  return b.add(begin, b.mul(b.bitXor(piece, swapped), i32(pieceBytes)));
}

Value OperandTile::clamped(Value bytes) { return b.minSigned(b.maxSigned(bytes, i32(0)), i32(pieceBytes)); }

void OperandTile::aim(Value thread, Value matrix, Value lineBytes, Value first, Value limit) {
  stride = lineBytes;
  assert(lines() * pieces() % threads == 0 && "as many copies for each thread");
  for (int64_t number = 0; number < lines() * pieces() / threads; ++number) {
    Value which = b.add(thread, i32(number * threads));
    Value line = b.div(which, i32(pieces()));
    Value piece = b.sub(which, b.mul(line, i32(pieces())));
    Value bytes = b.mul(piece, i32(pieceBytes));
    Copy copy{{}, place(line, piece), {}, {}, {}};
    Value at = along ? b.add(first, line) : line;
    Value within = along ? bytes : b.add(b.mul(first, i32(2)), bytes);
    Type i64 = b.getI64Type();
    copy.source =
        bytesBehind(b, matrix, b.add(b.mul(b.extendUnsigned(i64, at), stride), b.extendUnsigned(i64, within)));
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
    NVVM::CpAsyncOp::create(b, bytesBehind(b, stage, copy.place), bytesBehind(b, copy.source, advance), pieceBytes,
                            NVVM::LoadCacheModifierKind::CG, bytes);
  }
}

// Four matrices of 8 x 8: those of threads 0 to 7 and 8 to 15 are the first two of a left operand's rows, and of a
// right operand's terms.
void OperandTile::read(Value lane, Value start, int64_t groups) {
  Value low = b.bitAnd(lane, i32(7)), middle = b.bitAnd(b.shiftRight(lane, i32(3)), i32(1)),
        high = b.shiftRight(lane, i32(4));
  Value ofExtent = left ? middle : high, ofDepth = left ? high : middle;
  for (int64_t step = 0; step < depth / 16; ++step) {
    SmallVector<Value> &row = places.emplace_back();
    for (int64_t group = 0; group < groups; ++group) {
      Value eighth = i32(8);
      if (along) {
        Value line = b.add(start, b.add(b.add(low, b.mul(ofExtent, eighth)), i32(16 * group)));
        row.push_back(place(line, b.add(ofDepth, i32(2 * step))));
      } else {
        Value line = b.add(b.add(low, b.mul(ofDepth, eighth)), i32(16 * step));
        row.push_back(place(line, b.add(b.div(start, eighth), b.add(ofExtent, i32(2 * group)))));
      }
    }
  }
}

SmallVector<SmallVector<Value>> OperandTile::fragments(Value stage, int64_t step) {
  Type i32 = b.getI32Type();
  auto four = LLVM::LLVMStructType::getLiteral(b.getContext(), {i32, i32, i32, i32});
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  SmallVector<SmallVector<Value>> found;
  for (Value place : places[step]) {
    Value words = NVVM::LdMatrixOp::create(b, four, bytesBehind(b, stage, place), 4,
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

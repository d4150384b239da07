// Partial sums in registers and in shared memory.
#include "codegen/LaneSums.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

constexpr unsigned wordBytes = sizeof(float);
constexpr unsigned pairBytes = groupWidth * wordBytes;
constexpr unsigned blockBytes = ALTGRAD_BLOCK_THREADS * pairBytes;
constexpr unsigned sharedLimit = 24 << 10; // four blocks on a multiprocessor

// Maxima and conjunctions are the same in every order: one pair holds them.
static bool isOrdered(Reduction kind) {
  return kind == Reduction::Add || kind == Reduction::SumSq;
}

LaneSums::LaneSums(KernelBuilder &kernel, SweepOp sweep, Value thread)
    : kernel(kernel), builder(kernel.builder) {
  unsigned ordered = 0, registers = 0, bytes = 0;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    ordered += isOrdered(sweep.getReduction(i));
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    Reduction kind = sweep.getReduction(i);
    unsigned pairs =
        isOrdered(kind) ? ALTGRAD_LANES / warpLanes / groupWidth : 1;
    bool shared = isOrdered(kind) && ordered > 1 &&
                  bytes + pairs * blockBytes <= sharedLimit;
    unsigned &end = shared ? bytes : registers;
    sums.push_back({kind, pairs, end, shared});
    end += pairs * (shared ? blockBytes : 1);
  }
  if (bytes)
    own = kernel.offset(allocate(bytes), thread, pairBytes);
}

// Memory of every block of the kernel that is being built.
Value LaneSums::allocate(unsigned bytes) {
  auto function =
      cast<LLVM::LLVMFuncOp>(builder.getInsertionBlock()->getParentOp());
  auto space = unsigned(NVVM::NVVMMemorySpace::Shared);
  std::string name = (function.getSymName() + "_sums").str();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    LLVM::GlobalOp::create(
        builder,
        LLVM::LLVMArrayType::get(builder.getF32Type(), bytes / wordBytes),
        /*isConstant=*/false, LLVM::Linkage::Internal, name, Attribute(),
        pairBytes, space);
  }
  return LLVM::AddressOfOp::create(
      builder, LLVM::LLVMPointerType::get(builder.getContext(), space), name);
}

VectorType LaneSums::pairType(Reduction kind) {
  return cast<VectorType>(partialType(
      kind, VectorType::get({groupWidth}, builder.getF32Type())));
}

Value LaneSums::spread(Value value) {
  return vector::BroadcastOp::create(
      builder, VectorType::get({groupWidth}, value.getType()), value);
}

Value LaneSums::address(const Sum &sum, unsigned number) {
  return kernel.offset(own, kernel.i64(sum.at + number * blockBytes), 1);
}

LaneSums::Carried LaneSums::clear() {
  Carried carried;
  for (const Sum &sum : sums) {
    Value zero = neutral(builder, sum.kind, pairType(sum.kind));
    for (unsigned number = 0; number < sum.pairs; ++number)
      if (sum.shared)
        kernel.store(zero, address(sum, number), pairBytes);
      else
        carried.push_back(zero);
  }
  return carried;
}

Value LaneSums::pair(const Carried &carried, unsigned result, unsigned number) {
  const Sum &sum = sums[result];
  if (sum.shared)
    return kernel.load(pairType(sum.kind), address(sum, number), pairBytes);
  return carried[sum.at + number % sum.pairs];
}

void LaneSums::add(Carried &carried, unsigned result, unsigned number,
                   Value group) {
  const Sum &sum = sums[result];
  Value next = accumulate(builder, sum.kind, pair(carried, result, number),
                          group);
  if (sum.shared)
    kernel.store(next, address(sum, number), pairBytes);
  else
    carried[sum.at + number % sum.pairs] = next;
}

void LaneSums::addElement(Carried &carried, unsigned result, unsigned first,
                          unsigned count, Value offset, Value element) {
  const Sum &sum = sums[result];
  if (sum.pairs == 1)
    return add(carried, result, 0, spread(element));
  Value number = arith::ShRUIOp::create(builder, offset, kernel.i32(1));
  Value second = arith::AndIOp::create(builder, offset, kernel.i32(1));
  if (sum.shared) {
    Value at = kernel.offset32(
        kernel.offset32(address(sum, first), number, blockBytes), second,
        wordBytes);
    Value before = kernel.load(element.getType(), at, wordBytes);
    return kernel.store(accumulate(builder, sum.kind, before, element), at,
                        wordBytes);
  }
  for (unsigned i = 0; i < count; ++i) {
    Value &own = carried[sum.at + first + i];
    Value added = accumulate(builder, sum.kind, own, spread(element));
    Value wanted = arith::ConstantOp::create(
        builder, builder.getI32VectorAttr({int32_t(i * groupWidth),
                                           int32_t(i * groupWidth + 1)}));
    Value here = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                       wanted, spread(offset));
    own = arith::SelectOp::create(builder, here, added, own);
  }
}

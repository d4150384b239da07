// Entries of threads in shared memory; partial sums there and in registers.
#include "codegen/kernels/gpu/LaneSums.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

constexpr unsigned wordBytes = sizeof(float);
constexpr unsigned pairBytes = groupWidth * wordBytes;
constexpr unsigned memoryLimit = 24 << 10; // four blocks on a multiprocessor

LaneMemory::LaneMemory(KernelBuilder &kernel, Value thread)
    : kernel(kernel), function(cast<LLVM::LLVMFuncOp>(
                          kernel.builder.getInsertionBlock()->getParentOp())),
      thread(thread) {}

unsigned LaneMemory::room(unsigned bytes) const {
  return (memoryLimit - used) / stride(bytes);
}

Value LaneMemory::allocate(StringRef name, unsigned count, unsigned bytes) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  auto space = unsigned(NVVM::NVVMMemorySpace::Shared);
  std::string symbol = (function.getSymName() + "_" + name).str();
  used += count * stride(bytes);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(function);
    LLVM::GlobalOp::create(
        builder,
        LLVM::LLVMArrayType::get(builder.getI8Type(), count * stride(bytes)),
        /*isConstant=*/false, LLVM::Linkage::Internal, symbol, Attribute(),
        bytes, space);
  }
  Value all = LLVM::AddressOfOp::create(
      builder, LLVM::LLVMPointerType::get(builder.getContext(), space), symbol);
  return kernel.offset(all, thread, bytes);
}

// Maxima and conjunctions are the same in every order: one pair holds them.
static bool isOrdered(Reduction kind) {
  return kind == Reduction::Add || kind == Reduction::SumSq;
}

LaneSums::LaneSums(KernelBuilder &kernel, SweepOp sweep, LaneMemory &memory)
    : kernel(kernel), builder(kernel.builder) {
  unsigned ordered = 0, registers = 0, entries = 0;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    ordered += isOrdered(sweep.getReduction(i));
  for (unsigned i = 0; i < sweep.getNumResults(); ++i) {
    Reduction kind = sweep.getReduction(i);
    unsigned pairs =
        isOrdered(kind) ? ALTGRAD_LANES / warpLanes / groupWidth : 1;
    bool shared = isOrdered(kind) && ordered > 1 &&
                  entries + pairs <= memory.room(pairBytes);
    unsigned &end = shared ? entries : registers;
    sums.push_back({kind, pairs, end, shared});
    end += pairs;
  }
  if (entries)
    own = memory.allocate("sums", entries, pairBytes);
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
  return kernel.offset(own, kernel.i64(sum.at + number),
                       LaneMemory::stride(pairBytes));
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
  if (sum.shared) {
    Value number = arith::ShRUIOp::create(builder, offset, kernel.i32(1));
    Value second = arith::AndIOp::create(builder, offset, kernel.i32(1));
    Value at = kernel.offset32(
        kernel.offset32(address(sum, first), number,
                        LaneMemory::stride(pairBytes)),
        second, wordBytes);
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

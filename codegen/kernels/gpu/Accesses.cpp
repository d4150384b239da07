// How wide a thread's accesses to a stream are: 16 bytes, or what its elements of
// a row have.
#include "codegen/kernels/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// No phase writes an `in` stream: it may come through the read-only cache.
bool GpuLowering::readOnly(Value tensors) {
  auto argument = dyn_cast<BlockArgument>(tensors);
  return argument && step.getAccess(argument) == "in";
}

int64_t GpuLowering::periodOf(const Chunk &chunk, Value tensors) {
  int64_t most = 8 * target.gpu.accessBytes / bitsOf(tensors);
  return std::min(most, chunk.width);
}

// Whether accesses to a tensor that begins there are as wide as they could be.
Value GpuLowering::isAligned(KernelBuilder &kernel, const Chunk &chunk,
                             Value tensors, Value base) {
  int64_t bytes = periodOf(chunk, tensors) * bitsOf(tensors) / 8;
  Value number = LLVM::PtrToIntOp::create(builder, builder.getI64Type(), base);
  Value low = arith::AndIOp::create(builder, number, kernel.i64(bytes - 1));
  return arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, low,
                               kernel.i64(0));
}

Value GpuLowering::loadAccess(KernelBuilder &kernel, Chunk &chunk,
                              Value tensors, int64_t element, bool again) {
  int64_t bytes = periodOf(chunk, tensors) * bitsOf(tensors) / 8;
  Type word = builder.getI32Type();
  if (bytesOf(tensors) == 4)
    word = cast<TensorsType>(tensors.getType()).getFormat().getCodeType();
  return LLVM::LoadOp::create(builder, VectorType::get({bytes / 4}, word),
                              address(kernel, chunk, tensors, element), bytes,
                              again, /*isNonTemporal=*/false,
                              !again && readOnly(tensors));
}

// The block of a launch that ends last, and what it goes on to.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// Whether this block is the last of its grid to come here. Then it sees what
// all others have done. The count is 0 again.
Value GpuLowering::comesLast() {
  Type i32 = builder.getI32Type();
  Value word = sharedWord(kernel.i64(blockWord));
  barrier();
  Value first = builder.equal(inBlock, kernel.i64(0));
  kernel.when(first, [&] {
    auto fence = [&] { LLVM::FenceOp::create(builder, LLVM::AtomicOrdering::acq_rel, "device"); };
    Value most = builder.sub(builder.narrow(i32, blocks), kernel.i32(1));
    fence();
    Value before = LLVM::AtomicRMWOp::create(builder, LLVM::AtomicBinOp::uinc_wrap, kernel.member(Member::Finished),
                                             most, LLVM::AtomicOrdering::monotonic, "device");
    fence();
    Value last = builder.equal(before, most);
    kernel.store(builder.widen(i32, last), word, wordBytes);
  });
  barrier();
  return builder.differs(kernel.load(i32, word, wordBytes), kernel.i32(0));
}

// Reads a special register once more: its value would be a register through the whole sweep otherwise.
Value GpuLowering::again(StringRef name) {
  Value read = assembly(builder, ("mov.u32 $0, %" + name + ";").str(), "=r", builder.getI32Type(), {})[0];
  return builder.widen(builder.getI64Type(), read);
}

Value GpuLowering::opaque(Value value) {
  return assembly(builder, "mov.b64 $0, $1;", "=l,l", value.getType(), value)[0];
}

void GpuLowering::finish(ArrayRef<PhaseOp> phases) {
  Value count = LLVM::PtrToIntOp::create(builder, builder.getI64Type(), kernel.member(Member::Finished));
  Value asked = builder.differs(count, kernel.i64(0));
  auto readThread = [&] {
    inBlock = again("tid.x");
    inWarp = builder.both(inBlock, kernel.i64(warpThreads - 1));
  };
  kernel.when(asked, [&] {
    readThread();
    blocks = again("nctaid.x");
    kernel.when(comesLast(), [&] {
      for (PhaseOp phase : phases) {
        auto [from, to] = kernel.rowsOf(PhaseOp(phase).getSet());
        lowerSmall(phase, {kernel.i64(0), kernel.i64(1), from, to});
        if (phase == phases.back())
          break;
        barrier();
        readThread();
      }
    });
  });
}

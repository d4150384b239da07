// The block of a launch that ends last, and what it goes on to.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

constexpr unsigned wordBytes = 4;

// Whether this block is the last of its grid to come here. Then it sees what
// all others have done. The count is 0 again.
Value GpuLowering::comesLast(KernelBuilder &kernel) {
  Type i32 = builder.getI32Type();
  Value word = sharedWord(kernel, kernel.i64(blockWord));
  barrier();
  Value first = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                      inBlock, kernel.i64(0));
  kernel.when(first, [&] {
    auto fence = [&] {
      LLVM::FenceOp::create(builder, LLVM::AtomicOrdering::acq_rel, "device");
    };
    Value most = arith::SubIOp::create(
        builder, arith::TruncIOp::create(builder, i32, blocks), kernel.i32(1));
    fence();
    Value before = LLVM::AtomicRMWOp::create(
        builder, LLVM::AtomicBinOp::uinc_wrap, kernel.member(Member::Finished),
        most, LLVM::AtomicOrdering::monotonic, "device");
    fence();
    Value last =
        arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, before, most);
    kernel.store(arith::ExtUIOp::create(builder, i32, last), word, wordBytes);
  });
  barrier();
  return arith::CmpIOp::create(builder, arith::CmpIPredicate::ne,
                               kernel.load(i32, word, wordBytes),
                               kernel.i32(0));
}

// Reads a special register once more: its value would be a register through the
// whole sweep otherwise.
Value GpuLowering::again(StringRef name) {
  auto read = LLVM::InlineAsmOp::create(
      builder, builder.getI32Type(), ValueRange{},
      builder.getStringAttr(("mov.u32 $0, %" + name + ";").str()),
      builder.getStringAttr("=r"), /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  return arith::ExtUIOp::create(builder, builder.getI64Type(),
                                read.getResult(0));
}

Value GpuLowering::opaque(Value value) {
  return LLVM::InlineAsmOp::create(
             builder, value.getType(), value,
             builder.getStringAttr("mov.b64 $0, $1;"),
             builder.getStringAttr("=l,l"), /*has_side_effects=*/true,
             /*is_align_stack=*/false, LLVM::TailCallKind::None,
             LLVM::AsmDialectAttr(), ArrayAttr())
      .getResult(0);
}

void GpuLowering::finish(KernelBuilder &kernel, ArrayRef<PhaseOp> phases) {
  Value count = LLVM::PtrToIntOp::create(builder, builder.getI64Type(),
                                         kernel.member(Member::Finished));
  Value asked = arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, count,
                                      kernel.i64(0));
  auto readThread = [&] {
    inBlock = again("tid.x");
    inWarp =
        arith::AndIOp::create(builder, inBlock, kernel.i64(warpThreads - 1));
  };
  kernel.when(asked, [&] {
    readThread();
    blocks = again("nctaid.x");
    kernel.when(comesLast(kernel), [&] {
      for (PhaseOp phase : phases) {
        auto [from, to] = kernel.rowsOf(PhaseOp(phase).getSet());
        lowerSmall(kernel, phase, {kernel.i64(0), kernel.i64(1), from, to});
        if (phase == phases.back())
          break;
        barrier();
        readThread();
      }
    });
  });
}

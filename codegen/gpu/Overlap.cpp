// Launches of one run that overlap: a kernel lets the next one begin, and that
// waits until the kernel has ended before it touches anything but tables.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// LLVM's intrinsics claim to touch no memory: loads would pass them.
void GpuLowering::control(StringRef what, StringRef clobbers) {
  assembly(builder, ("griddepcontrol." + what + ";").str(), clobbers, {}, {});
}

// What the runtime asks a loaded module for (bundle.h).
void altgrad::markOverlap(gpu::GPUModuleOp kernels, const Target &target) {
  if (!target.overlapsLaunches)
    return;
  auto builder = OpBuilder::atBlockEnd(kernels.getBody());
  Type i32 = builder.getI32Type();
  LLVM::GlobalOp::create(builder, kernels.getLoc(), i32, /*isConstant=*/false, LLVM::Linkage::External,
                         ALTGRAD_KERNELS_WAIT, builder.getI32IntegerAttr(1), /*alignment=*/4,
                         /*addrSpace=*/1);
}

void GpuLowering::letNextBegin(PhaseOp phase) {
  if (target.overlapsLaunches && precedesLaunch(phase))
    control("launch_dependents", "");
}

bool GpuLowering::waits(PhaseOp phase) { return target.overlapsLaunches && followsLaunch(phase); }

// The next launch begins no earlier: all launches before this one have ended then.
void GpuLowering::waitForLaunches(PhaseOp phase) {
  if (!waits(phase))
    return;
  control("wait", "~{memory}");
  letNextBegin(phase);
}

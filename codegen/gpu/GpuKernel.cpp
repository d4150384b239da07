// Threads of a kernel, and launches that overlap.
#include "codegen/gpu/GpuKernel.h"

using namespace mlir;
using namespace altgrad;

LLVM::LLVMFuncOp altgrad::makeKernel(CodeBuilder &builder, StringRef name, ArrayRef<Type> types) {
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), types);
  auto function = LLVM::LLVMFuncOp::create(builder, name, type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(), builder.getDenseI32ArrayAttr({ALTGRAD_BLOCK_THREADS}));
  return function;
}

GpuKernel::GpuKernel(KernelBuilder &kernel, const Target &target, PhaseOp phase, LLVM::LLVMFuncOp function)
    : kernel(kernel), builder(kernel.builder), target(target), phase(phase),
      inBlock(readRegister<NVVM::ThreadIdXOp>(builder)),
      shared(kernel, function, inBlock, *KernelResources::get(phase)) {
  for (unsigned i = 0; i < memberCount; ++i)
    kernel.members[i] = function.getArgument(i);
  begin = function.getArgument(memberCount);
  end = function.getArgument(memberCount + 1);
  block = readRegister<NVVM::BlockIdXOp>(builder);
  blocks = readRegister<NVVM::GridDimXOp>(builder);
  inWarp = builder.bitAnd(inBlock, kernel.i64(warpThreads - 1));
  auto scaled = [&](Value count, int64_t by) -> Value { return builder.mul(count, kernel.i64(by)); };
  warp = builder.add(scaled(block, warpsPerBlock), builder.div(inBlock, kernel.i64(warpThreads)));
  warps = scaled(blocks, warpsPerBlock);
  if (needsSharedWords(phase))
    words = shared.allocate("words", 16);
  if (shared.plan().bytes("warps"))
    warpWords = shared.allocate("warps", 16);
}

void GpuKernel::rereadThread() {
  inBlock = rereadRegister(builder, "tid.x");
  inWarp = builder.bitAnd(inBlock, kernel.i64(warpThreads - 1));
}

void GpuKernel::onFirstThread(function_ref<void()> body) {
  Value first = builder.equal(inWarp, kernel.i64(0));
  kernel.when(first, body);
}

void GpuKernel::barrier() { NVVM::Barrier0Op::create(builder); }

Value GpuKernel::sharedWord(Value index) { return kernel.offset(words, index, sharedWordBytes); }

Value GpuKernel::shuffle(NVVM::ShflKind kind, Value own, int32_t by, int32_t clamp) {
  return NVVM::ShflOp::create(builder, own.getType(), kernel.i32(-1), own, kernel.i32(by), kernel.i32(clamp), kind,
                              /*return_value_and_is_valid=*/UnitAttr());
}

Value GpuKernel::shuffleXor(Value own, int32_t distance) { return shuffle(NVVM::ShflKind::bfly, own, distance); }

// In the order of their numbers, as neighbours are joined everywhere. A warp's threads all have `own`.
Value GpuKernel::combineWarps(Reduction kind, Value own, int64_t count) {
  Value thread = rereadRegister(builder, "tid.x"), warp = builder.div(thread, kernel.i64(warpThreads));
  barrier(); // nobody still reads what was there
  Value isFirst = builder.equal(builder.bitAnd(thread, kernel.i64(warpThreads - 1)), kernel.i64(0));
  kernel.when(isFirst, [&] { kernel.store(own, kernel.offset(warpWords, warp, sharedWordBytes), sharedWordBytes); });
  barrier();
  Value first = kernel.offset(warpWords, builder.bitAnd(warp, kernel.i64(-count)), sharedWordBytes);
  SmallVector<Value> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(
        kernel.load(own.getType(), kernel.offset(first, kernel.i64(i), sharedWordBytes), sharedWordBytes));
  return combineNeighbours(builder, kind, all);
}

Value GpuKernel::combineThreads(Reduction kind, Value sum) {
  auto type = cast<VectorType>(sum.getType());
  SmallVector<Value> elements = splitVector(builder, sum);
  for (int32_t distance = warpThreads / 2; distance; distance /= 2)
    for (Value &mine : elements)
      mine = combine(builder, kind, mine, shuffle(NVVM::ShflKind::down, mine, distance));
  return builder.fromElements(type, elements);
}

Value GpuKernel::combineLanes(Reduction kind, SmallVector<Value> lanes) {
  Value own = combineElements(builder, kind, lanes);
  Value one = builder.fromElements(VectorType::get({1}, own.getType()), own);
  return splitVector(builder, combineThreads(kind, one))[0];
}

//===-- Launches that overlap -----------------------------------------------===//

// A kernel lets the next one begin, and that waits until the kernel has ended before it touches anything but tables.
// LLVM's intrinsics claim to touch no memory: loads would pass them.
static void emitControl(CodeBuilder &builder, StringRef what, StringRef clobbers) {
  assembly(builder, ("griddepcontrol." + what + ";").str(), clobbers, {}, {});
}

void GpuKernel::launchDependents() {
  if (target.overlapsLaunches && precedesLaunch(phase))
    emitControl(builder, "launch_dependents", "");
}

bool GpuKernel::mayOverlapPredecessor() { return target.overlapsLaunches && followsLaunch(phase); }

// The next launch begins no earlier: all launches before this one have ended then.
void GpuKernel::waitForLaunches() {
  if (!mayOverlapPredecessor())
    return;
  emitControl(builder, "wait", "~{memory}");
  launchDependents();
}

//===-- Registers, branches -------------------------------------------------===//

Value altgrad::rereadRegister(CodeBuilder &builder, StringRef name) {
  Value read = assembly(builder, ("mov.u32 $0, %" + name + ";").str(), "=r", builder.getI32Type(), {})[0];
  return builder.extendUnsigned(builder.getI64Type(), read);
}

Value altgrad::launderPointer(CodeBuilder &builder, Value value) {
  return assembly(builder, "mov.b64 $0, $1;", "=l,l", value.getType(), value)[0];
}

SmallVector<Value> altgrad::ifElse(CodeBuilder &builder, Value condition, SmallVector<Value> carried,
                                   function_ref<SmallVector<Value>(SmallVector<Value>)> yes,
                                   function_ref<SmallVector<Value>(SmallVector<Value>)> no) {
  return branch(
      builder, condition, ValueRange(carried).getTypes(), [&] { return yes(carried); },
      [&] { return no ? no(carried) : carried; });
}

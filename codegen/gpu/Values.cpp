// Numbers of the host's that a launch has among its parameters: a kernel that puts them where the others read them.
#include "altgrad/values.h"
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// Whether there are numbers that the host may have.
static bool readsNumbers(StepOp step) {
  return llvm::any_of(step.getBody().getArguments(), [&](BlockArgument argument) {
    return !isa<TensorsType>(argument.getType()) && step.getAccess(argument) == Access::In;
  });
}

void altgrad::makeValuesKernel(gpu::GPUModuleOp kernels, ArrayRef<StepOp> steps) {
  if (llvm::none_of(steps, readsNumbers))
    return;
  CodeBuilder builder(kernels.getLoc(), kernels.getContext());
  builder.setInsertionPointToEnd(kernels.getBody());
  MLIRContext *context = builder.getContext();
  Type i64 = builder.getI64Type();
  auto memory = LLVM::LLVMPointerType::get(context, /*addressSpace=*/1);
  auto parameter = LLVM::LLVMPointerType::get(context);
  auto words = LLVM::LLVMArrayType::get(i64, ALTGRAD_VALUES);
  LLVM::LLVMFuncOp function = makeKernel(builder, ALTGRAD_VALUES_KERNEL, {memory, i64, parameter});
  function.setArgAttr(2, LLVM::LLVMDialect::getByValAttrName(), TypeAttr::get(words));
  function.setArgAttr(2, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(sizeof(int64_t)));
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  Value thread = builder.widen(i64, NVVM::ThreadIdXOp::create(builder, builder.getI32Type()));
  Value all = builder.integer(i64, ALTGRAD_BLOCK_THREADS);
  loopWith(builder, thread, entry->getArgument(1), all, {}, [&](Value index, SmallVector<Value> none) {
    auto at = [&](Value base) {
      return LLVM::GEPOp::create(builder, base.getType(), i64, base, ArrayRef<LLVM::GEPArg>{index});
    };
    Value word = LLVM::LoadOp::create(builder, i64, at(entry->getArgument(2)));
    LLVM::StoreOp::create(builder, word, at(entry->getArgument(0)));
    return none;
  });
  LLVM::ReturnOp::create(builder, ValueRange{});
}

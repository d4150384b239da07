//===-- Passes: sweeps become kernels ------------------------------------------===//

#ifndef ALTGRAD_CODEGEN_PASSES_TD
#define ALTGRAD_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanPhasesPass : Pass<"altgrad-plan-phases", "::altgrad::StepOp"> {
  let summary = "turn sweeps and the scalars between them into phases";
  let description = [{
    A phase is what one launch does. Sweeps keep their order; what folds their
    partial sums and computes scalars comes between them, once for the step or
    once for each tensor. A value that several phases need waits in a word of the
    workspace. A scalar in memory is overwritten in a phase that no reader of its
    old content follows.

    ```mlir
    %sum = sweep @reduce0 load(%x from %g : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
      emit %x : f32
    }
    %root = math.sqrt %sum : f32
    commit always %root to %norm : f32
    ```
    ==>
    ```mlir
    phase @reduce0 chunks set 0 {
      %sum = sweep @reduce0 load(%x from %g : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
        emit %x : f32
      }
      keep %sum in chunk 0 : f32
    }
    phase @fold1 rows set 0 {
      %sum = fold sumsq chunk 0 : f32
      keep %sum in row 0 : f32
    }
    phase @once1 once {
      %sum = total sumsq row 0 : f32
      keep %sum in step 0 : f32
      %root = math.sqrt %sum : f32
      write %root to %norm : f32
    }
    commit
    ```
  }];
  let dependentDialects = ["::altgrad::AltgradDialect"];
  let options = [Option<"exchange", "exchange", "bool", /*default=*/"false",
                        "Sums over the step are a phase of their own">];
}

def LowerNumericsPass : Pass<"altgrad-lower-numerics"> {
  let summary = "replace decode, encode and f64 functions by operations a target has";
  let description = [{
    Conversions between formats become integer code that gives the same codes
    everywhere, or the target's instruction where that gives them too. Powers of
    an f64 with an i64 exponent become repeated squaring; `exp` and `log` of an f64
    become polynomials.

    ```mlir
    %x = altgrad.decode %c format<bf16> : i16 to f32
    ```
    ==>
    ```mlir
    %wide = arith.extui %c : i16 to i32
    %bits = arith.shli %wide, %c16 : i32
    %x = arith.bitcast %bits : i32 to f32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"x86-64-v3\"",
                        "Whose instructions may be used">];
}

def LowerToHostPass : Pass<"altgrad-lower-to-host", "::mlir::ModuleOp"> {
  let summary = "turn each phase of a step into a function for an x86-64 level";
  let description = [{
    A function does the items [begin, end) of its phase (see bundle.h).
    `altgrad-plan-phases` and `altgrad-vectorize` come first.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect"];
  let options = [Option<"level", "level", "std::string", /*default=*/"\"x86-64-v3\"",
                        "x86-64-v3 or x86-64-v4">];
}

def LowerToGPUPass : Pass<"altgrad-lower-to-gpu", "::mlir::ModuleOp"> {
  let summary = "turn each phase of a step into a CUDA kernel";
  let description = [{
    A block does a chunk, or a warp where there are sums to keep apart, 16 bytes of
    the narrowest stream per thread and access; a chunk that is not aligned, and the
    end of a tensor, go element by element. The last block of a launch may go on to
    folds and scalars. `altgrad-plan-phases` and `altgrad-vectorize` come first.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::gpu::GPUDialect"];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "The GPU whose tuning is used">];
}

def ToLLVMPass : Pass<"altgrad-to-llvm"> {
  let summary = "lower scf, arith, math and vector to llvm without a library call";
  let description = [{
    `math.sqrt` is LLVM's square root, an IEEE instruction on every target:
    upstream's path to NVVM would call libdevice for it.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect"];
}

#endif // ALTGRAD_CODEGEN_PASSES_TD

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

def QuickBodiesPass : Pass<"altgrad-quick-bodies", "::altgrad::StepOp"> {
  let summary = "give sweeps a body that divides and takes roots by products";
  let description = [{
    Within limits the products give the bits of `arith.divf` and `math.sqrt`, and
    the guard says where they did (`numerics/Quotients.h`). A divisor that is the
    same for all elements takes three instructions, from its reciprocal, which is
    computed before the sweep; on a GPU another divisor takes seven, a root nine.
    Numbers that may be too small are tested one by one; NaN, infinity and scalars
    out of limits show in what is stored, which is looked at once and then is
    `never_nan`. A CPU gets such a body only where its tuning says so, and for
    quotients that need no test. What a block's elements share is computed as it was:
    a GPU's thread does so once.

    What becomes of a quotient that is known to be large enough:

    ```mlir
    %z = arith.divf %one, %k : f32
    sweep @s load(%x from %master : !altgrad.tensors<f32>) reduce() store(%master : !altgrad.tensors<f32>) {
      %q = arith.divf %x, %k : f32
      emit %q : f32
    } wide 2 (%x) {
      %d = vector.broadcast %k : f32 to vector<2xf32>
      %q = arith.divf %x, %d : vector<2xf32>
      emit %q : vector<2xf32>
    } quick (%x, %low, %sum) {
      %d = vector.broadcast %k : f32 to vector<2xf32>
      %r = vector.broadcast %z : f32 to vector<2xf32>
      %q0 = arith.mulf %x, %r : vector<2xf32>
      %minus = arith.negf %x : vector<2xf32>
      %e = math.fma %d, %q0, %minus : vector<2xf32>
      %back = arith.negf %r : vector<2xf32>
      %q = math.fma %back, %e, %q0 : vector<2xf32>
      %zero = arith.constant dense<0.0> : vector<2xf32>
      %all = math.fma %q, %zero, %sum : vector<2xf32>
      emit %q, %low, %all : vector<2xf32>, vector<2xi32>, vector<2xf32>
    }
    ```
  }];
  let dependentDialects = ["::altgrad::AltgradDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect"];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "Whose instructions may be used">];
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

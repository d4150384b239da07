//===-- Passes: sweeps become kernels ------------------------------------------===//

#ifndef ALTGRAD_CODEGEN_PASSES_TD
#define ALTGRAD_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

// Makes code of several dialects; altgrad brings arith, math and vector.
class Altgrad_CodePass<string argument, string operation = ""> : Pass<argument, operation> {
  let dependentDialects = ["::altgrad::AltgradDialect", "::mlir::cf::ControlFlowDialect", "::mlir::scf::SCFDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::gpu::GPUDialect"];
}

def CutStagesPass : Pass<"altgrad-cut-stages", "::altgrad::StepOp"> {
  let summary = "say in which stages a sweep goes through a block";
  let description = [{
    Elements of a block wait for what is reduced over it. On a CPU a value that they need again waits on the stack. On
    a GPU it is computed again, unless it comes from a code book: then it waits in shared memory, as far as there is
    room. A sweep between bf16 streams alone may have two stages as well, so that divisions and roots do not wait for
    each other. What waits for the largest of a column or a square becomes a sweep of its own, over numbers that the
    first one stores to memory of the kernel.

    This is the result on a CPU:

    ```mlir
    %m = reduce absmax %x over block<1x32> : f32
    %y = arith.divf %x, %m : f32
    stage reduce(%m : f32) keep(%x : f32) emit []
    stage emit [0]
    emit %y : f32
    ```
  }];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "The processor or GPU whose stages are wanted">];
}

def QuickBodiesPass : Altgrad_CodePass<"altgrad-quick-bodies", "::altgrad::StepOp"> {
  let summary = "give sweeps a body that divides and takes roots by products";
  let description = [{
    Within limits, products give the bits of `arith.divf` and `math.sqrt`; the guard of the
    quick body says where they did (`numerics/Quotients.h`). If the divisor is the same for
    all elements, a quotient takes three instructions; the reciprocal is computed
    before the sweep. On a GPU, a quotient by another divisor takes seven instructions, and a root nine.

    Numbers that may be too small are tested one by one. A NaN, an infinity or a scalar out
    of limits shows in the stored values; these are tested together once, and are
    `never_nan` from then on. A CPU gets a quick body only where its tuning says so, and only for
    quotients that need no test. A value that the elements of a block share is
    computed as before, because a thread of a GPU computes it once.

    This is the result for a quotient that is known to be large enough:

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
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "Whose instructions may be used">];
}

def FitResourcesPass : Pass<"altgrad-fit-resources", "::altgrad::StepOp"> {
  let summary = "say what each phase takes of a GPU's multiprocessor";
  let description = [{
    A phase gets an attribute: the variables that a block of its kernel has in shared memory, in bytes, and how many
    blocks a multiprocessor is to have registers for. In this order there is room for words of folds, tables of code
    books, a tile, partial sums, draws and their counters, uniform numbers, and values that a stage keeps for later
    ones. What has no room is a register, or is computed again: then the stage keeps it no more. `ahead` says that
    loads come before the first use. If even the first three have no room, the step is refused.

    ```mlir
    phase @update chunks set 0 {
      ...
    } {altgrad.takes = {blocks = 3 : i64, shared = {draws = 8192 : i64, counters = 6144 : i64}}}
    ```

    Run `altgrad-vectorize` and `altgrad-quick-bodies` first.
  }];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"", "The GPU">,
                 Option<"shared", "shared", "int64_t", /*default=*/"0",
                        "Bytes of shared memory that a block has; 0: the target's">];
}

def LowerNumericsPass : Altgrad_CodePass<"altgrad-lower-numerics"> {
  let summary = "replace decode, encode and f64 functions by operations that a target has";
  let description = [{
    Conversions between formats become integer code that gives the same codes
    everywhere, or an instruction of the target that gives these codes. A power of
    an f64 with an i64 exponent becomes repeated squaring. `exp` and `log` of an f64
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
  let options = [Option<"target", "target", "std::string", /*default=*/"\"x86-64-v3\"",
                        "Whose instructions may be used">];
}

def LowerToHostPass : Altgrad_CodePass<"altgrad-lower-to-host", "::mlir::ModuleOp"> {
  let summary = "turn each phase of a step into a function for an x86-64 level";
  let description = [{
    A function works on the items [begin, end) of its phase (see bundle.h).
    Run `altgrad-plan-phases` and `altgrad-vectorize` first.
  }];
  let options = [Option<"level", "level", "std::string", /*default=*/"\"x86-64-v3\"",
                        "x86-64-v3 or x86-64-v4">];
}

def LowerToGPUPass : Altgrad_CodePass<"altgrad-lower-to-gpu", "::mlir::ModuleOp"> {
  let summary = "turn each phase of a step into a CUDA kernel";
  let description = [{
    A block of threads works on a chunk; where there are sums that must be kept apart, a warp
    does. Each access of a thread covers 16 bytes of the narrowest stream. A chunk that
    is not aligned, and the end of a tensor, are done element by element. The last block
    of a launch may go on with folds and scalars. Run `altgrad-plan-phases`,
    `altgrad-vectorize` and `altgrad-fit-resources` first.
  }];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "The GPU whose tuning is used">,
                 Option<"ownProducts", "own-products", "bool", /*default=*/"false",
                        "Also write kernels for symmetric products of 16-bit matrices">];
}

def ToLLVMPass : Altgrad_CodePass<"altgrad-to-llvm"> {
  let summary = "lower scf, arith, math and vector to llvm without a library call";
  let description = [{
    `math.sqrt` becomes LLVM's square root, which is an IEEE instruction on every target.
    MLIR's own path to NVVM would call libdevice.
  }];
}

#endif // ALTGRAD_CODEGEN_PASSES_TD

//===-- Passes: sweeps become kernels ------------------------------------------===//

#ifndef ALTGRAD_CODEGEN_PASSES_TD
#define ALTGRAD_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

// Makes code of several dialects; altgrad brings arith, math and vector.
class Altgrad_CodePass<string argument, string operation = ""> : Pass<argument, operation> {
  let dependentDialects = ["::altgrad::AltgradDialect", "::mlir::cf::ControlFlowDialect", "::mlir::scf::SCFDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::gpu::GPUDialect"];
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
    } {kernel_resources = {blocks = 3 : i64, shared = {draws = 8192 : i64, counters = 6144 : i64}}}
    ```

    Run `altgrad-vectorize` and `altgrad-fast-path` first.
  }];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"", "The GPU">,
                 Option<"shared", "shared", "int64_t", /*default=*/"0",
                        "Bytes of shared memory that a block has; 0: the target's">];
}

def LowerNumericsPass : Altgrad_CodePass<"altgrad-lower-numerics"> {
  let summary = "replace decode, encode and functions by operations that a target has";
  let description = [{
    Conversions between formats become integer code that gives the same codes
    everywhere, or an instruction of the target that gives these codes. A power of
    an f64 with an i64 exponent becomes repeated squaring. Functions become polynomials
    and selects, without a branch or a table. Code without these stays as it is; steps
    must be functions or kernels first.

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
    Run `altgrad-plan-phases`, `altgrad-cut-stages` and `altgrad-vectorize` first. A module without steps stays as it is.
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
    of a launch may go on with folds and scalars. Run `altgrad-plan-phases`, `altgrad-cut-stages`,
    `altgrad-vectorize` and `altgrad-fit-resources` first. A module without steps stays as it is.
  }];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "The GPU whose tuning is used">,
                 Option<"ownProducts", "own-products", "bool", /*default=*/"false",
                        "Also write kernels for symmetric products of 16-bit matrices">];
}

def LowerToLLVMPass : Altgrad_CodePass<"altgrad-lower-to-llvm"> {
  let summary = "lower scf, arith, math and vector to llvm without a library call";
  let description = [{
    `math.sqrt` becomes LLVM's square root, which is an IEEE instruction on every target.
    MLIR's own path to NVVM would call libdevice. Run `altgrad-lower-numerics` first. A second run finds nothing to lower.
  }];
}

#endif // ALTGRAD_CODEGEN_PASSES_TD

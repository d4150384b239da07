//===-- Passes: a step becomes sweeps -----------------------------------------===//

#ifndef ALTGRAD_PASSES_TD
#define ALTGRAD_PASSES_TD

include "mlir/Pass/PassBase.td"

// A pass refuses a step in a form that it does not read (Forms.h). Where its description says so, it may run again and
// changes nothing.

def InlineRulesPass : Pass<"altgrad-inline-rules", "::mlir::ModuleOp"> {
  let summary = "replace every update by the body of its rule";
  let description = [{
    Options become constants, and the choices that they decide disappear. So do states that
    are not stored under these options. If a rule is not in the module, the pass reads
    the stock rule of this name, or `<name>.mlir` on the rule path. Rules that no update
    uses any more are removed. A step without updates stays as it is.

    ```mlir
    %w1 = update @sgd param(%w) grad(%g) state() hyper(%lr)
    ```
    ==>
    ```mlir
    %x = element %w
    %y = element %g
    %rate = arith.truncf %lr : f64 to f32
    %dw = arith.mulf %rate, %y : f32
    %z = arith.subf %x, %dw : f32
    %w1 = collect %z : f32 to !altgrad.reals
    ```
  }];
  let options = [Option<"rulePath", "rule-path", "std::string", /*default=*/"\"\"",
                        "Folders of rules that are not stock, separated by colons">,
                 Option<"exchange", "exchange", "bool", /*default=*/"false",
                        "Sums over the step are named, and other devices' shares join them">];
}

def ExpandGradientsPass : Pass<"altgrad-expand-gradients", "::altgrad::StepOp"> {
  let summary = "replace unscale, norm, scale, clips, lerp and update_loss_scale by reductions, factors and arithmetic";
  let description = [{
    The first four only change the pending factor of a list. So an element is multiplied
    once, however many of them it goes through. Of a loss scale both cases are computed; a `select` on `found`
    chooses the results. A step without these operations stays as it is.

    ```mlir
    %c, %norm = clip_by_global_norm %g to %max_norm
    ```
    ==>
    ```mlir
    %x = element %g
    %sum = reduce sumsq %x over step : f32
    %norm = math.sqrt %sum : f32
    %more = arith.addf %norm, %tiny : f32
    %ratio = arith.divf %max_norm, %more : f32
    %coef = arith.minimumf %ratio, %one : f32
    %c = collect %x by %coef : f32 to !altgrad.reals
    ```
  }];
}

def ExpandMatricesPass : Pass<"altgrad-expand-matrices", "::altgrad::StepOp"> {
  let summary = "replace orthogonalize by products of matrices, and matrices by the codes of their elements";
  let description = [{
    `orthogonalize` becomes a norm over the tensor, a quotient, and for each step a `gram` and two `product`.
    Matrices are then made by `collect` and read by `load`. A step without matrices stays as it is.

    ```mlir
    %o = orthogonalize %u coefficients<jordan> steps<1> in<f32> length<clamped> eps(%eps)
    ```
    ==>
    ```mlir
    %c = encode %u format<f32> round<nearest_even> overflow<nonfinite> : f32 to f32
    %list = collect %c : f32 to !altgrad.tensors<f32>
    %v0 = load %list : !altgrad.tensors<f32>
    %sum = reduce sumsq %v0 over tensor : f32
    %norm = math.sqrt %sum : f32
    %least = arith.truncf %eps : f64 to f32
    %length = arith.maximumf %norm, %least : f32
    %q = arith.divf %v0, %length : f32
    %q1 = encode %q format<f32> round<nearest_even> overflow<nonfinite> : f32 to f32
    %x = collect %q1 : f32 to !altgrad.tensors<f32>
    %a = gram %x : !altgrad.tensors<f32>
    %b = product %a, %a by 2.0315 plus %a by -4.775 : !altgrad.squares<f32>
    %y = product %b, %x plus %x by 3.4445 : !altgrad.tensors<f32>
    %o = load %y : !altgrad.tensors<f32>
    ```
  }];
}

def ExpandFormatsPass : Pass<"altgrad-expand-formats", "::altgrad::StepOp"> {
  let summary = "replace lists of values by one element that is loaded, computed and stored";
  let description = [{
    Afterwards the only lists are those that `load` reads and `commit` writes. A second run changes nothing.

    ```mlir
    %w = dequantize %model : !altgrad.tensors<bf16>
    %x = element %w
    ```
    ==>
    ```mlir
    %c = load %model : !altgrad.tensors<bf16>
    %x = decode %c format<bf16> : i16 to f32
    ```
  }];
}

def SplitSweepsPass : Pass<"altgrad-split-sweeps", "::altgrad::StepOp"> {
  let summary = "cut a step at its reductions: one sweep per pass over memory";
  let description = [{
    A value that depends on a reduction cannot be in the sweep that computes the reduction. Every
    reduction gets a sweep of its own. All stores that become possible at the same
    time get one sweep. A value that two sweeps need is either computed twice, from
    what both load, or kept in the workspace; the pass chooses what moves fewer bytes, and a
    remark says which. A sweep covers the tensors of one set.

    ```mlir
    %c = load %grads : !altgrad.tensors<f32>
    %sum = reduce sumsq %c over step : f32
    %s = arith.mulf %c, %sum : f32
    %l = collect %s : f32 to !altgrad.reals
    commit always %l to %out : !altgrad.tensors<f32>
    ```
    ==>
    ```mlir
    %sum = sweep @reduce0 load(%c from %grads : !altgrad.tensors<f32>)
        reduce(sumsq over step) store() {
      emit %c : f32
    }
    sweep @update1 load(%c from %grads : !altgrad.tensors<f32>) reduce()
        store(%out : !altgrad.tensors<f32>) {
      %s = arith.mulf %c, %sum : f32
      emit %s : f32
    }
    commit
    ```
  }];
}

def FuseSweepsPass : Pass<"altgrad-fuse-sweeps", "::altgrad::StepOp"> {
  let summary = "merge sweeps that need not wait for each other";
  let description = [{
    Two successive sweeps of a set become one if the second does not depend on the
    first. A stream that both load is then loaded once. The pair that shares the most
    bytes is merged first. A remark says the bytes per element before and after. A second run finds no pair.
  }];
}

def HoistUniformPass : Pass<"altgrad-hoist-uniform", "::altgrad::StepOp"> {
  let summary = "move computations on scalars out of the element loop";
  let description = [{
    A value that depends only on scalars is then computed once per step or once per tensor, in
    f64 where the rule says so. Equal computations of several sweeps become one. A second run finds nothing to move.
  }];
}

def KeepFunctionsPass : Pass<"altgrad-keep-functions", "::altgrad::StepOp"> {
  let summary = "leave functions of constants to the kernel";
  let description = [{
    MLIR evaluates functions of constants by the C library of the machine that compiles, but not `altgrad.function`.
    A second run finds nothing to replace.

    ```mlir
    %y = math.exp %x : f32
    ```
    ==>
    ```mlir
    %y = function "math.exp"(%x) : (f32) -> f32
    ```
  }];
}

def PlanPhasesPass : Pass<"altgrad-plan-phases", "::altgrad::StepOp"> {
  let summary = "turn sweeps and the scalars between them into phases";
  let description = [{
    A phase is the work of one launch. Sweeps keep their order. Between them come phases that
    fold partial sums and compute scalars, once for the step or once for each
    tensor. A value that several phases need waits in a word of the workspace. A scalar
    in memory is overwritten in a phase after all readers of its old content.

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
      workspace_store %sum in chunk 0 : f32
    }
    phase @fold1 rows set 0 {
      %sum = fold sumsq chunk 0 : f32
      workspace_store %sum in row 0 : f32
    }
    phase @once1 once {
      %sum = total sumsq row 0 : f32
      workspace_store %sum in step 0 : f32
      %root = math.sqrt %sum : f32
      write %root to %norm : f32
    }
    commit
    ```
  }];
  let options = [Option<"exchange", "exchange", "bool", /*default=*/"false",
                        "Sums over the step are a phase of their own">];
}

def CutStagesPass : Pass<"altgrad-cut-stages", "::altgrad::StepOp"> {
  let summary = "say in which stages a sweep goes through a block";
  let description = [{
    Elements of a block wait for what is reduced over it. On a CPU a value that they need again waits on the stack. On
    a GPU it is computed again, unless it comes from a code book: then it waits in shared memory, as far as there is
    room. A sweep between bf16 streams alone may have two stages as well, so that divisions and roots do not wait for
    each other. What waits for the largest of a column or a square becomes a sweep of its own, over numbers that the
    first one stores to memory of the kernel. A step that needs no stages stays as it is.

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

def VectorizePass : Pass<"altgrad-vectorize", "::altgrad::StepOp"> {
  let summary = "give each sweep a body that computes several elements at once";
  let description = [{
    The second region of a sweep computes `width` neighbouring elements as
    vectors. The first region stays for the elements that do not fill a vector.
  }];
  let options = [Option<"width", "width", "int64_t", /*default=*/"4",
                        "Elements at once">];
}

def FastPathPass : Pass<"altgrad-fast-path", "::altgrad::StepOp"> {
  let summary = "give sweeps a body that divides and takes roots by products";
  let description = [{
    Within limits, products give the bits of `arith.divf` and `math.sqrt`; the guard of the
    fast-path body says where they did (`dialect/builders/Quotients.h`). If the divisor is the same for
    all elements, a quotient takes three instructions; the reciprocal is computed
    before the sweep. On a GPU, a quotient by another divisor takes seven instructions, and a root nine.

    Numbers that may be too small are tested one by one. A NaN, an infinity or a scalar out
    of limits shows in the stored values; these are tested together once, and are
    `never_nan` from then on. A CPU gets a fast-path body only where its tuning says so, and only for
    quotients that need no test. A value that the elements of a block share is
    computed as before, because a thread of a GPU computes it once. A sweep that has a fast path keeps it.

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
    } fast (%x, %low, %sum) {
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
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
  let options = [Option<"target", "target", "std::string", /*default=*/"\"sm_80\"",
                        "Whose instructions may be used">];
}

#endif // ALTGRAD_PASSES_TD

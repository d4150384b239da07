//===-- The step: formats, order, one commit ---------------------------------===//

#ifndef ALTGRAD_STEPOPS_TD
#define ALTGRAD_STEPOPS_TD

include "dialect/RuleOps.td"

def Altgrad_StepOp : Altgrad_Op<"step", [Symbol, IsolatedFromAbove,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a whole training step: what is stored how, and what happens in which order";
  let description = [{
    Every argument says how it is used (`in`, `out`, `inout`) and may say what it
    is, its role: `param`, `grad`, `state`, `master`, `copy`, `block_scale`, `remainder` and
    `input` are lists of tensors, `hyper`, `step`, `max_norm`, `norm`, `scale`, `inv_scale`, `flag`
    and `random` are scalars in memory (f64, f32 or i64): one for the step, or
    `per_group`, or `per_tensor`; `scaler` are the numbers of a loss scaler, and behind
    a `history` lie the last 100 numbers that were committed to it; a `tensor_scale` is a number
    beside the copy of a tensor, or what the tensor is divided by. A
    `block_scale` has the key of another list of its set, whose elements are codes times
    the scale of their block; a `remainder` holds what a parameter has no room for, so
    that both together are its master. Front ends find an argument by its role and its
    key, which is its name unless `as` gives another; a `hyper` may have a default.
    The body is pure; `commit`, its last operation, is the only write.

    All lists have the same tensors in the same order, unless the signature says
    `set N`: lists of another set have tensors of their own, and so may scalars
    `per_group` and `per_tensor`. Sets share what is one for the step, such as a
    norm. A scalar without a set has a place for every tensor or group of every set.

    ```mlir
    altgrad.step @both(inout %a: !altgrad.tensors<bf16>,
                       inout %b: !altgrad.tensors<f32> set 1,
                       in %limit: f32) {
      %x = dequantize %a : !altgrad.tensors<bf16>
      %y = dequantize %b : !altgrad.tensors<f32>
      %x1, %y1, %norm = clip_by_global_norm %x, %y to %limit
      %c = quantize %x1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
      commit always %c to %a : !altgrad.tensors<bf16>,
          %y1 to %b : !altgrad.tensors<f32>
    }
    ```

    ```mlir
    altgrad.step @train(in grad %grads: !altgrad.tensors<bf16>,
                        inout param %master as w: !altgrad.tensors<f32>,
                        in hyper %lr: f64 per_group = 1.0e-3) {
      %g = dequantize %grads : !altgrad.tensors<bf16>
      %w = dequantize %master : !altgrad.tensors<f32>
      %w1 = update @sgd param(%w) grad(%g) state() hyper(%lr)
      commit always %w1 to %master : !altgrad.tensors<f32>
    }
    ```

    Constraints:

    - (step_c1) every argument has an access, a role, a name, a key, a scope, a set
      and a default or none;
    - (step_c2) the access is `in`, `out` or `inout`;
    - (step_c3) the type is `!altgrad.tensors`, f64, f32 or i64;
    - (step_c4) only scalars have a scope;
    - (step_c5) what is reduced differs from element to element;
    - (step_c6) an `in` argument is not written;
    - (step_c7) an `out` or `inout` argument is;
    - (step_c8) an `out` argument is not read;
    - (step_c9) sets are numbered from 0 without a gap, at most 64;
    - (step_c10) a scalar has one only if it is `per_group` or `per_tensor`;
    - (step_c11) what belongs to different sets does not meet;
    - (step_c12) the role is one of the above, or `none`;
    - (step_c13) lists have a role of lists, scalars one of scalars;
    - (step_c14) the set of a scalar has lists;
    - (step_c15) only a `hyper` has a default, a finite f64;
    - (step_c16) in a set, no other argument has the same role and key;
    - (step_c17) a key is an identifier;
    - (step_c18) where there are several sets, what is reduced belongs to one;
    - (step_c19) what is stored per block is the same for all its elements;
    - (step_c20) no argument has one for each unit;
    - (step_c21) a set has at most 128 lists;
    - (step_c22) what differs within one is reduced at most 32 times;
    - (step_c23) a history is an f32, one for the step or for each tensor, and not `out`;
    - (step_c24) `percentile` alone reads it;
    - (step_c25) a `block_scale` is stored per block, and another list of its set has its key;
    - (step_c26) what reduces over units adds up nothing across tensors;
    - (step_c27) what differs between units is no scalar's content and no condition;
    - (step_c28) what is stored per block of a column or a square is the same for all its elements;
    - (step_c29) what is stored by the largest of a column or a square reads of its element only what that is of.

    Names and body are those of a rule: name_c1 to name_c3, body_c1 to body_c12.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$accesses,
                       StrArrayAttr:$roles, StrArrayAttr:$names, StrArrayAttr:$keys,
                       TypedArrayAttrBase<Altgrad_ScopeAttr, "scopes">:$scopes,
                       DenseI64ArrayAttr:$sets, ArrayAttr:$defaults);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Inside a step `altgrad` needs no prefix.
    static ::llvm::StringRef getDefaultDialect() { return "altgrad"; }
    ::llvm::StringRef getName(::mlir::BlockArgument argument);
    ::llvm::StringRef getAccess(::mlir::BlockArgument argument);
    Scope getScope(::mlir::BlockArgument argument);
    /// A word of ALTGRAD_ROLES (bundle.h) or "none".
    ::llvm::StringRef getRole(::mlir::BlockArgument argument);
    ::llvm::StringRef getKey(::mlir::BlockArgument argument);
    /// The default of a hyper-parameter, or null.
    ::mlir::FloatAttr getDefault(::mlir::BlockArgument argument);
    /// Whether something is reduced over units: rows of the table are units then.
    bool hasUnits();
    /// Whose tensors or groups an argument is of; none: of the step, or of all.
    std::optional<unsigned> getSet(::mlir::BlockArgument argument);
    unsigned getSetCount();
    CommitOp getCommit();
  }];
}

def Altgrad_DequantizeOp : Altgrad_Op<"dequantize", [Pure]> {
  let summary = "the values of stored tensors";
  let description = [{
    Exact: f32 holds every number of every format.

    ```mlir
    %w = dequantize %model : !altgrad.tensors<bf16>
    ```
  }];
  let arguments = (ins Altgrad_TensorsType:$tensors);
  let results = (outs Altgrad_RealsType:$values);
  let assemblyFormat = "$tensors attr-dict `:` qualified(type($tensors))";
}

def Altgrad_UnscaleOp : Altgrad_Op<"unscale", [Pure]> {
  let summary = "the gradients divided by the loss scale, and whether all are finite";
  let description = [{
    `values = gradients * factor`, where `factor` is the inverse of the loss
    scale; `finite` is true when no stored gradient is an infinity or a NaN
    (tested before the product). Source: GradScaler.unscale_, torch/amp.

    ```mlir
    %g, %finite = unscale %grads by %inv_scale : !altgrad.tensors<bf16>
    ```
  }];
  let arguments = (ins Altgrad_TensorsType:$tensors, F32:$factor);
  let results = (outs Altgrad_RealsType:$values, I1:$finite);
  let assemblyFormat = "$tensors `by` $factor attr-dict `:` qualified(type($tensors))";
}

def Altgrad_UpdateLossScaleOp : Altgrad_Op<"update_loss_scale", [Pure]> {
  let summary = "the loss scale of the next step, by what this one found";
  let description = [{
    Where `found` (a gradient was not finite), the scale is multiplied by `backoff`,
    not below the lower limit, once this has happened `hysteresis` times since the
    scale last grew, and the tracker begins at 0. Otherwise the tracker counts the
    step; at `interval` the scale is multiplied by `growth`, up to the upper limit,
    and the tracker begins again. Products are of f64 and rounded to f32.

    `torch` grows when the tracker is equal to the interval, and not to an infinity;
    `boostr` when it is at least the interval, to whatever the product is. Sources:
    torch/amp/grad_scaler.py and its `_amp_update_scale_`, with a hysteresis of 1
    and without limits; boostr's `dynamic_loss_scale_update`; hysteresis as in
    Megatron-LM's DynamicGradScaler.

    ```mlir
    %s1, %n1, %left1 = update_loss_scale<torch> %s if %found tracker(%n every %interval)
        hysteresis(%left of %times) growth(%up) backoff(%down) limits(%least, %most)
    ```
  }];
  let arguments = (ins Altgrad_ScalerAttr:$variant, F32:$scale, I1:$found,
                       I64:$tracker, I64:$interval, I64:$left, I64:$hysteresis,
                       F64:$growth, F64:$backoff, F64:$least, F64:$most);
  let results = (outs F32:$nextScale, I64:$nextTracker, I64:$nextLeft);
  let assemblyFormat = [{
    `` $variant $scale `if` $found `tracker` `(` $tracker `every` $interval `)`
    `hysteresis` `(` $left `of` $hysteresis `)` `growth` `(` $growth `)`
    `backoff` `(` $backoff `)` `limits` `(` $least `,` $most `)` attr-dict
  }];
}

def Altgrad_UpdateOp : Altgrad_Op<"update", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "apply a rule to every element";
  let description = [{
    The results are the new parameter and the new states, in the order of the
    rule. Options of the rule are switched on in braces; states that these
    options leave unchanged are not operands. A rule that is not in the module is
    a stock rule, or looked for as `<name>.mlir` on the rule path.

    With `value` the parameter is a coordinate of what `value` holds, such as the
    place on its format's grid. The first result is then what the coordinate changes
    by: what the rule adds to it or subtracts from it last, unrounded; where it ends
    in something else, the difference.

    ```mlir
    %w1, %m1, %v1 = update @adamw param(%w) grad(%g) state(%m, %v)
        hyper(%lr, %b1, %b2, %eps, %decay) step(%t)
    %x1 = update @sgd {maximize} param(%x) grad(%y) state() hyper(%lr)
    %dx = update @sgd param(%x) grad(%y) state() hyper(%lr) value(%x)
    ```

    Constraints:

    - (update_c1) the symbol is a rule;
    - (update_c2) the rule has the options;
    - (update_c3) there is one operand for each state the rule stores;
    - (update_c4) one for each hyper-parameter;
    - (update_c5) a step count exactly when the rule has one.
  }];
  let arguments = (ins FlatSymbolRefAttr:$rule, StrArrayAttr:$options,
                       Altgrad_RealsType:$param, Altgrad_RealsType:$grad,
                       Variadic<Altgrad_RealsType>:$states,
                       Variadic<F64>:$hypers, Optional<I64>:$step,
                       Optional<Altgrad_RealsType>:$value);
  let results = (outs Altgrad_RealsType:$new_param,
                      Variadic<Altgrad_RealsType>:$new_states);
  let hasCustomAssemblyFormat = 1;
}

def Altgrad_QuantizeOp : Altgrad_Op<"quantize", [Pure]> {
  let summary = "round values to a storage format";
  let description = [{
    One direct rounding from f32. NaN becomes the one canonical code of the
    format; `saturate` turns what is too large, infinities included, into the
    largest finite number, `nonfinite` into infinity where the format has it and
    NaN otherwise. Corner cases are decided in `runtime/include/altgrad/format.h`.

    `stochastic` goes away from zero where the first 16 bits behind the code, and
    zeros behind these, plus the `draw` reach 65536: a number f of the way to the
    next code reaches it in 65536 f of 65536 draws. With a draw of 32 bits it is the
    first 32 bits, and 2^32. That and `toward_zero` never make
    a finite number infinite: beyond the largest it becomes the largest.

    ```mlir
    %half = quantize %w1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
    %r = draw seed(%seed) step(%t) store(0) : i16
    %fair = quantize %w1 round<stochastic> draw(%r) overflow<nonfinite> : !altgrad.tensors<bf16>
    ```

    Constraints:

    - (quantize_c1) `nonfinite` needs a format with an infinity or a NaN;
    - (quantize_c2) there is a draw exactly where it rounds stochastically;
    - (quantize_c3) to f32 nothing is rounded: nearest_even stands for that;
    - (quantize_c4) to a code book it rounds to the nearest number.
  }];
  let arguments = (ins Altgrad_RealsType:$values,
                       Altgrad_RoundingAttr:$rounding, Optional<AnyTypeOf<[I16, I32]>>:$draw,
                       Altgrad_OverflowAttr:$overflow);
  let results = (outs Altgrad_TensorsType:$tensors);
  let assemblyFormat = [{
    $values `round` `` $rounding custom<Draw>($draw, type($draw))
    `overflow` `` $overflow attr-dict `:` qualified(type($tensors))
  }];
  let hasVerifier = 1;
}

def Altgrad_RecodeOp : Altgrad_Op<"recode", [Pure]> {
  let summary = "the same codes, taken for those of another format";
  let description = [{
    No bit changes. In the format of the integers of its width, sign and magnitude, a
    code is its rung: its place among the format's numbers in their order, counted from 0.

    ```mlir
    %places = recode %w : !altgrad.tensors<ocp.e4m3fn> to
        !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
    %rungs = dequantize %places : !altgrad.tensors<
        #altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
    ```

    Constraints:

    - (recode_c1) codes of both have the same number of bits, at most 8.
  }];
  let arguments = (ins Altgrad_TensorsType:$codes);
  let results = (outs Altgrad_TensorsType:$tensors);
  let assemblyFormat = [{
    $codes attr-dict `:` qualified(type($codes)) `to` qualified(type($tensors))
  }];
  let hasVerifier = 1;
}

def Altgrad_CommitOp : Altgrad_Op<"commit", [Terminator, AttrSizedOperandSegments,
    HasParent<"::altgrad::StepOp">]> {
  let summary = "write the results of a step";
  let description = [{
    The `always` list is written on every run, the `if` list only when its
    condition holds: otherwise no byte of it changes. A value goes to an `out` or
    `inout` argument, once, and has that argument's format already.

    ```mlir
    commit always %norm to %gnorm : f32
        if %finite
        %w1 to %master : !altgrad.tensors<f32>,
        %t1 to %t : i64
    ```

    Constraints:

    - (commit_c1) every value has a target;
    - (commit_c2) an `if` list has a condition;
    - (commit_c3) a target is an argument of the step;
    - (commit_c4) it is written once;
    - (commit_c5) a list of tensors that is written is no argument;
    - (commit_c6) the value has the target's type, or is reals for f32.
  }];
  let arguments = (ins Optional<I1>:$condition,
                       Variadic<AnyType>:$always_values, Variadic<AnyType>:$always_targets,
                       Variadic<AnyType>:$values, Variadic<AnyType>:$targets);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif // ALTGRAD_STEPOPS_TD

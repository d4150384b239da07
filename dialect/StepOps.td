//===-- The step: formats, order, one commit ---------------------------------===//

#ifndef ALTGRAD_STEPOPS_TD
#define ALTGRAD_STEPOPS_TD

include "dialect/RuleOps.td"

def Altgrad_StepOp : Altgrad_SignatureOp<"step", []> {
  let summary = "a whole training step: the storage formats and the order of its parts";
  let description = [{
    Every argument has an access: `in` is read, `out` is written, `inout` is both. It may
    have a role. Front ends find an argument by its role and its key; the key is the
    argument's name unless `as` gives another one.

    These roles are lists of tensors:

    - `param`, `grad`, `state` and `master` are what their names say;
    - `copy` is the new parameter once more, in another format;
    - `block_scale` holds the scales of another list of its set, whose key it has: an element
      of that list is its code times the scale of its block;
    - `remainder` holds the lower bits of a master whose upper bits are the parameter;
    - `input` is any other list that is read.

    These roles are scalars in memory (f64, f32 or i64), one for the step, or `per_group`, or
    `per_tensor`. A `state` may be an f32 `per_unit`:

    - `hyper` is a hyper-parameter and may have a default; `step` is the step count;
    - `max_norm` is a bound of a norm and `norm` a norm that the step gives;
    - `scale` and `inv_scale` are a loss scale and its inverse, `scaler` the other numbers of a loss scaler;
    - `flag` says whether a gradient was not finite;
    - `random` is a seed or a count of draws;
    - `history` is the memory of the last 100 numbers that were committed to it, and of the
      place of the next one: 101 f32;
    - `tensor_scale` is a number beside the copy of a tensor, or what the tensor is divided by;
    - `statistic` is a number that the step measures.

    The body has no effects; `commit`, its last operation, is the only write.

    All lists have the same tensors in the same order, unless the signature says
    `set N`. Lists of another set have other tensors, and scalars `per_group` and
    `per_tensor` may belong to a set, too. Sets share the scalars of the step, such as a
    norm. A scalar without a set has a value for every tensor or group of every set.

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

    - (step_c1) every argument has an access, a role, a name, a key, a scope and a set;
      it may have a default;
    - (step_c2) the access is `in`, `out` or `inout`;
    - (step_c3) the type is `!altgrad.tensors`, f64, f32 or i64;
    - (step_c4) only scalars have a scope;
    - (step_c5) the operand of a reduction differs from element to element;
    - (step_c6) an `in` argument is not written;
    - (step_c7) an `out` or `inout` argument is written;
    - (step_c8) an `out` argument is not read;
    - (step_c9) sets are numbered from 0 without a gap, and there are at most 64;
    - (step_c10) a scalar has a set only if it is `per_group`, `per_tensor` or `per_unit`;
    - (step_c11) no operation combines values of different sets;
    - (step_c12) the role is one of the above, or `none`;
    - (step_c13) a list has a role of lists, and a scalar a role of scalars; a scalar that is not `per_group` may be
      a `state`, too;
    - (step_c14) the set of a scalar has lists;
    - (step_c15) only a `hyper` and a scalar `state` have a default, a finite f64, which is the state's first value;
    - (step_c16) no two arguments of a set have the same role and key;
    - (step_c17) a key is an identifier;
    - (step_c18) where there are several sets, the operand of a reduction belongs to one of them;
    - (step_c19) a value that is stored per block is the same for all elements of the block;
    - (step_c20) what is `per_unit` is an f32 with the role `state`;
    - (step_c21) a set has at most 128 lists;
    - (step_c22) a set has at most 64 reductions of its elements, those over columns and squares among them;
    - (step_c23) a history is an f32 of the step or of each tensor, and it is not `out`;
    - (step_c24) only `percentile` reads a history;
    - (step_c25) a `block_scale` is stored per block, and another list of its set has its key;
    - (step_c26) a value that differs between units is no condition, and only written to what is `per_unit`;
    - (step_c27) a set has at most 128 reductions over blocks of neighbours;
    - (step_c28) what is stored to squares is an element of such squares.

    Names and bodies obey the constraints of rules, too: name_c1 to name_c3, body_c1 to body_c12.
  }];
  let assemblyFormat = "$sym_name `` custom<StepSignature>($signature, $body) attr-dict";
  let extraClassDeclaration = ofArguments # [{
    /// Inside a step `altgrad` needs no prefix.
    static ::llvm::StringRef getDefaultDialect() { return "altgrad"; }
    Access getAccess(::mlir::BlockArgument argument) { return of(argument).getAccess(); }
    Scope getScope(::mlir::BlockArgument argument) { return of(argument).getScope(); }
    ::llvm::StringRef getKey(::mlir::BlockArgument argument) { return of(argument).getKey(); }
    /// What a row of the table is, of a set or of any: a unit where something is reduced over units or one of each,
    /// and a row of the matrix where something is so of columns.
    RowKind getRowKind(::std::optional<unsigned> set = {});
    bool hasUnits(::std::optional<unsigned> set = {}) { return getRowKind(set) != RowKind::Tensor; }
    /// Whose tensors or groups an argument is of; none: of the step, or of all.
    std::optional<unsigned> getSet(::mlir::BlockArgument argument);
    unsigned getSetCount();
    CommitOp getCommit();
  }];
}

def Altgrad_DequantizeOp : Altgrad_Op<"dequantize", [Pure]> {
  let summary = "the values of stored tensors";
  let description = [{
    The conversion is exact: f32 holds every number of every format.

    ```mlir
    %w = dequantize %model : !altgrad.tensors<bf16>
    ```
  }];
  let arguments = (ins Altgrad_TensorsType:$tensors);
  let results = (outs Altgrad_RealsType:$values);
  let assemblyFormat = "$tensors attr-dict `:` qualified(type($tensors))";
}

def Altgrad_UnscaleOp : Altgrad_NamedResultsOp<"unscale", [Pure]> {
  let summary = "divide gradients by the loss scale, and say whether all are finite";
  let description = [{
    `values = gradients * factor`, where `factor` is the inverse of the loss
    scale. `finite` is true if no stored gradient is an infinity or a NaN; stored
    gradients are tested, not products. Source: GradScaler.unscale_, torch/amp.

    ```mlir
    %g, %finite = unscale %grads by %inv_scale : !altgrad.tensors<bf16>
    ```
  }];
  let arguments = (ins Altgrad_TensorsType:$tensors, F32:$factor);
  let results = (outs Altgrad_RealsType:$values, I1:$finite);
  let assemblyFormat = "$tensors `by` $factor attr-dict `:` qualified(type($tensors))";
}

def Altgrad_UpdateLossScaleOp : Altgrad_NamedResultsOp<"update_loss_scale", [Pure]> {
  let summary = "compute the loss scale of the next step";
  let description = [{
    If `found` is true (a gradient was not finite), the tracker becomes 0. When this has
    happened `hysteresis` times since the scale last grew, the scale is multiplied by
    `backoff`, but does not go below the lower limit. Otherwise the tracker counts the
    step. At `interval` the scale is multiplied by `growth`, but does not go above the upper
    limit, and the tracker becomes 0. Products are computed in f64 and rounded to f32.

    `torch` grows if the tracker is equal to the interval, and never to an infinity.
    `boostr` grows if the tracker is at least the interval, to whatever the product is. Sources:
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

def Altgrad_UpdateOp : Altgrad_NamedResultsOp<"update", [Pure, AttrSizedOperandSegments, InferTypeOpAdaptor,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "apply a rule to every element";
  let description = [{
    The results are the new parameter and the new states, in the order of the
    rule: those of elements first, and then the scalars, which are `per_unit`, `per_tensor` or of the step. Options
    of the rule are switched on in braces; states that these options leave unchanged are not operands. If the module has no rule of this name,
    a stock rule is taken, or `<name>.mlir` from the rule path.

    With `value` the parameter is a coordinate of the number in `value`, for example its
    rung on a format's grid. The first result is then the change of the coordinate. If
    the rule ends in an addition to the parameter or a subtraction from it, the change is
    the other operand, before the sum is rounded; if not, it is the difference of new and old.

    ```mlir
    %w1, %m1, %v1 = update @adamw param(%w) grad(%g) state(%m, %v)
        hyper(%lr, %b1, %b2, %eps, %decay) step(%t)
    %x1 = update @sgd {maximize} param(%x) grad(%y) state() hyper(%lr)
    %dx = update @sgd param(%x) grad(%y) state() hyper(%lr) value(%x)
    %z1 = update @langevin param(%z) grad(%y) state() hyper(%lr) random(%seed, %draws)
    ```

    Constraints:

    - (update_c1) the symbol is a rule;
    - (update_c2) the rule has the options;
    - (update_c3) there is one operand for each state that the rule stores;
    - (update_c4) there is one operand for each hyper-parameter;
    - (update_c5) there is a step count exactly if the rule has one;
    - (update_c6) a scalar state has the type that the rule gives it;
    - (update_c7) there is one operand for each input of the rule;
    - (update_c8) there are a seed and a count of draws if the rule has random numbers with these options.
  }];
  let arguments = (ins FlatSymbolRefAttr:$rule, StrArrayAttr:$options,
                       Altgrad_RealsType:$param, Altgrad_RealsType:$grad,
                       Variadic<Altgrad_RealsType>:$states,
                       Variadic<AnyTypeOf<[F32, F64, I64]>>:$scalar_states,
                       Variadic<F64>:$hypers, Optional<I64>:$step,
                       Optional<Altgrad_RealsType>:$value, Variadic<Altgrad_RealsType>:$inputs,
                       Optional<I64>:$seed, Optional<I64>:$draws);
  let results = (outs Altgrad_RealsType:$new_param,
                      Variadic<AnyTypeOf<[Altgrad_RealsType, F32, F64, I64]>>:$new_states);
  let assemblyFormat = [{
    $rule `` custom<Options>($options) `param` `(` $param `)` `grad` `(` $grad `)`
    `state` `(` $states `)` (`scalar` `(` custom<Scalars>($scalar_states, type($scalar_states))^ `)`)? `hyper` `(` $hypers `)` (`step` `(` $step^ `)`)?
    (`value` `(` $value^ `)`)? (`input` `(` $inputs^ `)`)?
    (`random` `(` $seed^ `,` $draws `)`)? attr-dict
  }];
}

def Altgrad_QuantizeOp : Altgrad_Op<"quantize", [Pure]> {
  let summary = "round values to a storage format";
  let description = [{
    Values are rounded once, directly from f32. A NaN becomes the canonical NaN of the
    format. A number that is too large, or an infinity, becomes the largest finite
    number with `saturate`. With `nonfinite` it becomes an infinity, or NaN where the format has no
    infinity. `runtime/include/altgrad/format.h` decides the corner cases.

    `stochastic` adds the `draw` to the first 16 bits that the code has no room for, and
    rounds away from zero where the sum is 65536 or more. So a number at the fraction f
    between two codes becomes the larger one for 65536 f of 65536 draws, where bits after the
    first 16 are cut off. A draw of 32 bits uses the first 32 bits and 2^32. `stochastic`
    and `toward_zero` never make a finite number infinite: beyond the largest number it
    becomes the largest.

    `companding` says how the step has bent the values before; it changes no code.

    ```mlir
    %half = quantize %w1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
    %r = draw seed(%seed) step(%t) store(0) : i16
    %fair = quantize %w1 round<stochastic> draw(%r) overflow<nonfinite> : !altgrad.tensors<bf16>
    ```

    Constraints:

    - (quantize_c1) `nonfinite` needs a format with an infinity or a NaN;
    - (quantize_c2) there is a draw exactly if the rounding is stochastic;
    - (quantize_c3) to f32 the rounding is nearest_even, as nothing is rounded;
    - (quantize_c4) to a code book the rounding is nearest_even.
  }];
  let arguments = (ins Altgrad_RealsType:$values,
                       Altgrad_RoundingAttr:$rounding, Optional<AnyTypeOf<[I16, I32]>>:$draw,
                       Altgrad_OverflowAttr:$overflow, OptionalAttr<Altgrad_CompandingAttr>:$companding);
  let results = (outs Altgrad_TensorsType:$tensors);
  let assemblyFormat = [{
    $values `round` `` $rounding custom<Draw>($draw, type($draw))
    `overflow` `` $overflow (`companding` `` $companding^)? attr-dict `:` qualified(type($tensors))
  }];
  let hasVerifier = 1;
}

def Altgrad_RecodeOp : Altgrad_Op<"recode", [Pure]> {
  let summary = "read codes as codes of another format";
  let description = [{
    No bit changes. A code that is read as an integer of its width, in sign and magnitude,
    is a rung: the place of its number among all numbers of the format in ascending order,
    where 0 has place 0.

    ```mlir
    %places = recode %w : !altgrad.tensors<ocp.e4m3fn> to
        !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
    %rungs = dequantize %places : !altgrad.tensors<
        #altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
    ```

    Constraints:

    - (recode_c1) both formats have the same number of bits, at most 8.
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
    The `always` list is written on every run. The `if` list is written if its
    condition is true; if not, none of its bytes changes. A value goes to an `out` or
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
    - (commit_c5) a list of tensors that is written is not itself an argument;
    - (commit_c6) the value has the target's type, or is `!altgrad.reals` for a target in f32.
  }];
  let arguments = (ins Optional<I1>:$condition,
                       Variadic<AnyType>:$always_values, Variadic<AnyType>:$always_targets,
                       Variadic<AnyType>:$values, Variadic<AnyType>:$targets);
  let assemblyFormat = [{
    (`always` `` custom<Writes>($always_values, type($always_values), $always_targets, type($always_targets))^)?
    (`if` $condition^ `` custom<Writes>($values, type($values), $targets, type($targets)))? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The condition is null where the value is written on every run.
    struct Write {
      ::mlir::Value value, target, condition;
    };
    /// Of both lists, in order.
    ::llvm::SmallVector<Write> writes();
  }];
}

#endif // ALTGRAD_STEPOPS_TD

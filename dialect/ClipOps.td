//===-- Norms of gradients, and what follows from them -----------------------===//

#ifndef ALTGRAD_CLIPOPS_TD
#define ALTGRAD_CLIPOPS_TD

include "dialect/StepOps.td"

def Altgrad_ClipOp : Altgrad_Op<"clip_by_global_norm", [Pure]> {
  let summary = "scale lists of gradients down to a global norm";
  let description = [{
    `norm` is the Euclidean norm of all lists together, before clipping; every
    list is multiplied by its `clip_coefficient`. A NaN norm makes every result
    NaN. Source: torch.nn.utils.clip_grad_norm_.

    ```mlir
    %c, %norm = clip_by_global_norm %g to %max_norm
    %a1, %b1, %both = clip_by_global_norm %a, %b to %max_norm
    ```

    Constraints:

    - (clip_c1) there is at least one list;
    - (clip_c2) there is one clipped list for each.
  }];
  let arguments = (ins Variadic<Altgrad_RealsType>:$values, F32:$max_norm);
  let results = (outs Variadic<Altgrad_RealsType>:$clipped, F32:$norm);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Altgrad_NormOp : Altgrad_Op<"norm", [Pure]> {
  let summary = "the norm of lists of values";
  let description = [{
    `l1` is the sum of magnitudes, `l2` the root of the sum of squares, `linf` the
    largest magnitude; 0 of no element at all, NaN where one is. `over step` is of all
    lists together, their shares joined in order, `over tensor` of each tensor of one list,
    `over unit` of each of its units, equal runs of neighbours.

    ```mlir
    %n = norm l1 %g, %w over step
    %each = norm linf %g over tensor
    ```

    Constraints:

    - (norm_c1) there is at least one list;
    - (norm_c2) the scope is a unit, a tensor or the step, not a group;
    - (norm_c3) over a unit or a tensor there is one list.
  }];
  let arguments = (ins Altgrad_NormKindAttr:$kind, Variadic<Altgrad_RealsType>:$values,
                       Altgrad_ScopeAttr:$scope);
  let results = (outs F32:$norm);
  let assemblyFormat = "`` $kind $values `over` `` $scope attr-dict";
  let hasVerifier = 1;
}

def Altgrad_ScaleOp : Altgrad_Op<"scale", [Pure]> {
  let summary = "a list of values times a common factor";
  let description = [{
    Joins the factor that is still to be multiplied in, as `clip_by_global_norm`
    does: an element is multiplied once. The factor may differ between tensors.

    ```mlir
    %half = scale %g by %k
    ```

    Constraints:

    - (scale_c1) the factor is the same for all elements of a tensor.
  }];
  let arguments = (ins Altgrad_RealsType:$values, F32:$factor);
  let results = (outs Altgrad_RealsType:$scaled);
  let assemblyFormat = "$values `by` $factor attr-dict";
}

def Altgrad_CoefficientOp : Altgrad_Op<"clip_coefficient", [Pure]> {
  let summary = "what brings a norm down to a bound";
  let description = [{
    `min(max_norm / (norm + 1e-6), 1)`, in f32. `as_torch` computes as
    clip_grad_norm_ does in a format: the reciprocal of the sum, times the bound,
    each result rounded to the format.

    ```mlir
    %k = clip_coefficient %norm to %max_norm
    %k = clip_coefficient %norm to %max_norm as_torch format<bf16>
    ```
  }];
  let arguments = (ins F32:$norm, F32:$max_norm, OptionalAttr<Altgrad_FormatAttr>:$torch);
  let results = (outs F32:$coefficient);
  let assemblyFormat = "$norm `to` $max_norm (`as_torch` `format` `` $torch^)? attr-dict";
}

def Altgrad_RoundOp : Altgrad_Op<"round", [Pure]> {
  let summary = "a scalar as a format would hold it";
  let description = [{
    To nearest even; what is too large becomes an infinity. Elements are rounded by
    `quantize` and `dequantize`.

    ```mlir
    %short = round %norm format<bf16>
    ```

    Constraints:

    - (round_c1) the scalar is the same for all elements of a tensor;
    - (round_c2) the format has an infinity.
  }];
  let arguments = (ins F32:$number, Altgrad_FormatAttr:$format);
  let results = (outs F32:$rounded);
  let assemblyFormat = "$number `format` `` $format attr-dict";
  let hasVerifier = 1;
}

def Altgrad_AcrossOp : Altgrad_Op<"across", [Pure]> {
  let summary = "the sum of a number of each tensor";
  let description = [{
    Over the tensors of a set, in their order, in f32. Sums of elements are
    `reduce`'s; this is for what is made of each tensor's sum before they meet.

    ```mlir
    %total = across %square
    ```

    Constraints:

    - (across_c1) the number differs between tensors, and not within one;
    - (across_c2) it is no argument of the step.
  }];
  let arguments = (ins F32:$number);
  let results = (outs F32:$sum);
  let assemblyFormat = "$number attr-dict";
}

def Altgrad_PercentileOp : Altgrad_Op<"percentile", [Pure]> {
  let summary = "the number of a history below which a share of it lies";
  let description = [{
    Of the last 100 numbers, `newest` among them in place of the oldest: in ascending
    order of the n that there are, the one with index `floor(percent * n / 100)`, the
    last for a percent of 100. What is negative, infinite or NaN is none of them; of
    none at all the result is 0. A history keeps what is committed to it, which is
    `newest` unless a step is skipped. Source: percentile_clipping of bitsandbytes,
    whose history begins with 100 zeros, so that its first steps do nothing.

    ```mlir
    %bound = percentile %norms with %norm at %percent
    ```

    Constraints:

    - (percentile_c1) the history is an argument of that role;
    - (percentile_c2) the newest number is the same for all elements of a tensor.
  }];
  let arguments = (ins F32:$history, F32:$newest, F32:$percent);
  let results = (outs F32:$number);
  let assemblyFormat = "$history `with` $newest `at` $percent attr-dict";
  let hasVerifier = 1;
}

#endif // ALTGRAD_CLIPOPS_TD

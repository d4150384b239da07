//===-- Norms of gradients, and what follows from them -----------------------===//

#ifndef ALTGRAD_CLIPOPS_TD
#define ALTGRAD_CLIPOPS_TD

include "dialect/StepOps.td"

def Altgrad_ClipOp : Altgrad_NamedResultsOp<"clip_by_global_norm", [Pure, InferTypeOpAdaptor]> {
  let summary = "scale lists of gradients down to a global norm";
  let description = [{
    `norm` is the Euclidean norm of all lists together, before clipping. Every list is
    multiplied by the norm's `clip_coefficient`. A norm that is NaN makes every result
    NaN. Source: torch.nn.utils.clip_grad_norm_.

    ```mlir
    %c, %norm = clip_by_global_norm %g to %max_norm
    %a1, %b1, %both = clip_by_global_norm %a, %b to %max_norm
    ```

    Constraints:

    - (clip_c1) there is at least one list.
  }];
  let arguments = (ins Variadic<Altgrad_RealsType>:$values, F32:$max_norm);
  let results = (outs Variadic<Altgrad_RealsType>:$clipped, F32:$norm);
  let assemblyFormat = "$values `to` $max_norm attr-dict";
  let hasVerifier = 1;
}

def Altgrad_NormOp : Altgrad_Op<"norm", [Pure]> {
  let summary = "the norm of lists of values";
  let description = [{
    `l1` is the sum of magnitudes, `l2` the root of the sum of squares, and `linf` the
    largest magnitude. The norm of no elements is 0; the norm is NaN if any element is NaN.
    `over step` gives the norm of all lists together, whose shares are combined in order. `over tensor` gives
    the norm of each tensor of one list. `over unit` gives the norm of each unit of
    its tensors; the units of a tensor are equal runs of neighbours.

    ```mlir
    %n = norm l1 %g, %w over step
    %each = norm linf %g over tensor
    ```

    Constraints:

    - (norm_c1) there is at least one list;
    - (norm_c2) the scope is a unit, a tensor or the step; it is not a group;
    - (norm_c3) over a unit or a tensor there is one list.
  }];
  let arguments = (ins Altgrad_NormKindAttr:$kind, Variadic<Altgrad_RealsType>:$values,
                       Altgrad_ScopeAttr:$scope);
  let results = (outs F32:$norm);
  let assemblyFormat = "`` $kind $values `over` `` $scope attr-dict";
  let hasVerifier = 1;
}

def Altgrad_ScaleOp : Altgrad_Op<"scale", [Pure]> {
  let summary = "multiply a list of values by a common factor";
  let description = [{
    The factor joins the list's pending factor (see `!altgrad.reals`), so an element is
    multiplied once. The factor may differ between tensors.

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
  let summary = "the factor that brings a norm down to a bound";
  let description = [{
    The factor is `min(max_norm / (norm + 1e-6), 1)`, in f32. With `as_torch` it is computed as
    torch's clip_grad_norm_ computes it in a format: the reciprocal of the sum, times the
    bound, where each result is rounded to the format.

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
  let summary = "round a scalar to the numbers of a format";
  let description = [{
    The scalar is rounded to nearest even; if it is too large it becomes an infinity. To round
    elements, use `quantize` and `dequantize`.

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
  let summary = "the sum or the largest of a scalar over the tensors of a set, or over the units of a tensor";
  let description = [{
    The scalars of the tensors are added in the order of the tensors, in f32. `reduce` adds elements;
    this operation adds numbers that are computed from each tensor's sum. With `units`, the numbers of the units of a
    tensor are added, in the shape of the chunks of a tensor, and the sum is one for each tensor. With `max` the
    result is the largest number, NaN if one is. `set` says whose tensors these are where the number says nothing of that, as
    an extent.

    ```mlir
    %total = across %square
    %most = across max units %length
    ```

    Constraints:

    - (across_c1) the number differs between tensors, and not within a tensor; with `units`, it differs between units.
  }];
  let arguments = (ins F32:$number, UnitAttr:$units, UnitAttr:$most, OptionalAttr<I64Attr>:$set);
  let results = (outs F32:$sum);
  let builders = [OpBuilder<(ins "::mlir::Type":$sum, "::mlir::Value":$number), [{
    build($_builder, $_state, sum, number, /*units=*/false, /*most=*/false, /*set=*/::mlir::IntegerAttr());
  }]>];
  let assemblyFormat = "(`max` $most^)? (`units` $units^)? $number (`set` $set^)? attr-dict";
  let extraClassDeclaration = [{
    Reduction getKind() { return getMost() ? Reduction::Max : Reduction::Add; }
  }];
}

def Altgrad_AllReduceOp : Altgrad_Op<"all_reduce", [Pure, SameOperandsAndResultType]> {
  let summary = "a sum over the step of a set, which the shares of other sets, devices and ranks join";
  let description = [{
    Stands behind a reduction over the step or an `across`, in programs with an exchange. The name says which sum it
    is: shares of one name are combined by the reduction, whichever set, device or rank they come from. Of an `add`
    the result of one of the sets is the total, and that of the others is 0, so the results of all sets are added.

    ```mlir
    %share = reduce add %g over step : f32
    %sum = all_reduce %share as "prodigy.0" : f32
    ```

    Constraints:

    - (all_reduce_c1) the share is what `reduce` over the step, `across` or a sweep gives.
  }];
  let arguments = (ins AnyTypeOf<[F32, I1]>:$share, StrAttr:$sum);
  let results = (outs AnyTypeOf<[F32, I1]>:$total);
  let assemblyFormat = "$share `as` $sum attr-dict `:` type($total)";
}

def Altgrad_PercentileOp : Altgrad_Op<"percentile", [Pure,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getReads"]>]> {
  let summary = "a percentile of the last 100 numbers";
  let description = [{
    `newest` takes the place of the oldest of the 100 numbers in `history`. Negative, infinite and
    NaN numbers are left out. The n remaining ones are put in ascending order, and the
    result is the one with index `floor(percent * n / 100)`; for a percent of 100 it is
    the last, and for n = 0 it is 0. The history itself changes only by `commit`,
    which writes `newest` to it unless the step is skipped. Source: percentile_clipping of
    bitsandbytes, whose history begins with 100 zeros, so that its first steps do nothing.

    ```mlir
    %bound = percentile %norms with %norm at %percent
    ```

    Constraints:

    - (percentile_c1) the history is an argument of that role;
    - (percentile_c2) the newest number does not differ between the elements of a tensor.
  }];
  let arguments = (ins F32:$history, F32:$newest, F32:$percent);
  let results = (outs F32:$number);
  let assemblyFormat = "$history `with` $newest `at` $percent attr-dict";
  let hasVerifier = 1;
}

#endif // ALTGRAD_CLIPOPS_TD

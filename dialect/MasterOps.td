//===-- A master in two lists: the parameter and a remainder ------------------===//

#ifndef ALTGRAD_MASTEROPS_TD
#define ALTGRAD_MASTEROPS_TD

include "dialect/ClipOps.td"

def Altgrad_JoinOp : Altgrad_Op<"join", [Pure]> {
  let summary = "the f32 values whose parts are in two lists";
  let description = [{
    This is the inverse of `split`. `upper` holds bf16 numbers and `lower` what they have no
    room for.

    With `lower` in int16, the bits of an f32 are those of `upper`, then those of `lower`;
    where `lower` is negative, the upper half is reduced by one. If this gives a NaN, the value is
    `upper` alone. `split` itself gives such a pair for a NaN only, so this concerns a
    parameter that was overwritten: one that was set to 0 is 0, whatever its
    remainder was.

    With `lower` in int8, the value is `upper` plus `lower` 127ths of half the distance
    between neighbouring bf16 numbers there. If `upper` is not finite, it is the value.

    ```mlir
    %w = join %param, %rest : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
    ```

    Its lists obey split_c1.
  }];
  let arguments = (ins Altgrad_TensorsType:$upper, Altgrad_TensorsType:$lower);
  let results = (outs Altgrad_RealsType:$values);
  let assemblyFormat = [{
    $upper `,` $lower attr-dict `:` qualified(type($upper)) `,` qualified(type($lower))
  }];
  let hasVerifier = 1;
}

def Altgrad_SplitOp : Altgrad_NamedResultsOp<"split", [Pure]> {
  let summary = "split f32 values into a bf16 and what it has no room for";
  let description = [{
    With `lower` in int16, the lower half of an f32's bits is `lower`, in two's complement. The
    upper half is `upper`, plus one where `lower` is negative. So `upper` is the f32
    rounded to nearest, with ties away from zero; magnitudes from 0x7f7f8000 on become an infinity.
    A NaN gives 0x7fc0 and 0. Source: apex's DistributedFusedAdam and TransformerEngine's
    FusedAdam (store_param_remainders); the bits are theirs, except for NaN.

    With `lower` in int8, `upper` is the f32 rounded to nearest even, and `lower` is the
    rest in 127ths of half the distance between neighbouring bf16 numbers, rounded to
    nearest with ties away from zero. This form is not exact. Source: FlashOptim.

    ```mlir
    %c, %r = split %w1 : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
    ```

    Constraints:

    - (split_c1) `upper` is in bf16, and `lower` is in int16, or in int8, which holds what
      rounding takes in 127ths of half a place.
  }];
  let arguments = (ins Altgrad_RealsType:$values);
  let results = (outs Altgrad_TensorsType:$upper, Altgrad_TensorsType:$lower);
  let assemblyFormat = [{
    $values attr-dict `:` qualified(type($upper)) `,` qualified(type($lower))
  }];
  let hasVerifier = 1;
}

class Altgrad_PartOp<string mnemonic> : Altgrad_Op<mnemonic, [Pure, Elementwise]> {
  let arguments = (ins AnyType:$number);
  let results = (outs AnyType:$code);
  let assemblyFormat = "$number attr-dict `:` type($number) `to` type($code)";
  let hasVerifier = 1;
}

def Altgrad_UpperCodeOp : Altgrad_PartOp<"upper_code"> {
  let summary = "the upper part of a number, as in `split`";
  let description = [{
    The number is one element or a vector of them.

    ```mlir
    %c = altgrad.upper_code %x : f32 to i16
    ```

    Constraints, besides conversion_c1 of `decode`:

    - (part_c1) the number is f32; the upper part is an i16, the lower part an i16 or i8, and all
      have the same length.
  }];
}

def Altgrad_LowerCodeOp : Altgrad_PartOp<"lower_code"> {
  let summary = "the lower part of a number, as in `split`";
  let description = [{
    ```mlir
    %r = altgrad.lower_code %x : f32 to i16
    ```
  }];
}

def Altgrad_JoinCodesOp : Altgrad_Op<"join_codes", [Pure, Elementwise]> {
  let summary = "the number whose parts are two codes, as in `join`";
  let description = [{
    ```mlir
    %x = altgrad.join_codes %c, %r : i16, i16 to f32
    ```
  }];
  let arguments = (ins AnyType:$upper, AnyType:$lower);
  let results = (outs AnyType:$number);
  let assemblyFormat = [{
    $upper `,` $lower attr-dict `:` type($upper) `,` type($lower) `to` type($number)
  }];
  let hasVerifier = 1;
}

#endif // ALTGRAD_MASTEROPS_TD

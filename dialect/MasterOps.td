//===-- A master in two lists: the parameter and what it has no room for ------===//

#ifndef ALTGRAD_MASTEROPS_TD
#define ALTGRAD_MASTEROPS_TD

include "dialect/ClipOps.td"

def Altgrad_JoinOp : Altgrad_Op<"join", [Pure]> {
  let summary = "the values of which two lists hold a part each";
  let description = [{
    `upper` are bf16 numbers, `lower` the 16 bits that these have no room for, as
    `split` leaves them: an f32's bits are those of both, less one in the upper
    half where the lower one is negative. Where this is a NaN the value is
    `upper` alone: what `split` gives is none but for a NaN, and a parameter that
    somebody has set to 0 stays one, whatever its remainder was.

    ```mlir
    %w = join %param, %rest : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
    ```

    Of its lists holds what split_c1 says.
  }];
  let arguments = (ins Altgrad_TensorsType:$upper, Altgrad_TensorsType:$lower);
  let results = (outs Altgrad_RealsType:$values);
  let assemblyFormat = [{
    $upper `,` $lower attr-dict `:` qualified(type($upper)) `,` qualified(type($lower))
  }];
  let hasVerifier = 1;
}

def Altgrad_SplitOp : Altgrad_Op<"split", [Pure]> {
  let summary = "values as a bf16 and the 16 bits that it has no room for";
  let description = [{
    The lower half of an f32's bits is `lower`, a two's complement; the upper half,
    one more where that is negative, is `upper`: the f32 rounded to nearest, ties
    away from zero, from 7f7f8000 on to an infinity. NaN is 7fc0 and 0. Source:
    apex's DistributedFusedAdam (store_param_remainders) and TransformerEngine's
    FusedAdam (store_param_remainders), whose bits these are but for NaN.

    ```mlir
    %c, %r = split %w1 : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
    ```

    Constraints:

    - (split_c1) the parts are of bf16 and int16.
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
  let summary = "the upper half of a number, as `split` has it";
  let description = [{
    For one element or a vector of them.

    ```mlir
    %c = altgrad.upper_code %x : f32 to i16
    ```

    Constraints, beside conversion_c1 of `decode`:

    - (part_c1) the number is f32, and so many i16 are its halves.
  }];
}

def Altgrad_LowerCodeOp : Altgrad_PartOp<"lower_code"> {
  let summary = "the lower half of a number, as `split` has it";
  let description = [{
    ```mlir
    %r = altgrad.lower_code %x : f32 to i16
    ```
  }];
}

def Altgrad_JoinCodesOp : Altgrad_Op<"join_codes", [Pure, Elementwise]> {
  let summary = "the number of which two codes are the halves, as `join` has it";
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

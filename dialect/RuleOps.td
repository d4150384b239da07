//===-- The rule: an update as mathematics -----------------------------------===//

#ifndef ALTGRAD_RULEOPS_TD
#define ALTGRAD_RULEOPS_TD

include "dialect/Types.td"
include "dialect/PhaseWork.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Altgrad_RuleOp : Altgrad_SignatureOp<"rule", []> {
  let summary = "the update of one parameter tensor, written for one element";
  let description = [{
    The signature gives each value a role:

    | role | type | what it is |
    |---|---|---|
    | `param` | f32 | the element of the parameter; exactly one |
    | `grad` | f32 | the element of its gradient; exactly one |
    | `state` | f32 | the element of a tensor that the optimizer keeps from step to step |
    | `state … per unit` | f32 | a number that the optimizer keeps for each unit of a tensor, a row of a matrix; its first value may follow |
    | `state … per tensor` | f32, f64 or i64 | a number that the optimizer keeps for each tensor; its first value may follow |
    | `state … per step` | f32, f64 or i64 | a number that the optimizer keeps, one for all tensors; its first value may follow |
    | `input` | f32 | the element of a further tensor, which the caller gives for a step and which is only read |
    | `value` | f32 | the number that the parameter stands for: with `rungs=` in the storage line `param` is a rung and `value` its number; otherwise both are the parameter; at most one |
    | `hyper` | f64 | a hyper-parameter, given at run time for each group of tensors, or with `per step` once for all of them; a default may follow |
    | `step` | i64 | the number of this step, from 1; at most one |
    | `option` | i1 | a choice that is made when the rule is compiled; a default follows |

    The body computes one element. It does not mention storage formats. Every f32
    operation rounds to nearest even, and no two operations are fused; `math.fma` is
    written where it is wanted. A value that depends only on hyper-parameters, the
    step and the tensor is computed once per tensor. The integers of an element come from
    `altgrad.index`, for random bits, for example. In `math.copysign` the sign of a NaN
    counts as positive. A rule has no regions; a choice is a `select`. A state that
    is yielded unchanged under the chosen options is not stored, but read if it is needed and other options change it.
    A scalar state begins as its first value, which is 0
    where none is given, and everything else that is kept begins as 0.

    A rule is written for one tensor, but a reduction over the step is of all tensors that the rule is applied to, in
    every set of the step. So what is computed from such reductions, from states and hyper-parameters `per step` and
    from constants alone is one number for the step, and a state `per step` may become that.

    ```mlir
    altgrad.rule @sgd(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0e-3) {
      %rate = truncf %lr : f64 to f32
      %dw = mulf %rate, %g : f32
      %w1 = subf %w, %dw : f32
      altgrad.yield param(%w1) state()
    }
    ```

    Constraints:

    - (rule_c1) every argument has a role and a name; it may have a default;
    - (rule_c2) the role is one of the table above;
    - (rule_c3) the type is that of the role;
    - (rule_c4) only `hyper`, `option` and a state that is a scalar have a default;
    - (rule_c5) every `option` has a default;
    - (rule_c6) a default has the type of its argument, and that of a state is an f64;
    - (rule_c7) a default is finite;
    - (rule_c8) exactly one argument has the role `param`, and exactly one `grad`;
    - (rule_c9) at most one argument has the role `step`;
    - (rule_c10) the operand of a reduction differs within what it is over;
    - (rule_c11) a `per` stands behind a state or a hyper, as in the table above;
    - (rule_c12) `yield` gives one value for each state;
    - (rule_c13) at most one argument has the role `value`;
    - (rule_c14) the new value of a state per column, per unit, per tensor or per step is one for each of them;
    - (rule_c15) there are at most 128 reductions over blocks of neighbours, and 32 others;
    - (rule_c16) the first value of an i64 is a whole number;
    - (rule_c17) the new value of a state has its type;
    - (rule_c18) the new value of a square is an element of a square of its kind, and no other state has one.

    These hold for rules and steps:

    - (name_c1) the name consists of letters, digits and underscores, and does not begin with a digit;
    - (name_c2) so do the names of the arguments;
    - (name_c3) there are at most 4096 arguments;
    - (body_c1) the body has at most 4096 operations, and that of a step 128 more for each of its sets;
    - (body_c2) every operation is on the list of allowed operations (`altgrad-opt --list-ops`);
    - (body_c3) no operation has fast-math flags;
    - (body_c4) no operation has a rounding mode of its own;
    - (body_c5) operations compute with f32, f64, i64 and i1;
    - (body_c6) `math.fpowi` gives f64, and functions other than `math.exp` and `math.log` give f32;
    - (body_c7) the exponent of `math.fpowi` is i64;
    - (body_c8) elements are f32, i64 or i1;
    - (body_c9) a shift is by a constant of 0 to 63;
    - (body_c10) integers wrap around; no operation has an `nsw`, `nuw` or `exact` flag;
    - (body_c11) no f32 that differs between elements becomes an integer;
    - (body_c12) there are at most 512 functions such as `math.fpowi`; of an f32 `math.exp` counts as 3 and `math.powf` as 7.
  }];
  let assemblyFormat = "$sym_name `` custom<RuleSignature>($signature, $body) attr-dict";
  let extraClassDeclaration = ofArguments # [{
    /// Inside a rule `arith` needs no prefix.
    static ::llvm::StringRef getDefaultDialect() { return "arith"; }
    /// The arguments of a role, in order.
    ::llvm::SmallVector<::mlir::BlockArgument> getByRole(Role role);
    Scope getScope(::mlir::BlockArgument argument) { return of(argument).getScope(); }
    /// Whether a state is a number of a unit, a tensor or the step, and not one of an element.
    bool isScalarState(::mlir::BlockArgument argument) {
      return getRole(argument) == Role::state && getScope(argument) < Scope::Block;
    }
    YieldOp getYield();
    /// The i1 values that options and constants decide, when the options named
    /// are true and the others have their defaults.
    ::llvm::DenseMap<::mlir::Value, bool> decide(
        ::llvm::ArrayRef<::llvm::StringRef> options);
    /// Whether what it yields has random numbers when the options named are true and the others have their defaults.
    bool draws(::llvm::ArrayRef<::llvm::StringRef> options);
    /// Whether a state gets another value with these options. A square that does not is stored where it is read.
    bool changes(::mlir::BlockArgument state, ::llvm::ArrayRef<::llvm::StringRef> options);
    /// The states that are stored when the options named are true and the others
    /// have their defaults: those not yielded unchanged.
    ::llvm::SmallVector<::mlir::BlockArgument> getStoredStates(
        ::llvm::ArrayRef<::llvm::StringRef> options);
  }];
}

def Altgrad_YieldOp : Altgrad_Op<"yield", [Pure, Terminator,
    HasParent<"::altgrad::RuleOp">]> {
  let summary = "the new element of the parameter and of each state";
  let description = [{
    States stand in the order of the signature; a type follows where it is not f32, as in `%d1: f64`.

    ```mlir
    altgrad.yield param(%w1) state(%m1, %v1)
    ```
  }];
  let arguments = (ins F32:$param, Variadic<AnyTypeOf<[F32, F64, I64]>>:$states);
  let assemblyFormat = "`param` `(` $param `)` (`state` `(` custom<Scalars>($states, type($states))^ `)`)? attr-dict";
}

def Altgrad_Reduced : AnyTypeOf<[F32, I1, VectorOfRankAndType<[1], [F32]>], "f32 or i1">;

def Altgrad_ReduceOp : Altgrad_Op<"reduce", [Pure, InferTypeOpAdaptor,
    PredOpTrait<"'and' and 'count' combine i1, the other reductions f32",
      CPred<"::altgrad::isBoolean($reduction) == $value.getType().isInteger(1)">>]> {
  let summary = "combine the elements of each block, tensor or of all tensors, in a fixed order";
  let description = [{
    `add` is the sum and `sumsq` the sum of squares. `max` is the largest value and `absmax` the
    largest magnitude; both are NaN if any value is NaN. `and` is true if all values are true. `count`
    is how many of them are, as an f32: it is exact up to 2^24.

    `over tensor` gives one value for each tensor and `over step` one for all tensors.
    `over unit` gives one value for each unit of a tensor: a unit is a run of neighbours,
    and chunks are then counted from its first element. `over block<1x32>` gives each element the
    value of its block (`#altgrad.block`): 32 neighbours, or 32 elements of a column with
    `block<32x1>`, or 16, 32 or 128 rows and as many columns, as with `block<16x16>`.

    The order of a sum is fixed, so every device and launch geometry gives the same
    bits. A chunk has 4096 elements and 256 lanes; element i belongs to lane i mod 256.
    Each lane adds its elements in order, with `fma` for `sumsq`. Then lanes are added
    as a tree: 128 pairs, 64 pairs, … 1. The chunks of a tensor are added in the same
    shape, and tensors are added in order.

    So is that of a block. The squares or values of a run are added in pairs: element 0 and 1,
    2 and 3, and so on, then these sums in the same way; elements behind the tensor's end count as 0.
    A column of a block is two lanes, the upper half of its rows and the lower half, which add their
    elements in order and then are added, as 128 x 2 lanes of a square are, as the tree above; one of 16 rows is one lane.

    `over column` gives each column of a matrix one value, and `over row` is another word for `over unit`
    where the rows are the units. A tensor counts as one matrix with the rows of all its matrices. The elements of a
    column are added in order, 32 rows at a time, and then these sums in order.

    In a rule, what is one for each row, unit or column is reduced over columns, rows, the tensor or the step, and what
    is one for each tensor over the step: each of these numbers counts once. Those of rows are combined in the shape of
    the chunks of a tensor, those of columns as the elements of its first row, those of tensors in order; a square is
    rounded before it is added.

    ```mlir
    %n = altgrad.reduce sumsq %w over tensor : f32
    %m = altgrad.reduce absmax %w over block<1x32> : f32
    %s = altgrad.reduce sumsq %w over block<1x64> : f32
    ```

    Constraints:

    - (reduce_c1) the scope is a block, a unit, a tensor or the step; it is not a group;
    - (reduce_c2) a block is one of several elements that targets can cut, as in `!altgrad.tensors`;
    - (reduce_c3) in a step the reduction over a block is of numbers: `add`, `sumsq`, `max` or `absmax`;
    - (reduce_c4) only over blocks it is of vectors;
    - (reduce_c5) in a step the reduction over a column is of numbers.
  }];
  let arguments = (ins Altgrad_ReductionAttr:$reduction,
                       Altgrad_Reduced:$value, Altgrad_BlockAttr:$over);
  let hasCanonicalizeMethod = 1;
  let results = (outs Altgrad_Reduced:$result);
  let builders = [OpBuilder<(ins "::altgrad::Reduction":$reduction, "::mlir::Value":$value,
                                 "::altgrad::Scope":$scope), [{
    build($_builder, $_state, reduction, value, BlockAttr::get($_builder.getContext(), scope));
  }]>];
  let assemblyFormat = "`` $reduction $value `over` custom<Over>($over) attr-dict `:` type($value)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    Scope getScope() { return getOver().getScope(); }
    /// Whether each element gets the result in the same sweep.
    bool isOverBlock() { return getScope() == Scope::Block && !isOverColumn(); }
    /// Whether all elements of a column of a matrix get one result.
    bool isOverColumn() { return getOver().isColumn(); }
    /// The neighbours of a block that is a run.
    unsigned getRun() { return getOver().getColumns(); }
  }];
}

def Altgrad_IndexOp : Altgrad_Op<"index", [Pure]> {
  let summary = "the global index of this element";
  let description = [{
    The caller gives the index of the tensor's first element; the others count on from
    there. So each shard of a tensor sees the indices of the whole tensor. In the
    wide body of a sweep the result is a vector of neighbouring indices.

    ```mlir
    %i = altgrad.index : i64
    ```
  }];
  let results = (outs AnyTypeOf<[I64, VectorOfRankAndType<[1], [I64]>]>:$index);
  let assemblyFormat = "attr-dict `:` type($index)";
}

def Altgrad_TagOp : Altgrad_Op<"tag", [Pure,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getReads"]>]> {
  let summary = "the number that the caller gave this tensor";
  let description = [{
    There is one value for each tensor. It is part of the key of the tensor's random bits, and it
    stays the same when other tensors are added or removed.

    ```mlir
    %k = altgrad.tag : i64
    ```
  }];
  let results = (outs I64:$tag);
  let assemblyFormat = "attr-dict `:` type($tag)";
}

def Altgrad_HasFirstOp : Altgrad_Op<"has_first", [Pure,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getReads"]>]> {
  let summary = "whether the tensor's first element is here";
  let description = [{
    Of the slices of one tensor, one has it; an empty one has not. So a number that all slices know is counted once.

    ```mlir
    %here = altgrad.has_first : i1
    ```
  }];
  let results = (outs I1:$here);
  let assemblyFormat = "attr-dict `:` type($here)";
}

def Altgrad_DrawOp : Altgrad_Op<"draw", [Pure]> {
  let summary = "random bits for this element in this step";
  let description = [{
    The result is 16 or 32 bits of Philox4x32-10 (Salmon et al., 2011) with the key `seed`.
    The counter has four words of 32 bits. From the lowest on they are: the element's
    global index >> 3 (two words), `step`, and the tensor's tag in 24 bits below the
    8 bits of `store`. A counter gives eight draws of 16 bits; the element takes draw
    index & 7, and the low half of a word comes first. For 32 bits the index is shifted by
    2 and a counter gives four draws; the element takes word index & 3.

    So the bits depend on no thread, vector, chunk or rank. Two stores of an element
    need different numbers; otherwise both round in the same direction.

    ```mlir
    %r = altgrad.draw seed(%seed) step(%t) store(0) : i16
    %q = altgrad.draw seed(%seed) step(%t) store(1) : i32
    ```

    Constraints:

    - (draw_c1) the number of the store is 0 to 255;
    - (draw_c2) seed and step do not differ between the elements of a tensor.
  }];
  let arguments = (ins I64:$seed, I64:$step, I64Attr:$store);
  let results = (outs AnyTypeOf<[I16, I32, VectorOfRankAndType<[1], [I16, I32]>]>:$bits);
  let assemblyFormat = [{
    `seed` `(` $seed `)` `step` `(` $step `)` `store` `(` $store `)` attr-dict
    `:` type($bits)
  }];
  let hasVerifier = 1;
}

def Altgrad_UniformOp : Altgrad_Op<"uniform", [Pure]> {
  let summary = "a number from 0 to 1 of random bits";
  let description = [{
    The result is the upper 24 bits over 2^24: a multiple of 2^-24 that is at least 0 and less than 1. It is exact.

    ```mlir
    %u = altgrad.uniform %r : i32 to f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[I32, VectorOfRankAndType<[1], [I32]>]>:$bits);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$number);
  let assemblyFormat = "$bits attr-dict `:` type($bits) `to` type($number)";
}

def Altgrad_Distribution : Altgrad_Enum<"Distribution", "how random numbers are distributed", [
    I32EnumCase<"Uniform", 0, "uniform">,
    I32EnumCase<"Normal", 1, "normal">]>;
def Altgrad_DistributionAttr : EnumAttr<Altgrad_Dialect, Altgrad_Distribution, "distribution">;

def Altgrad_RandomOp : Altgrad_Op<"random", [Pure, HasParent<"::altgrad::RuleOp">]> {
  let summary = "a random number for this element in this step";
  let description = [{
    `uniform` is at least 0 and less than 1 (`uniform`). `normal` has mean 0 and variance 1. It is
    sqrt(-2 log(1 - u)) cos(2 pi v) of two uniform numbers u and v (Box and Muller, 1958), in f32, and each operation
    is rounded; its magnitude is at most 5.77.

    The bits are draws of 32 bits (`draw`) by the step's seed and its count of draws. The number of the store is
    192 + 2 n for u, or for the uniform number, and 193 + 2 n for v, where n is the key. So two keys give independent
    numbers, and numbers of one key are the same.

    ```mlir
    %z = altgrad.random normal key(1) : f32
    ```

    Constraints:

    - (random_c1) the key is 0 to 31.
  }];
  let arguments = (ins Altgrad_DistributionAttr:$distribution, I64Attr:$key);
  let results = (outs F32:$number);
  let assemblyFormat = "`` $distribution `key` `(` $key `)` attr-dict `:` type($number)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t maxKey = 31, firstStore = 192;
  }];
}

def Altgrad_BinadeOp : Altgrad_Op<"binade", [Pure, SameOperandsAndResultType]> {
  let summary = "the largest power of two that is at most a magnitude";
  let description = [{
    The result is 2^floor(log2 |x|). It is exact for subnormal numbers, too, because it is read
    from the number's exponent. The binade of 0 is 0, that of an infinity is
    infinity, and that of a NaN is NaN.

    ```mlir
    %b = altgrad.binade %w : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$number);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$binade);
  let assemblyFormat = "$number attr-dict `:` type($number)";
}

class Altgrad_ElementFunctionOp<string mnemonic> : Altgrad_Op<mnemonic, [Pure, SameOperandsAndResultType]> {
  let arguments = (ins AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$number);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$result);
  let assemblyFormat = "$number attr-dict `:` type($number)";
}

def Altgrad_SigmoidOp : Altgrad_ElementFunctionOp<"sigmoid"> {
  let summary = "the logistic function of an f32";
  let description = [{
    The result is 1 / (1 + e^-x), to within a unit in its last place. It may be subnormal. That of a NaN is NaN.

    ```mlir
    %s = altgrad.sigmoid %w : f32
    ```
  }];
}

def Altgrad_SoftplusOp : Altgrad_ElementFunctionOp<"softplus"> {
  let summary = "the integral of the logistic function of an f32";
  let description = [{
    The result is ln(1 + e^x), to within a unit in its last place. It is x itself where x is large, and e^x, which may
    be subnormal, where it is small. That of a NaN is NaN.

    ```mlir
    %s = altgrad.softplus %w : f32
    ```
  }];
}

def Altgrad_FunctionOp : Altgrad_Op<"function", [Pure, SameOperandsAndResultType]> {
  let summary = "a function of `math`, which the kernel computes also of constants";
  let description = [{
    MLIR evaluates operations of `math` on constants by the C library of the machine that compiles. After
    `altgrad-keep-functions` they are this operation, which MLIR does not evaluate: a constant's result has the bits that
    it has for any other number, on every target. Rules and steps are written with `math`.

    ```mlir
    %y = altgrad.function "math.exp"(%w) : (f32) -> f32
    ```

    Constraints:

    - (function_c1) the function is one of `math` that rules may hold;
    - (function_c2) `math.powf`, `math.atan2` and `math.copysign` have two operands, the others one.
  }];
  let arguments = (ins StrAttr:$function,
                       Variadic<AnyTypeOf<[F32, F64, VectorOfRankAndType<[1], [F32]>]>>:$numbers);
  let results = (outs AnyTypeOf<[F32, F64, VectorOfRankAndType<[1], [F32]>]>:$result);
  let assemblyFormat = "$function `(` $numbers `)` attr-dict `:` functional-type($numbers, $result)";
  let hasVerifier = 1;
}

def Altgrad_ScaledQuotientOp : Altgrad_Op<"scaled_quotient", [Pure, SameOperandsAndResultType]> {
  let summary = "a number over the scale of its block";
  let description = [{
    The quotient of `number` and `scale` is made of products by `inverse`, which is 1 / scale:
    q = number * inverse, and q + (number - q * scale) * inverse, each sum with its product
    rounded once. Where number and scale are finite that is the quotient rounded once
    (tests/numeric/quotients.cpp); of what is not finite it is NaN. The code of a book is that of q,
    too, wherever q is not next to the middle between two of its numbers.

    ```mlir
    %q = altgrad.scaled_quotient %w by %scale with %inverse : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$number,
                       AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$scale,
                       AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$inverse);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$quotient);
  let assemblyFormat = "$number `by` $scale `with` $inverse attr-dict `:` type($number)";
}

def Altgrad_LerpOp : Altgrad_Op<"lerp", [Pure, SameOperandsAndResultType]> {
  let summary = "a number between two others, from the nearer one as torch.lerp has it";
  let description = [{
    The result is start + weight * (end - start) where |weight| < 0.5, and
    end + (weight - 1) * (end - start) elsewhere; the product and the sum are rounded once, together. So it is
    `end` where the weight is 1. `altgrad-expand-gradients` replaces it by arithmetic; what the weight alone
    decides is computed once per tensor.

    ```mlir
    %m1 = altgrad.lerp %m to %g by %rest : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, F64]>:$start, AnyTypeOf<[F32, F64]>:$end, AnyTypeOf<[F32, F64]>:$weight);
  let results = (outs AnyTypeOf<[F32, F64]>:$between);
  let assemblyFormat = "$start `to` $end `by` $weight attr-dict `:` type($between)";
}

def Altgrad_DimOp : Altgrad_Op<"dim", [Pure,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getReads"]>]> {
  let summary = "an extent of this tensor";
  let description = [{
    A tensor is `batch` matrices of `rows` by `columns`, in row-major order; a slice has the
    extents of its whole. `unit` is how many elements a unit has, an index of the first dimension. A caller of the C ABI who gives no extents has one row with all elements. `altgrad.optim`
    gives the last two dimensions of a parameter, LibTorch those in the order of its memory.

    ```mlir
    %n = altgrad.dim columns : i64
    ```
  }];
  let arguments = (ins Altgrad_DimensionAttr:$dimension);
  let results = (outs I64:$extent);
  let assemblyFormat = "`` $dimension attr-dict `:` type($extent)";
}

#endif // ALTGRAD_RULEOPS_TD

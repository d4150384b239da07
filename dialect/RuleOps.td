//===-- The rule: an update as mathematics -----------------------------------===//

#ifndef ALTGRAD_RULEOPS_TD
#define ALTGRAD_RULEOPS_TD

include "dialect/Types.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Altgrad_RuleOp : Altgrad_Op<"rule", [Symbol, IsolatedFromAbove,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "the update of one parameter tensor, written for one element";
  let description = [{
    The signature gives each value a role:

    | role | type | what it is |
    |---|---|---|
    | `param` | f32 | the element of the parameter; exactly one |
    | `grad` | f32 | the element of its gradient; exactly one |
    | `state` | f32 | an element the optimizer keeps from step to step |
    | `value` | f32 | the number that the parameter stands for where `param` is a coordinate of it, its rung for one; elsewhere the parameter itself; at most one |
    | `hyper` | f64 | a hyper-parameter, data at run time; a default may follow |
    | `step` | i64 | the number of this step, from 1; at most one |
    | `option` | i1 | a choice made when the rule is compiled; a default follows |

    The body computes one element: no storage format is in sight, every f32
    operation is rounded to nearest even, and nothing is fused but `math.fma`.
    What depends on hyper-parameters, the step and the tensor alone is computed
    once per tensor. Integers are of an element's index (`altgrad.index`): random
    bits, for example. The sign of a NaN counts as positive in `math.copysign`. A rule has no
    regions; a choice is a `select`. A state that is yielded
    unchanged under the chosen options is not stored at all.

    ```mlir
    altgrad.rule @sgd(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0e-3) {
      %rate = truncf %lr : f64 to f32
      %dw = mulf %rate, %g : f32
      %w1 = subf %w, %dw : f32
      altgrad.yield param(%w1) state()
    }
    ```

    Constraints:

    - (rule_c1) every argument has a role, a name and a default or none;
    - (rule_c2) the role is one of the table;
    - (rule_c3) the type is that of the role;
    - (rule_c4) only `hyper` and `option` have a default;
    - (rule_c5) every `option` has one;
    - (rule_c6) a default has the type of its argument;
    - (rule_c7) a default is finite;
    - (rule_c8) exactly one argument has the role `param`, one `grad`;
    - (rule_c9) at most one has the role `step`;
    - (rule_c10) what is reduced differs from element to element;
    - (rule_c11) a reduction is over the tensor;
    - (rule_c12) `yield` gives one value for each state;
    - (rule_c13) at most one has the role `value`.

    For rules and steps alike:

    - (name_c1) the name is an identifier;
    - (name_c2) so are the names of the arguments;
    - (name_c3) there are at most 4096 of them;
    - (body_c1) the body has at most 4096 operations;
    - (body_c2) they are on the list of allowed ones;
    - (body_c3) none has fast-math flags;
    - (body_c4) none has a rounding mode of its own;
    - (body_c5) they compute with f32, f64, i64 and i1;
    - (body_c6) `fpowi`, `log` and `exp` give f64;
    - (body_c7) the exponent of `fpowi` is i64;
    - (body_c8) elements are computed in f32 or i64, or compared to i1;
    - (body_c9) a shift is by a constant of 0 to 63;
    - (body_c10) integers wrap around, and no operation promises that they do not;
    - (body_c11) no f32 of an element becomes an integer;
    - (body_c12) at most 512 of them are `fpowi`, `log`, `exp` and `copysign`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$roles,
                       StrArrayAttr:$names, ArrayAttr:$defaults);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Inside a rule `arith` needs no prefix.
    static ::llvm::StringRef getDefaultDialect() { return "arith"; }
    /// The arguments of a role ("state", ...), in order.
    ::llvm::SmallVector<::mlir::BlockArgument> getByRole(::llvm::StringRef role);
    ::llvm::StringRef getName(::mlir::BlockArgument argument);
    /// The default of a hyper-parameter or option, or null.
    ::mlir::Attribute getDefault(::mlir::BlockArgument argument);
    YieldOp getYield();
    /// The i1 values that options and constants decide, when the options named
    /// are true and the others have their defaults.
    ::llvm::DenseMap<::mlir::Value, bool> decide(
        ::llvm::ArrayRef<::llvm::StringRef> options);
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
    States stand in the order of the signature.

    ```mlir
    altgrad.yield param(%w1) state(%m1, %v1)
    ```
  }];
  let arguments = (ins F32:$param, Variadic<F32>:$states);
  let assemblyFormat = "`param` `(` $param `)` `state` `(` $states `)` attr-dict";
}

def Altgrad_ReduceOp : Altgrad_Op<"reduce", [Pure, SameOperandsAndResultType,
    PredOpTrait<"'and' combines i1, the other reductions f32",
      CPred<"($reduction == ::altgrad::Reduction::And) == "
            "$value.getType().isInteger(1)">>]> {
  let summary = "combine the elements of a tensor, or of all tensors, in a fixed order";
  let description = [{
    `add` is the sum, `sumsq` the sum of squares, `max` the largest (NaN if one
    is), `and` whether all hold. The order is fixed (chunk of 4096 elements,
    lane = element mod 256, each in order, with `fma` for `sumsq`, then the tree
    128, 64 … 1; chunks of a tensor in the same shape; tensors in order): the
    same bits on every device and launch geometry. `over tensor` gives one value
    for each tensor, `over step` one for all, `over unit` one for each unit of a
    tensor, a run of neighbours whose chunks then begin with it.

    ```mlir
    %n = altgrad.reduce sumsq %w over tensor : f32
    ```

    Constraints:

    - (reduce_c1) the scope is a unit, a tensor or the step, not a group.
  }];
  let arguments = (ins Altgrad_ReductionAttr:$reduction,
                       AnyTypeOf<[F32, I1]>:$value, Altgrad_ScopeAttr:$scope);
  let results = (outs AnyTypeOf<[F32, I1]>:$result);
  let assemblyFormat = "`` $reduction $value `over` `` $scope attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_IndexOp : Altgrad_Op<"index", [Pure]> {
  let summary = "the global index of this element";
  let description = [{
    The caller gives the index of a tensor's first element; the others follow. So
    the shards of a tensor see the indices of the whole. In the wide body of a
    sweep it is a vector of neighbours.

    ```mlir
    %i = altgrad.index : i64
    ```
  }];
  let results = (outs AnyTypeOf<[I64, VectorOfRankAndType<[1], [I64]>]>:$index);
  let assemblyFormat = "attr-dict `:` type($index)";
}

def Altgrad_TagOp : Altgrad_Op<"tag", [Pure]> {
  let summary = "the number that the caller gave this tensor";
  let description = [{
    One value for each tensor, the key of its random bits: it stays with the
    tensor when others come and go.

    ```mlir
    %k = altgrad.tag : i64
    ```
  }];
  let results = (outs I64:$tag);
  let assemblyFormat = "attr-dict `:` type($tag)";
}

def Altgrad_DrawOp : Altgrad_Op<"draw", [Pure]> {
  let summary = "random bits of this element in this step";
  let description = [{
    16 or 32 bits of Philox4x32-10 under the key `seed`. Its counter is, in words of 32
    bits from the lowest on: the element's global index >> 3 (two words), `step`,
    and the tensor's tag in 24 bits below the number of the `store`. Of the eight
    draws of a counter an element takes that of its index & 7, the low half of a word
    first. Of 32 bits there are four: the index is shifted by 2, and the word is that
    of index & 3. So they depend on nothing else: no thread, vector, chunk or rank. Each
    store of an element takes a number of its own, or both round alike.

    ```mlir
    %r = altgrad.draw seed(%seed) step(%t) store(0) : i16
    %q = altgrad.draw seed(%seed) step(%t) store(1) : i32
    ```

    Constraints:

    - (draw_c1) the number of the store is 0 to 255;
    - (draw_c2) seed and step are the same for all elements of a tensor.
  }];
  let arguments = (ins I64:$seed, I64:$step, I64Attr:$store);
  let results = (outs AnyTypeOf<[I16, I32, VectorOfRankAndType<[1], [I16, I32]>]>:$bits);
  let assemblyFormat = [{
    `seed` `(` $seed `)` `step` `(` $step `)` `store` `(` $store `)` attr-dict
    `:` type($bits)
  }];
  let hasVerifier = 1;
}

def Altgrad_BinadeOp : Altgrad_Op<"binade", [Pure, SameOperandsAndResultType]> {
  let summary = "the largest power of two that is no larger than a magnitude";
  let description = [{
    Of a number x it is 2^floor(log2 |x|), of subnormal ones, too: an exponent, not a
    logarithm that is rounded. 0 is that of 0, infinity that of an infinity, NaN that of a NaN.

    ```mlir
    %b = altgrad.binade %w : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$number);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$binade);
  let assemblyFormat = "$number attr-dict `:` type($number)";
}

def Altgrad_DimOp : Altgrad_Op<"dim", [Pure]> {
  let summary = "an extent of this tensor";
  let description = [{
    A tensor is `batch` matrices of `rows` by `columns`, in row-major order; unless
    the caller says more, one row that has all elements. `altgrad.optim` and LibTorch
    say the last two dimensions of a parameter, in the order of its memory.

    ```mlir
    %n = altgrad.dim columns : i64
    ```
  }];
  let arguments = (ins Altgrad_DimensionAttr:$dimension);
  let results = (outs I64:$extent);
  let assemblyFormat = "`` $dimension attr-dict `:` type($extent)";
}

def Altgrad_BlockReduceOp : Altgrad_Op<"block_reduce", [Pure, SameOperandsAndResultType]> {
  let summary = "combine the elements of a block; each of them sees the result";
  let description = [{
    Blocks are of neighbouring elements of a tensor: of 32 here, element i belongs
    to block i / 32. The last one of a tensor may be short. `max` is that of
    `reduce`: NaN if one is.

    ```mlir
    %m = altgrad.block_reduce max %w over 32 : f32
    ```

    Constraints:

    - (block_c1) a block is a power of two from 16 to 256;
    - (block_c2) the reduction is `max`;
    - (block_c3) what is reduced differs within a block.
  }];
  let arguments = (ins Altgrad_ReductionAttr:$reduction,
                       AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$value, I64Attr:$block);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$result);
  let assemblyFormat = "`` $reduction $value `over` $block attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_ColumnMaxOp : Altgrad_Op<"column_max", [Pure, SameOperandsAndResultType]> {
  let summary = "the largest magnitude of 32 elements of a column; each of them sees it";
  let description = [{
    A tensor is all rows of its matrices: of element (i, j) the block is (i / 32, j),
    and the last one of a column may be short. NaN if one is.

    ```mlir
    %m = altgrad.column_max %w over 32 : f32
    ```

    What is computed from it may read of its element only `%w`, so that a sweep goes
    over the elements once and then over a tile of them.

    Constraints:

    - (column_c1) a block has 32 elements;
    - (column_c2) what is reduced differs between elements.
  }];
  let arguments = (ins AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$value, I64Attr:$block);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$result);
  let assemblyFormat = "$value `over` $block attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Altgrad_SquareMaxOp : Altgrad_Op<"square_max", [Pure, SameOperandsAndResultType]> {
  let summary = "the largest magnitude of 128 x 128 elements; each of them sees it";
  let description = [{
    A tensor is all rows of its matrices: of element (i, j) the block is
    (i / 128, j / 128), and the last ones of both directions may be short. NaN if one
    is.

    ```mlir
    %m = altgrad.square_max %w over 128 : f32
    ```

    What is computed from it may read of its element only `%w`, as with `column_max`.

    Constraints:

    - (square_c1) a block has 128 rows and columns;
    - (square_c2) what is reduced differs between elements.
  }];
  let arguments = (ins AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$value, I64Attr:$block);
  let results = (outs AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>:$result);
  let assemblyFormat = "$value `over` $block attr-dict `:` type($value)";
  let hasVerifier = 1;
}

#endif // ALTGRAD_RULEOPS_TD

//===-- The sweep: one pass over memory --------------------------------------===//

#ifndef ALTGRAD_SWEEPOPS_TD
#define ALTGRAD_SWEEPOPS_TD

include "dialect/MasterOps.td"

// Between the step that a person writes and its sweeps, the body is written for one
// element. An f32 that depends on a `load` is the element. Any other scalar is the
// same for all elements: it is uniform.

def Altgrad_LoadOp : Altgrad_Op<"load", [Pure,
    TypesMatchWith<"the code is what the format of the stream gives", "tensors", "code",
      "::llvm::cast<::altgrad::TensorsType>($_self).getFormat().getCodeType()">]> {
  let summary = "the stored code of this element";
  let description = [{
    The code has the type that the format of the stream gives.

    ```mlir
    %c = altgrad.load %grads : !altgrad.tensors<bf16>
    ```
  }];
  let arguments = (ins Altgrad_TensorsType:$tensors);
  let results = (outs AnyType:$code);
  let assemblyFormat = "$tensors attr-dict `:` qualified(type($tensors))";
}

def Altgrad_DecodeOp : Altgrad_Op<"decode", [Pure, Elementwise]> {
  let summary = "the number that a code stands for";
  let description = [{
    The code is an i8 or i16, or a vector of them. The number is an f32, or a vector of them.

    ```mlir
    %x = altgrad.decode %c format<bf16> : i16 to f32
    ```

    Constraints:

    - (conversion_c1) a vector has one dimension of fixed length;
    - (conversion_c2) the number is f32 and the code has the type that its format gives.
  }];
  let arguments = (ins AnyType:$code, Altgrad_FormatAttr:$format);
  let results = (outs AnyType:$number);
  let assemblyFormat = "$code `format` `` $format attr-dict `:` type($code) `to` type($number)";
  let hasVerifier = 1;
}

def Altgrad_EncodeOp : Altgrad_Op<"encode", [Pure, Elementwise]> {
  let summary = "the code of a number";
  let description = [{
    This is `quantize` for one element or a vector of them. In the format f32 the
    code is the number itself, with a canonical NaN. `never_nan` promises that the number is
    not NaN wherever the code is used.

    ```mlir
    %c = altgrad.encode %x format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
    %s = altgrad.encode %x format<bf16> round<stochastic> draw(%r : i16)
        overflow<saturate> : f32 to i16
    ```

    Constraints, besides conversion_c1 and conversion_c2 of `decode`:

    - (encode_c1) there is a draw exactly if the rounding is stochastic: an i16, an i32, or a
      vector of them that is as long as the numbers; f32 and code books have no draw.
  }];
  let arguments = (ins AnyType:$number, Altgrad_FormatAttr:$format,
                       Altgrad_RoundingAttr:$rounding, Optional<AnyType>:$draw,
                       Altgrad_OverflowAttr:$overflow, UnitAttr:$neverNan);
  let results = (outs AnyType:$code);
  let assemblyFormat = [{
    $number `format` `` $format `round` `` $rounding
    (`draw` `(` $draw^ `:` type($draw) `)`)? `overflow` `` $overflow
    (`never_nan` $neverNan^)? attr-dict
    `:` type($number) `to` type($code)
  }];
  let hasVerifier = 1;
}

class Altgrad_OneForCode<string name, string type, string make>
    : TypesMatchWith<"there is one " # type # " for each code", "code", name,
                     "::altgrad::withElementType($_self, ::mlir::" # make # ")">;
class Altgrad_FlagForCode<string name>
    : Altgrad_OneForCode<name, "i1", "IntegerType::get($_self.getContext(), 1)">;
def Altgrad_AdvanceCodeOp : Altgrad_NamedResultsOp<"advance_code", [Pure, Elementwise, AllTypesMatch<["code", "next"]>,
    Altgrad_OneForCode<"change", "f32", "Float32Type::get($_self.getContext())">,
    Altgrad_FlagForCode<"moved">, Altgrad_FlagForCode<"up">, Altgrad_FlagForCode<"beyond">]> {
  let summary = "move a code along the numbers of its format";
  let description = [{
    In a format with a sign and a magnitude, codes are in the order of their numbers. The place of a code,
    its rung, is the code read as an integer in sign and magnitude; both zeros have place 0.
    `change` is rounded to a whole number by its magnitude, as `quantize` rounds; from 511 on all changes
    are alike, and one that is NaN is 0. `next` is the code of the sum of place and change, or of the last
    number of the format if the sum lies beyond it. A code that is no number stays. A zero is +0.
    `moved` says whether the place is another one, `up` whether it is a higher one, and `beyond`
    whether the sum lay beyond the last number.

    ```mlir
    %c1, %moved, %up, %beyond = altgrad.advance_code %c by %x format<ocp.e4m3fn> round<stochastic> draw(%r : i16) : i8
    ```

    Constraints:

    - (advance_code_c1) the format has a sign, a magnitude and at most 8 bits, and codes are i8;
    - (advance_code_c2) there is a draw exactly if the rounding is stochastic: an i16, an i32, or a vector of them.
  }];
  let arguments = (ins AnyTypeOf<[I8, VectorOfRankAndType<[1], [I8]>]>:$code, AnyType:$change,
                       Altgrad_FormatAttr:$format, Altgrad_RoundingAttr:$rounding, Optional<AnyType>:$draw);
  let results = (outs AnyType:$next, AnyType:$moved, AnyType:$up, AnyType:$beyond);
  let assemblyFormat = [{
    $code `by` $change `format` `` $format `round` `` $rounding (`draw` `(` $draw^ `:` type($draw) `)`)?
    attr-dict `:` type($code)
  }];
  let hasVerifier = 1;
}

def Altgrad_ElementOp : Altgrad_Op<"element", [Pure]> {
  let summary = "the element of a list of values";
  let description = [{
    ```mlir
    %x = altgrad.element %values
    ```
  }];
  let arguments = (ins Altgrad_RealsType:$values);
  let results = (outs F32:$element);
  let assemblyFormat = "$values attr-dict";
}

def Altgrad_CollectOp : Altgrad_Op<"collect", [Pure]> {
  let summary = "the list of values or codes that has this element";
  let description = [{
    ```mlir
    %values = altgrad.collect %x : f32 to !altgrad.reals
    %half = altgrad.collect %c : i16 to !altgrad.tensors<bf16>
    %g = altgrad.collect %x by %factor : f32 to !altgrad.reals
    ```

    `by` gives the list's pending factor (see `!altgrad.reals`).

    Constraints:

    - (collect_c1) the element is f32 for `!altgrad.reals`; for tensors it is a code of their
      format, and there is no factor.
  }];
  let arguments = (ins AnyType:$element, Optional<F32>:$factor);
  let results = (outs AnyType:$list);
  let assemblyFormat = "$element (`by` $factor^)? attr-dict `:` type($element) `to` qualified(type($list))";
  let hasVerifier = 1;
}

def Altgrad_SpillOp : Altgrad_Op<"spill", []> {
  let summary = "a list of f32 tensors in the workspace";
  let description = [{
    One sweep stores it and a later sweep loads it. A list per column has a row of values for each tensor, or, `by run`,
    one for every 32 rows of it.

    ```mlir
    %kept = altgrad.spill : !altgrad.tensors<f32>
    %sums = altgrad.spill by run : !altgrad.tensors<f32 per column>
    ```

    Constraints:

    - (spill_c1) only a list per column is `by run`.
  }];
  let arguments = (ins UnitAttr:$runs);
  let results = (outs Altgrad_TensorsType:$tensors);
  let builders = [OpBuilder<(ins "::mlir::Type":$tensors), [{
    build($_builder, $_state, tensors, /*runs=*/false);
  }]>];
  let assemblyFormat = "(`by` `run` $runs^)? attr-dict `:` qualified(type($tensors))";
  let hasVerifier = 1;
}

def Altgrad_Walk : Altgrad_Enum<"Walk", "which rows a sweep goes over, and in which order", [
    I32EnumCase<"Chunks", 0, "chunks">,
    I32EnumCase<"Runs", 1, "runs">,
    I32EnumCase<"Heads", 2, "heads">,
    I32EnumCase<"Columns", 3, "columns">,
    I32EnumCase<"RowSquares", 4, "row_squares">,
    I32EnumCase<"ColumnSquares", 5, "column_squares">]>;
def Altgrad_WalkAttr : EnumAttr<Altgrad_Dialect, Altgrad_Walk, "walk">;

def Altgrad_SweepOp : Altgrad_Op<"sweep", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getPhaseKind", "getItem", "getReads", "getWrites",
      "getFlops", "startsLaunch", "endsLaunch", "getWorkers", "getBlock", "getTileRows"]>,
    SingleBlockImplicitTerminator<"::altgrad::EmitOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "one pass over memory";
  let description = [{
    A sweep declares the streams that it loads and stores and the reductions that are its
    results. The body computes one element. Its arguments are the loaded codes;
    `emit` gives the values to reduce, then the codes to store. The body may use scalars
    of the step. If the sweep has a condition that is false, it touches no memory.

    A load says which content it means: that from before the step, or, after the word `new`, what an
    earlier sweep of the step has stored.

    After vectorization a second region, the wide body, computes `width` elements at once. The
    first region then serves the elements that do not fill a vector.

    A sweep usually goes over all chunks, in any order. With `walk runs` it goes over 32 rows of a matrix, one after the
    other, and combines what it stores to a list per column with what the rows before have left there; `walk heads` does
    so with the first rows of all such runs, whose lists are `by run`. `walk columns` goes over the first row of each
    matrix alone. `walk row_squares` and `walk column_squares` go over the elements of squares.

    A third region, the fast-path body, may compute the same faster within limits. It has a guard: an i32
    and an f32 for each element, which it takes after its codes and gives on after its
    values. The guard begins as -1 and 0. The fast-path values are right where the i32, unsigned, is at
    least 0x32ffffff and the f32 is finite; elsewhere the wide body is run.

    ```mlir
    %sum = altgrad.sweep @norm load(%g from %grads : !altgrad.tensors<bf16>)
        reduce(sumsq over step) store() {
      %x = altgrad.decode %g format<bf16> : i16 to f32
      altgrad.emit %x : f32
    }
    ```

    Constraints:

    - (sweep_c1) the body ends in `emit`;
    - (sweep_c2) there is one result for each reduction;
    - (sweep_c3) `emit` gives one value for each reduction and each store;
    - (sweep_c4) the body has one argument for each load;
    - (sweep_c5) a stored code has the type of its stream;
    - (sweep_c6) a reduced value has the type of its result: i1 for `and`, else f32; a count is of i1;
    - (sweep_c7) there is at most one wide body, and one fast-path one;
    - (sweep_c8) a wide body computes at least two elements, and at most a chunk's 4096;
    - (sweep_c9) its types are vectors of the body's types;
    - (sweep_c10) it has as many block reductions as the body;
    - (sweep_c11) the fast-path body has the types of the wide one and those of the guard;
    - (sweep_c12) a sweep that reduces over columns or squares, or has a list of what they share, goes over
      tiles: it has at most one such reduction and none of all elements, blocks of at most 128 elements,
      no two codes that share a byte, unless they are stored behind the reduction, and no value that differs between units;
    - (sweep_c13) all of its blocks over rows have one number of rows and columns;
    - (sweep_c14) the fast-path body has as many block reductions as the wide one;
    - (sweep_c15) nothing that the sweep computes from a reduction over a column or a square is reduced in it;
    - (sweep_c16) a store that depends on such a reduction uses no element data but its operand;
    - (sweep_c17) what is reduced is reduced over a unit, a tensor or the step;
    - (sweep_c18) what is stored for columns or squares comes from a reduction over them;
    - (sweep_c19) what it loads of a list is what the list held before the step, unless it says `new`;
    - (sweep_c20) what it loads of the workspace, or as `new`, has been stored, under no condition or its own;
    - (sweep_c21) only a list of the signature is loaded as `new`;
    - (sweep_c22) a sweep loads and stores lists of squares if and only if its walk is over them, and stores lists per
      column if and only if it walks over runs, heads or columns;
    - (sweep_c23) a walk over runs or heads has a `combine` of numbers, and no other has one.
  }];
  let arguments = (ins StrAttr:$name, Optional<I1>:$condition,
                       Variadic<Altgrad_TensorsType>:$loads,
                       Variadic<Altgrad_TensorsType>:$stores,
                       TypedArrayAttrBase<Altgrad_ReductionAttr, "reductions">:$reductions,
                       TypedArrayAttrBase<Altgrad_BlockAttr, "what each is over">:$scopes,
                       DefaultValuedAttr<I64Attr, "1">:$width,
                       DefaultValuedAttr<DenseBoolArrayAttr, "{}">:$renewed,
                       DefaultValuedAttr<Altgrad_WalkAttr, "::altgrad::Walk::Chunks">:$walk,
                       OptionalAttr<Altgrad_ReductionAttr>:$combine);
  let results = (outs Variadic<AnyTypeOf<[F32, I1]>>:$reduced);
  let regions = (region SizedRegion<1>:$body, VariadicRegion<SizedRegion<1>>:$wide);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::llvm::StringRef getDefaultDialect() { return "altgrad"; }
    EmitOp getEmit();
    /// The fast-path body, or null.
    ::mlir::Region *getFastPath();
    Reduction getReduction(unsigned index);
    BlockAttr getOver(unsigned index);
    Scope getScope(unsigned index) { return getOver(index).getScope(); }
    /// The scalars of the step that the bodies and the condition use.
    ::llvm::SmallVector<::mlir::Value> getScalars();
    /// Whether a load wants what an earlier sweep has stored, and not what was there before the step.
    bool isRenewed(unsigned load) { return load < getRenewed().size() && getRenewed()[load]; }
    /// Whose chunks have its partial sums: a square's, or else the tensor's.
    Walk getFoldedWalk() { return getWalk() >= Walk::RowSquares ? getWalk() : Walk::Chunks; }
    /// In a phase: the word of each chunk in which a reduction is kept.
    unsigned getChunkWord(unsigned index);
    /// The blocks over rows of which a tile has whole ones; null: it goes over chunks.
    BlockAttr getTileBlock();
    bool usesTiles() { return getTileRows() != 0; }
    /// The sweep over the tiles of what this one stores, where they are stages; or null.
    SweepOp getTiles();
  }];
}

def Altgrad_EmitOp : Altgrad_Op<"emit", [Pure, Terminator,
    HasParent<"::altgrad::SweepOp">]> {
  let summary = "the values that a sweep reduces, then the codes that it stores";
  let description = [{
    ```mlir
    altgrad.emit %x, %code : f32, i16
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ (void)$_state; }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Altgrad_StageOp : Altgrad_Op<"stage", [AttrSizedOperandSegments, HasParent<"::altgrad::SweepOp">]> {
  let summary = "one walk over the elements of a block";
  let description = [{
    The stages of a body stand at its end, in the order in which each block goes through them. A walk
    completes reductions over the block, keeps values of its elements for later walks, and stores what
    the body emits at these places. What it needs and no earlier walk has kept, it computes again. A first
    stage that only keeps is for codes of books, which some processors decode best by themselves.

    ```mlir
    altgrad.stage reduce(%most : f32) keep(%x : f32) emit []
    altgrad.stage emit [0, 1]
    ```

    Constraints:

    - (stage_c1) what is reduced is a reduction over blocks;
    - (stage_c2) the body emits a value at each place;
    - (stage_c3) no earlier stage has stored to a list that it loads.
  }];
  let arguments = (ins Variadic<AnyType>:$reductions, Variadic<AnyType>:$kept, DenseI64ArrayAttr:$emitted);
  let assemblyFormat = [{
    (`reduce` `(` $reductions^ `:` type($reductions) `)`)? (`keep` `(` $kept^ `:` type($kept) `)`)?
    `emit` $emitted attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<ReduceOp> getReduceOps();
    /// The values that are reduced, those that are emitted, and those that are kept.
    ::llvm::SmallVector<::mlir::Value> getRequired();
    bool hasOnlyKept() { return getReductions().empty() && getEmitted().empty(); }
  }];
}

#endif // ALTGRAD_SWEEPOPS_TD

//===-- The sweep: one pass over memory --------------------------------------===//

#ifndef ALTGRAD_SWEEPOPS_TD
#define ALTGRAD_SWEEPOPS_TD

include "dialect/MasterOps.td"

// Between the step a person writes and its sweeps, the body is written for one
// element: an f32 that depends on a `load` is the element, any other scalar is
// the same for all elements ("uniform").

def Altgrad_LoadOp : Altgrad_Op<"load", [Pure]> {
  let summary = "the stored code of this element";
  let description = [{
    ```mlir
    %c = altgrad.load %grads : !altgrad.tensors<bf16>
    ```

    Constraints:

    - (load_c1) the code has the type that the format of the stream gives.
  }];
  let arguments = (ins Altgrad_TensorsType:$tensors);
  let results = (outs AnyType:$code);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Altgrad_DecodeOp : Altgrad_Op<"decode", [Pure, Elementwise]> {
  let summary = "the number a code stands for";
  let description = [{
    The code is an i8 or i16, or a vector of them; the number an f32.

    ```mlir
    %x = altgrad.decode %c format<bf16> : i16 to f32
    ```

    Constraints:

    - (conversion_c1) a vector has one dimension of fixed length;
    - (conversion_c2) the number is f32 and the code has the type its format gives.
  }];
  let arguments = (ins AnyType:$code, Altgrad_FormatAttr:$format);
  let results = (outs AnyType:$number);
  let assemblyFormat = "$code `format` `` $format attr-dict `:` type($code) `to` type($number)";
  let hasVerifier = 1;
}

def Altgrad_EncodeOp : Altgrad_Op<"encode", [Pure, Elementwise]> {
  let summary = "the code of a number";
  let description = [{
    As `quantize`, for one element or a vector of them. In the format f32 the
    code is the number itself with its NaN made canonical. What is `never_nan`
    is a number wherever the code is used.

    ```mlir
    %c = altgrad.encode %x format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
    %s = altgrad.encode %x format<bf16> round<stochastic> draw(%r : i16)
        overflow<saturate> : f32 to i16
    ```

    Constraints, beside conversion_c1 and conversion_c2 of `decode`:

    - (encode_c1) there is a draw exactly where it rounds stochastically, an i16, an
      i32 or a vector of them as long as the numbers', and none to f32 and code books.
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
  let summary = "the list of values, or of codes, of which this is the element";
  let description = [{
    ```mlir
    %values = altgrad.collect %x : f32 to !altgrad.reals
    %half = altgrad.collect %c : i16 to !altgrad.tensors<bf16>
    %g = altgrad.collect %x by %factor : f32 to !altgrad.reals
    ```

    `by` gives the common factor that is still to be multiplied in.

    Constraints:

    - (collect_c1) the element is f32 for reals, otherwise a code of the format
      and without a factor.
  }];
  let arguments = (ins AnyType:$element, Optional<F32>:$factor);
  let results = (outs AnyType:$list);
  let assemblyFormat = "$element (`by` $factor^)? attr-dict `:` type($element) `to` qualified(type($list))";
  let hasVerifier = 1;
}

def Altgrad_SpillOp : Altgrad_Op<"spill", []> {
  let summary = "a list of f32 tensors in the workspace, from one sweep to a later one";
  let description = [{
    ```mlir
    %kept = altgrad.spill : !altgrad.tensors<f32>
    ```
  }];
  let results = (outs Altgrad_TensorsType:$tensors);
  let assemblyFormat = "attr-dict `:` qualified(type($tensors))";
}

def Altgrad_SweepOp : Altgrad_Op<"sweep", [AttrSizedOperandSegments,
    SingleBlockImplicitTerminator<"::altgrad::EmitOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "one pass over memory";
  let description = [{
    Declares the streams it loads and stores and the reductions that leave it as
    values. The body computes one element; its arguments are the loaded codes,
    and `emit` gives the reduced values, then the stored codes. Scalars of the
    step may be used inside. With a condition that is false it touches no
    memory. After vectorization a second region does `width` elements at once;
    the first one then serves what does not fill a vector. A third one may do the
    same faster, within limits: it is handed a guard, an i32 and an f32 of each
    element, and gives it on after its values. Of a guard that began with -1 and 0,
    the values are right where the first is at least 32ffffff, unsigned, and the
    second finite; elsewhere the wide body has them.

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
    - (sweep_c6) a reduced value has the type of its result: i1 for `and`, else f32;
    - (sweep_c7) there is at most one wide body, and one quick one;
    - (sweep_c8) it does at least two elements;
    - (sweep_c9) its types are vectors of the body's;
    - (sweep_c10) it has as many block reductions;
    - (sweep_c11) the quick body has the wide one's types and the guard's;
    - (sweep_c12) where it takes the largest of a column or a square, of one value, it reduces nothing;
    - (sweep_c13) and has blocks of at most 128 elements, the columns of a tile;
    - (sweep_c14) the quick body has as many block reductions as the wide one;
    - (sweep_c15) where it takes the largest of a column or a square, no codes share a byte,
    - (sweep_c16) and nothing in it differs between units.
  }];
  let arguments = (ins StrAttr:$name, Optional<I1>:$condition,
                       Variadic<Altgrad_TensorsType>:$loads,
                       Variadic<Altgrad_TensorsType>:$stores,
                       TypedArrayAttrBase<Altgrad_ReductionAttr, "reductions">:$reductions,
                       TypedArrayAttrBase<Altgrad_ScopeAttr, "scopes">:$scopes,
                       DefaultValuedAttr<I64Attr, "1">:$width);
  let results = (outs Variadic<AnyTypeOf<[F32, I1]>>:$reduced);
  let regions = (region SizedRegion<1>:$body, VariadicRegion<SizedRegion<1>>:$wide);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    static ::llvm::StringRef getDefaultDialect() { return "altgrad"; }
    EmitOp getEmit();
    /// The quick body, or null.
    ::mlir::Region *getQuick();
    Reduction getReduction(unsigned index);
    Scope getScope(unsigned index);
    /// The scalars of the step that the bodies and the condition use.
    ::llvm::SmallVector<::mlir::Value> getScalars();
    /// In a phase: the word of each chunk in which a reduction is kept.
    unsigned getChunkWord(unsigned index);
    /// Bytes per element that this sweep loads and stores.
    double getBytesRead();
    double getBytesWritten();
    /// The elements of the longest block of a row; 1 where nothing is per block.
    unsigned getBlock();
    /// The rows of its tiles, where it takes the largest of columns or squares; else 0.
    unsigned getTileRows();
    bool goesOverTiles() { return getTileRows() != 0; }
  }];
}

def Altgrad_EmitOp : Altgrad_Op<"emit", [Pure, Terminator,
    HasParent<"::altgrad::SweepOp">]> {
  let summary = "what leaves a sweep: reduced values, then stored codes";
  let description = [{
    ```mlir
    altgrad.emit %x, %code : f32, i16
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ (void)$_state; }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // ALTGRAD_SWEEPOPS_TD

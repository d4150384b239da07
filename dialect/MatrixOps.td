//===-- Matrices: a tensor as a whole, and products of it --------------------===//

#ifndef ALTGRAD_MATRIXOPS_TD
#define ALTGRAD_MATRIXOPS_TD

include "dialect/SweepOps.td"

// In a rule or a step, a matrix is a value of the whole tensor. Sweeps end where one is made
// of elements and begin where elements are taken from one. Between them, matrices lie in
// the workspace and a phase multiplies them.

def Altgrad_Length : Altgrad_Enum<"Length", "what a matrix is divided by, of its norm and eps", [
    I32EnumCase<"Clamped", 0, "clamped">,
    I32EnumCase<"Added", 1, "added">]>;
def Altgrad_LengthAttr : Altgrad_BracedAttr<Altgrad_Length, "length">;

// With n and m for the rows and columns of the shorter and the longer side.
def Altgrad_ProductForm : Altgrad_Enum<"ProductForm", "which matrices are multiplied", [
    I32EnumCase<"Gram", 0, "gram">,      // n x m and its transpose
    I32EnumCase<"Square", 1, "square">,  // n x n and n x n
    I32EnumCase<"Side", 2, "side">,      // n x n and n x m
    // Of matrices that say their rows and columns themselves: those of the tensor, or of one of its squares.
    I32EnumCase<"Matmul", 3, "matmul">,
    // What is found of a square, `orthonormal` of the matrix of a tensor, too.
    I32EnumCase<"Eigenbasis", 4, "eigenbasis">,
    I32EnumCase<"Order", 5, "order">,
    I32EnumCase<"Orthonormal", 6, "orthonormal">,
    I32EnumCase<"InverseRoot", 7, "inverse_root">,
    I32EnumCase<"Identity", 8, "identity">]>;
def Altgrad_ProductFormAttr : EnumAttr<Altgrad_Dialect, Altgrad_ProductForm, "product_form">;

def Altgrad_SquaresType : TypeDef<Altgrad_Dialect, "Squares"> {
  let mnemonic = "squares";
  let summary = "a symmetric matrix for each tensor of a list";
  let description = [{
    It has as many rows and columns as the tensor's shorter side.

    ```mlir
    !altgrad.squares<bf16>
    ```
  }];
  let parameters = (ins "::altgrad::FormatAttr":$format);
  let assemblyFormat = "`` $format";
}

def Altgrad_MatrixOp : Altgrad_Op<"matrix", [Pure]> {
  let summary = "all elements of a tensor, or of a square, as one matrix";
  let description = [{
    Each element is rounded to the nearest number of the format, in which products take
    their operands. Ties go to even, and what is too large becomes an infinity.

    ```mlir
    %x = altgrad.matrix %u : !altgrad.tensors<bf16>
    ```

    Constraints:

    - (matrix_c1) the format is bf16, f16 or f32, with a code for each element, and of squares f32;
    - (matrix_c2) the operand differs between elements: of the tensor, or of the squares that the result has.
  }];
  let arguments = (ins F32:$element);
  let results = (outs Altgrad_TensorsType:$matrix);
  let assemblyFormat = "$element attr-dict `:` qualified(type($matrix))";
  let hasVerifier = 1;
}

def Altgrad_EntryOp : Altgrad_Op<"entry", [Pure]> {
  let summary = "the element of a matrix";
  let description = [{
    ```mlir
    %o = altgrad.entry %y : !altgrad.tensors<bf16>
    ```

    Constraints:

    - (entry_c1) the operand is a matrix, as `matrix` and the products of matrices give one.
  }];
  let arguments = (ins Altgrad_TensorsType:$matrix);
  let results = (outs F32:$element);
  let assemblyFormat = "$matrix attr-dict `:` qualified(type($matrix))";
  let hasVerifier = 1;
}

def Altgrad_GramOp : Altgrad_Op<"gram", [Pure,
    TypesMatchWith<"the result has the format of the matrix", "matrix", "gram",
                   "::altgrad::getSquareType($_self)">]> {
  let summary = "a matrix times its transpose, on the shorter side";
  let description = [{
    For X of r rows and c columns this is X Xᵀ if r <= c, and Xᵀ X otherwise. So a matrix and its
    transpose have the same result. Sums are f32 and are rounded once, to the nearest
    number of the format. The half above the diagonal may be a copy of the half below. With `over unit`
    each unit of a tensor is a matrix, and otherwise the tensor is one, whatever its units. With `alone` every
    matrix is multiplied by calls of its own, here and in the products that follow from the result.

    ```mlir
    %a = altgrad.gram %x : !altgrad.tensors<bf16>
    %b = altgrad.gram %x over unit alone : !altgrad.tensors<bf16>
    ```

    Constraints:

    - (gram_c1) the operand is a matrix, as `matrix` and `product` give one.
  }];
  let arguments = (ins Altgrad_TensorsType:$matrix, UnitAttr:$units, UnitAttr:$alone);
  let results = (outs Altgrad_SquaresType:$gram);
  let assemblyFormat = "$matrix (`over` `unit` $units^)? (`alone` $alone^)? attr-dict `:` qualified(type($matrix))";
  let hasVerifier = 1;
}

def Altgrad_ProductOp : Altgrad_Op<"product", [Pure, AllTypesMatch<["right", "product"]>,
    TypesMatchWith<"the left operand has the format of the product", "product", "left",
                   "::altgrad::getSquareType($_self)">,
    OptionalTypesMatchWith<"what is added has the type of the product", "product", "added", "$_self">]> {
  let summary = "the product of a symmetric matrix and another one, plus a third";
  let description = [{
    The result is `by * left right + by * plus`; a factor that is left out is 1. `left` stands
    on the shorter side of `right`: the product is `left right` if `right` has no more rows
    than columns, and `right left` otherwise. Sums are f32. The whole is rounded once, to
    the nearest number of the format. `shift` is then added to the diagonal of a square, rounded again. Squares
    that are multiplied commute, as polynomials of one matrix do, so that the half above the
    diagonal may be a copy of the half below.

    ```mlir
    %b = altgrad.product %a, %a by 2.0315 plus %a by -4.775 : !altgrad.squares<bf16>
    %y = altgrad.product %b, %x plus %x by 3.4445 : !altgrad.tensors<bf16>
    %w = altgrad.product %r, %r by 2.0315 plus %r by -4.775 shift 3.4445 : !altgrad.squares<f32>
    ```

    Constraints:

    - (product_c1) an operand that is no square is a matrix, as `matrix` and `product` give one;
    - (product_c2) the factors and the shift are finite;
    - (product_c3) what is shifted is a square of f16 or f32.
  }];
  let arguments = (ins Altgrad_SquaresType:$left,
                       AnyTypeOf<[Altgrad_SquaresType, Altgrad_TensorsType]>:$right,
                       DefaultValuedAttr<F64Attr, "1.0">:$factor,
                       Optional<AnyTypeOf<[Altgrad_SquaresType, Altgrad_TensorsType]>>:$added,
                       DefaultValuedAttr<F64Attr, "1.0">:$weight, DefaultValuedAttr<F64Attr, "0.0">:$shift);
  let results = (outs AnyTypeOf<[Altgrad_SquaresType, Altgrad_TensorsType]>:$product);
  let assemblyFormat = [{
    $left `,` $right (`by` $factor^)? (`plus` $added^ (`by` $weight^)?)? (`shift` $shift^)? attr-dict
    `:` qualified(type($product))
  }];
  let hasVerifier = 1;
}

def Altgrad_MatmulOp : Altgrad_Op<"matmul", [Pure]> {
  let summary = "the product of two matrices, either of them transposed or not";
  let description = [{
    A matrix is that of a tensor, of r rows and c columns, or one of its squares: r x r (`per rows x rows`) or c x c
    (`per columns x columns`). Each of `x xᵀ`, `xᵀ x`, `l x`, `x r`, `l l` and `r r` is a product of matrices that fit, for
    tensors x and squares l and r. Sums are f32, and the product is rounded once, to the nearest number of the
    format.

    ```mlir
    %l = altgrad.matmul %x, %x transposed : !altgrad.tensors<f32>, !altgrad.tensors<f32> to !altgrad.tensors<f32 per rows x rows>
    %y = altgrad.matmul %q transposed, %x : !altgrad.tensors<f32 per rows x rows>, !altgrad.tensors<f32> to !altgrad.tensors<f32>
    ```

    Constraints:

    - (matmul_c1) the operands are matrices, as `matrix`, `matmul` and `factorize` give them;
    - (matmul_c2) the left operand has as many columns as the right one has rows, and the result is of the others;
    - (matmul_c3) all have one format;
    - (matmul_c4) an element of a square is reduced over the tensor or the step alone, and is no operand of older
      operations of matrices;
    - (matmul_c5) it meets no element of another matrix, and no number of a unit or a column.
  }];
  let arguments = (ins Altgrad_TensorsType:$left, Altgrad_TensorsType:$right, UnitAttr:$left_transposed,
                       UnitAttr:$right_transposed);
  let results = (outs Altgrad_TensorsType:$product);
  let assemblyFormat = [{
    $left (`transposed` $left_transposed^)? `,` $right (`transposed` $right_transposed^)? attr-dict
    `:` qualified(type($left)) `,` qualified(type($right)) `to` qualified(type($product))
  }];
  let hasVerifier = 1;
}

def Altgrad_FactorizeOp : Altgrad_Op<"factorize", [Pure, AllTypesMatch<["square", "factor"]>,
    OptionalTypesMatchWith<"both are of one size", "factor", "basis", "$_self">]> {
  let summary = "what is found of a square matrix, or an orthonormal basis of a tensor's columns";
  let description = [{
    | word | result |
    |---|---|
    | `eigenbasis` | orthonormal eigenvectors of a symmetric matrix as columns, of the largest eigenvalue first |
    | `order` | the permutation P for which the diagonal of (q P)ᵀ s (q P) falls, of the square s by the basis q |
    | `orthonormal` | Q of the decomposition s = Q R, with an upper triangle R; s may be the matrix of a tensor, with as many columns as rows or fewer |
    | `inverse_root` | s^(-1/p) of a symmetric matrix, where `root` is p; eigenvalues below 1e-7 of the largest one count as so much |
    | `identity` | the identity |

    Who multiplies finds these, too: the libraries of torch, or a function of the caller's (`altgrad_set_factor`). The
    factor of a square that is not finite is NaN. Where it is finite and has no factor, the step fails and nothing has
    changed.

    ```mlir
    %q = altgrad.factorize eigenbasis %s : !altgrad.tensors<f32 per rows x rows>
    %p = altgrad.factorize order %s by %q : !altgrad.tensors<f32 per rows x rows>
    %r = altgrad.factorize inverse_root %s root 4.0 : !altgrad.tensors<f32 per rows x rows>
    ```

    Constraints:

    - (factorize_c1) the operands are squares of f32, as `matrix`, `matmul` and `factorize` give them, that of `orthonormal` may be
      the f32 of a tensor;
    - (factorize_c2) the word is of the table, and `by` stands behind `order` alone;
    - (factorize_c3) a root is a finite number above 0.
  }];
  let arguments = (ins Altgrad_ProductFormAttr:$form, Altgrad_TensorsType:$square,
                       Optional<Altgrad_TensorsType>:$basis, DefaultValuedAttr<F64Attr, "1.0">:$root);
  let results = (outs Altgrad_TensorsType:$factor);
  let assemblyFormat = [{
    `` $form $square (`by` $basis^)? (`root` $root^)? attr-dict `:` qualified(type($factor))
  }];
  let hasVerifier = 1;
}

def Altgrad_SelectByAspectOp : Altgrad_Op<"select_by_aspect", [Pure, AllTypesMatch<["elongated", "other", "result"]>]> {
  let summary = "one of two matrices, by the shape of the tensor";
  let description = [{
    The result is the first matrix for tensors whose longer side is at least `from` times the shorter
    one, and the second for others. A tensor's other matrix is not computed.

    ```mlir
    %y = altgrad.select_by_aspect %long, %short from 1.5 : !altgrad.tensors<f32>
    ```

    Constraints:

    - (select_by_aspect_c1) both are products;
    - (select_by_aspect_c2) `from` is finite and at least 1.
  }];
  let arguments = (ins Altgrad_TensorsType:$elongated, Altgrad_TensorsType:$other, F64Attr:$ratio);
  let results = (outs Altgrad_TensorsType:$result);
  let assemblyFormat = "$elongated `,` $other `from` $ratio attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Altgrad_ProductsFiniteOp : Altgrad_Op<"products_finite", [Pure]> {
  let summary = "whether products have made nothing that is not finite of what is";
  let description = [{
    The result is false where an entry of a product from which the element is computed is not finite, and all elements
    of its tensor that were multiplied are. Who multiplies is wrong then, or numbers are beyond the format of the
    operands.

    ```mlir
    %each = products_finite %e : f32
    %fine = reduce and %each over step : i1
    ```
  }];
  let arguments = (ins F32:$element);
  let results = (outs I1:$sound);
  let assemblyFormat = "$element attr-dict `:` type($element)";
}

def Altgrad_OrthogonalizeOp : Altgrad_Op<"orthogonalize", [Pure]> {
  let summary = "the element of the nearest matrix with orthonormal rows or columns";
  let description = [{
    This is a Newton-Schulz iteration. X and all that follows is kept in the format `in`:

    ```
    X <- X / max(|X|, eps)           clamped;   X / (margin |X| + eps)   added
    A <- X Xᵀ,  B <- b A + c A A,  X <- a X + B X      for each step's a, b, c
    ```

    |X| is the root of the sum of squares. In bf16 the element and the length are rounded before the division, as torch
    does it; in f16, where they would leave the range of its numbers, the quotient is. The margin is that of the set of
    coefficients. X Xᵀ is `gram`, and the others are `product`. Where c is 0 a step is
    `A <- X Xᵀ, X <- a X + b A X`.

    A tensor whose longer side is at least 1.5 times the shorter one in f32, or twice in f16, takes fewer operations by
    the Gram form, on the shorter side: for up to three steps at a time, or two in f16,

    ```
    R <- X Xᵀ,  Q <- I;   W <- a + b R + c R R,  Q <- Q W,  R <- W R W;   X <- Q X
    ```

    In f16 it keeps singular values as well as the other form does in bf16. In bf16 R loses the small ones, and there is
    the other form alone, as in f16 where the coefficients let an error of 2^-10 of an operand grow to 1 until the last step
    (`cans`: to 48). The singular values of the result are near 1; how near, the coefficients say. `altgrad-opt --list-coefficients` lists the sets that have a name. A set may
    also be written: `coefficients<[3.4445, -4.775, 2.0315]>`, with a row of three numbers for
    each step, or one for all. A matrix of zeros gives zeros.

    Sources: K. Jordan, Muon (2024); N. Amsel et al., The Polar Express (2025); the Gram form with
    restarts: gram-newton-schulz (Dao-AILab). With
    `coefficients<jordan> steps<5> in<bf16> length<clamped>` it is that of torch.optim.Muon,
    with `added` that of K. Jordan. `equal rows` first divides each row by max(|row|, 1e-7) (MuonEq-R, 2026). With `alone` each matrix is multiplied by
    calls of its own, so that its bits depend on no other one where those of a library's batches do. `over unit` says that each unit of a tensor is a matrix of its own, as
    experts are that lie in one tensor of three dimensions.

    ```mlir
    %o = altgrad.orthogonalize %u coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)
    %e = altgrad.orthogonalize %u over unit coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)
    %q = altgrad.orthogonalize %u equal rows coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)
    ```

    Constraints:

    - (orthogonalize_c1) the format is bf16, f16 or f32;
    - (orthogonalize_c2) the set of coefficients has a known name, or rows of three finite numbers;
    - (orthogonalize_c3) the number of steps is one that the set is for;
    - (orthogonalize_c4) the operand differs between elements;
    - (orthogonalize_c5) eps is the same for all elements of a tensor;
    - (orthogonalize_c6) rows are made equal of whole tensors: they are its units then.
  }];
  let arguments = (ins F32:$element, UnitAttr:$units, UnitAttr:$equal_rows, UnitAttr:$alone, AnyAttr:$coefficients, I64Attr:$steps, Altgrad_FormatAttr:$format,
                       Altgrad_LengthAttr:$length, F64:$eps);
  let results = (outs F32:$result);
  let assemblyFormat = [{
    $element (`over` `unit` $units^)? (`equal` `rows` $equal_rows^)? (`alone` $alone^)? `coefficients` `<` custom<Coefficients>($coefficients) `>` `steps` `<` $steps `>`
    `in` `` $format `length` `` $length `eps` `(` $eps `)` attr-dict
  }];
  let hasVerifier = 1;
}

//===-- Words of a rule ------------------------------------------------------===//

// One pass expands each into the arithmetic that its description gives.

def Altgrad_ShapeScale : Altgrad_Enum<"ShapeScale", "how the step of a matrix depends on its shape", [
    I32EnumCase<"Original", 0, "original">,
    I32EnumCase<"MatchRms", 1, "match_rms">,
    I32EnumCase<"Unclamped", 2, "unclamped">,
    I32EnumCase<"Spectral", 3, "spectral">]>;
def Altgrad_ShapeScaleAttr : EnumAttr<Altgrad_Dialect, Altgrad_ShapeScale, "shape_scale">;

def Altgrad_ScaleByShapeOp : Altgrad_Op<"scale_by_shape", [Pure]> {
  let summary = "how long the step of a matrix is, by its rows and columns";
  let description = [{
    | word | scale | source |
    |---|---|---|
    | `original` | sqrt(max(1, rows / columns)) | K. Jordan, Muon (2024) |
    | `match_rms` | 0.2 sqrt(max(rows, columns)) | Moonlight (2025) |
    | `unclamped` | sqrt(rows / columns) | torch.optim.Muon's spectral_unclamped |
    | `spectral` | sqrt(max(rows, columns)) | Emerging-Optimizers |

    With `transposed` the tensors are the transposes of the matrices whose scale it is. Among a rule's options,
    `shape=transposed` says so.

    ```mlir
    %scale = altgrad.scale_by_shape original : f64
    %other = altgrad.scale_by_shape original transposed : f64
    ```
  }];
  let arguments = (ins Altgrad_ShapeScaleAttr:$by, UnitAttr:$transposed);
  let results = (outs F64:$scale);
  let assemblyFormat = "$by (`transposed` $transposed^)? attr-dict `:` type($scale)";
}

def Altgrad_MatchNormOp : Altgrad_Op<"match_norm", [Pure]> {
  let summary = "an element of a tensor that is made as long as another one";
  let description = [{
    x |y| / (|x| + 1e-10), where |x| is the root of the sum of squares of all elements of a tensor. Where x is a product
    or a quotient of z and a number of each unit, and `row_mean_square` is of z, |x| is the root of the sum of squares of
    the lengths of z's units times or over these numbers, in the shape of the chunks of a tensor.

    ```mlir
    %even = altgrad.match_norm %w as %g : f32
    ```
  }];
  let arguments = (ins F32:$element, F32:$like);
  let results = (outs F32:$resized);
  let assemblyFormat = "$element `as` $like attr-dict `:` type($resized)";
}

def Altgrad_RowMeanSquareOp : Altgrad_Op<"row_mean_square", [Pure]> {
  let summary = "the mean of the squares of each unit, of a matrix of each row";
  let description = [{
    It is the sum of squares over the unit, over the number of its elements.

    ```mlir
    %s = altgrad.row_mean_square %o : f32
    ```
  }];
  let arguments = (ins F32:$element);
  let results = (outs F32:$mean);
  let assemblyFormat = "$element attr-dict `:` type($mean)";
}

def Altgrad_ApplyStepOp : Altgrad_Op<"apply_step", [Pure]> {
  let summary = "a step along a direction, beside a decay of the weight";
  let description = [{
    fma(f32(-rate), direction, weight * f32(1 - decay)). With `cautious` the weight decays only where
    direction * weight >= 0 (L. Chen et al., Cautious Weight Decay, 2025). Among a rule's options,
    `decay=cautious` says so.

    ```mlir
    %w1 = altgrad.apply_step %w along %m rate(%lr) decay(%lr) : f32
    %w2 = altgrad.apply_step %w along %m rate(%lr) decay(%lr) cautious : f32
    ```
  }];
  let arguments = (ins F32:$weight, F32:$direction, F64:$rate, F64:$decay, UnitAttr:$cautious);
  let results = (outs F32:$result);
  let assemblyFormat = [{
    $weight `along` $direction `rate` `(` $rate `)` `decay` `(` $decay `)` (`cautious` $cautious^)? attr-dict
    `:` type($result)
  }];
}

def Altgrad_MultiplyOp : Altgrad_Op<"multiply", [
    OptionalTypesMatchWith<"all have one format", "into", "added", "$_self">,
    DeclareOpInterfaceMethods<Altgrad_PhaseWork, ["getPhaseKind", "getItem", "getReads", "getWrites",
      "startsLaunch", "endsLaunch"]>]> {
  let summary = "multiply matrices that lie in the workspace";
  let description = [{
    This is `gram` or `product` between sweeps. With n and m for the lengths of a tensor's shorter and
    longer side: `gram` multiplies the n x m matrix `left` and its transpose, `square` two n x n
    matrices, and `side` the n x n matrix `left` and the n x m matrix `right`, on the side of n.

    ```mlir
    altgrad.multiply gram %x, %x into %a : !altgrad.tensors<bf16>
    altgrad.multiply square %a, %a by 2.0315 plus %a by -4.775 into %b : !altgrad.tensors<bf16>
    altgrad.multiply side %b, %x plus %x by 3.4445 into %y : !altgrad.tensors<bf16>
    altgrad.multiply square %r, %w into %t from 1.5 : !altgrad.tensors<f32>
    altgrad.multiply matmul %q transposed, %v into %z : !altgrad.tensors<f32 per rows x rows>, !altgrad.tensors<f32> to !altgrad.tensors<f32>
    ```

    Of the other forms, those of `matmul` and `factorize`, the types of all operands are written where they differ. A
    factorization without a basis has its square twice, and `by` is the root.

    With `over unit` the matrices are the units of tensors, and with `alone` there is a call for each. It is done for those whose longer side is at least `from` times the shorter one, and less than
    `below` times.

    Constraints:

    - (multiply_c1) all matrices are lists in the workspace; a `matmul` and a factorization also read f32 of the caller's;
    - (multiply_c2) the result does not overwrite an operand;
    - (multiply_c3) a sweep or a product before it has filled each operand;
    - (multiply_c4) all lists have one type, but those of a `matmul`, which fit each other;
    - (multiply_c5) nothing has overwritten what it reads of the caller's.
  }];
  let arguments = (ins Altgrad_ProductFormAttr:$form, Altgrad_TensorsType:$left, Altgrad_TensorsType:$right,
                       DefaultValuedAttr<F64Attr, "1.0">:$factor, Optional<Altgrad_TensorsType>:$added,
                       DefaultValuedAttr<F64Attr, "1.0">:$weight, DefaultValuedAttr<F64Attr, "0.0">:$shift,
                       Altgrad_TensorsType:$into, UnitAttr:$units, UnitAttr:$alone, DefaultValuedAttr<F64Attr, "1.0">:$least,
                       OptionalAttr<F64Attr>:$below, UnitAttr:$left_transposed, UnitAttr:$right_transposed);
  let assemblyFormat = [{
    `` $form $left (`transposed` $left_transposed^)? `,` $right (`transposed` $right_transposed^)? (`by` $factor^)?
    (`plus` $added^ (`by` $weight^)?)? (`shift` $shift^)? `into` $into
    (`over` `unit` $units^)? (`alone` $alone^)? (`from` $least^)? (`below` $below^)? attr-dict
    `:` custom<ProductTypes>(type($left), type($right), type($into))
  }];
  let hasVerifier = 1;
}

#endif // ALTGRAD_MATRIXOPS_TD

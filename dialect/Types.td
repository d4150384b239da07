//===-- Types: what is stored, and what is computed --------------------------===//

#ifndef ALTGRAD_TYPES_TD
#define ALTGRAD_TYPES_TD

include "dialect/Formats.td"

def Altgrad_TensorsType : TypeDef<Altgrad_Dialect, "Tensors"> {
  let mnemonic = "tensors";
  let summary = "a list of tensors in memory, all of one format";
  let description = [{
    As many tensors as the caller binds, of any sizes; one launch covers them.

    ```mlir
    !altgrad.tensors<bf16>
    !altgrad.tensors<ocp.e4m3fn>
    !altgrad.tensors<f32 per 32>
    !altgrad.tensors<ocp.e8m0 per 32 columns>
    !altgrad.tensors<f32 per 128 squares>
    !altgrad.tensors<torchao4 packed>
    ```

    With `per`, a block of neighbouring elements shares one stored value: element
    i of a tensor belongs to block i / 32, and the last block may be short. The
    global index of a tensor's first element is a multiple of the block. With
    `columns` the block is of a column: of element (i, j) of a tensor seen as all
    rows of its matrices, value (i / 32, j), and the last block of a column may be
    short. With `squares` the block is of so many rows and columns: value
    (i / 128, j / 128) of as many columns of them as the rows fill, and the last
    blocks of both directions may be short.

    With `packed`, the codes of two neighbours share a byte: which of them is the upper
    half is a property of the format (`evenIsHigh` of runtime/include/altgrad/format.h).
    Behind an odd number of codes are four zeros. The global index of a tensor's
    first element is a multiple of 16.

    Constraints:

    - (tensors_c1) a block is a power of two from 16 to 256;
    - (tensors_c2) a block of a column has 32 elements;
    - (tensors_c3) what is packed are codes of 4 bits, one for each element;
    - (tensors_c4) a square has 128 rows and columns.
  }];
  let parameters = (ins "::altgrad::FormatAttr":$format, "unsigned":$block, "unsigned":$columns, "bool":$packed);
  let builders = [TypeBuilder<(ins "::altgrad::FormatAttr":$format), [{
    return $_get($_ctxt, format, /*block=*/1u, /*columns=*/0u, /*packed=*/false);
  }]>, TypeBuilder<(ins "::altgrad::FormatAttr":$format, "unsigned":$block), [{
    return $_get($_ctxt, format, block, /*columns=*/0u, /*packed=*/false);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // `columns`: of a block that goes over rows, 1 or those of a square; else 0.
    bool isOfSquares() const { return getColumns() > 1; }
    /// Of an element: a fraction where several share a value.
    double getBytes() const {
      return double(getFormat().getBytes()) /
             (getBlock() * std::max(1u, getColumns()) * (getPacked() ? 2 : 1));
    }
  }];
}

def Altgrad_RealsType : TypeDef<Altgrad_Dialect, "Reals">,
    BuildableType<"$_builder.getType<::altgrad::RealsType>()"> {
  let mnemonic = "reals";
  let summary = "a list of tensors as f32 values, never stored";
  let description = [{
    The one type of values inside a step: f32 elements of a list of tensors,
    with one common factor that is still to be multiplied in. `unscale`, `scale` and
    `clip_by_global_norm` change the factor alone; every other operation first
    multiplies each element by it, once, in f32. So a gradient that is both
    unscaled and clipped is rounded once.
  }];
}

#endif // ALTGRAD_TYPES_TD

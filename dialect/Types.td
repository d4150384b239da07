//===-- Types: what is stored, and what is computed --------------------------===//

#ifndef ALTGRAD_TYPES_TD
#define ALTGRAD_TYPES_TD

include "dialect/Formats.td"

def Altgrad_TensorsType : TypeDef<Altgrad_Dialect, "Tensors"> {
  let mnemonic = "tensors";
  let summary = "a list of tensors in memory, all of one format";
  let description = [{
    A list has as many tensors as the caller binds, of any sizes. One launch covers all of them.

    ```mlir
    !altgrad.tensors<bf16>
    !altgrad.tensors<ocp.e4m3fn>
    !altgrad.tensors<f32 per 32>
    !altgrad.tensors<ocp.e8m0 per 32 columns>
    !altgrad.tensors<f32 per 128 squares>
    !altgrad.tensors<torchao4 packed>
    ```

    With `per 32`, 32 neighbouring elements share one stored value: element i of a tensor
    belongs to block i / 32, and the last block may be short. The global index of a
    tensor's first element is a multiple of the block.

    For the next two, a tensor counts as one matrix that has the rows of all its matrices, and
    element (i, j) is in row i and column j. With `per 32 columns`, 32 elements of a
    column share a value: element (i, j) belongs to block (i / 32, j). With `per 128 squares`,
    128 rows and 128 columns share a value: element (i, j) belongs to block
    (i / 128, j / 128). The last blocks of both directions may be short.

    With `packed`, the codes of two neighbours share a byte. The format says which of them is the
    upper half (`evenIsHigh` in runtime/include/altgrad/format.h). After an odd number of
    codes the last byte ends in four zeros. The global index of a tensor's first
    element is a multiple of 16.

    Constraints:

    - (tensors_c1) a block is a power of two from 16 to 256;
    - (tensors_c2) a block of a column has 32 elements;
    - (tensors_c3) only codes of 4 bits that are one for each element are packed;
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
  let summary = "a list of tensors as f32 values that are not stored";
  let description = [{
    Inside a step, all values of tensors have this type. A list has f32 elements and one
    pending factor that is common to all of them. `unscale`, `scale` and `clip_by_global_norm`
    change only the factor. Every other operation first multiplies each element by
    the factor, once, in f32. So a gradient that is both unscaled and clipped is
    rounded once.
  }];
}

#endif // ALTGRAD_TYPES_TD

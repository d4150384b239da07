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
    ```
  }];
  let parameters = (ins "::altgrad::FormatAttr":$format);
  let hasCustomAssemblyFormat = 1;
}

def Altgrad_RealsType : TypeDef<Altgrad_Dialect, "Reals">,
    BuildableType<"$_builder.getType<::altgrad::RealsType>()"> {
  let mnemonic = "reals";
  let summary = "a list of tensors as f32 values, never stored";
  let description = [{
    The one type of values inside a step: f32 elements of a list of tensors,
    with one common factor that is still to be multiplied in. `unscale` and
    `clip_by_global_norm` change the factor alone; every other operation first
    multiplies each element by it, once, in f32. So a gradient that is both
    unscaled and clipped is rounded once.
  }];
}

#endif // ALTGRAD_TYPES_TD

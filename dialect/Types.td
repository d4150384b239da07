//===-- Types: what is stored, and what is computed --------------------------===//

#ifndef ALTGRAD_TYPES_TD
#define ALTGRAD_TYPES_TD

include "dialect/Formats.td"
include "mlir/IR/SymbolInterfaces.td"

def Altgrad_TensorsType : TypeDef<Altgrad_Dialect, "Tensors"> {
  let mnemonic = "tensors";
  let summary = "a list of tensors in memory, all of one format";
  let description = [{
    A list has as many tensors as the caller binds, of any sizes. One launch covers all of them.

    ```mlir
    !altgrad.tensors<bf16>
    !altgrad.tensors<ocp.e4m3fn>
    !altgrad.tensors<f32 per 1x32>
    !altgrad.tensors<ocp.e8m0 per 32x1>
    !altgrad.tensors<f32 per 128x128>
    !altgrad.tensors<f32 per column>
    !altgrad.tensors<f32 per rows x rows>
    !altgrad.tensors<torchao4 packed>
    ```

    With `per`, the elements of a block (`#altgrad.block`) share one stored value. The global
    index of a tensor's first element is a multiple of a block of neighbours. `rows x rows` and `columns x columns` are
    square matrices, of which each tensor has one with so many rows.

    With `packed`, the codes of two neighbours share a byte. The format says which of them is the
    upper half (`evenIsHigh` in runtime/include/altgrad/format.h). After an odd number of
    codes the last byte ends in four zeros. The global index of a tensor's first
    element is a multiple of 16.

    Constraints:

    - (tensors_c1) a block is one that targets can cut: 1x16 to 1x2048 in powers of two of a
      row, 32x1 of a column, a whole column, 16x16, 32x32, 128x128, or an element of a square;
    - (tensors_c2) only codes of 4 bits that are one for each element are packed.
  }];
  let parameters = (ins "::altgrad::FormatAttr":$format,
                        DefaultValuedParameter<"::altgrad::BlockAttr", "::altgrad::BlockAttr::get($_ctxt, 1, 1)">:$block,
                        DefaultValuedParameter<"bool", "false">:$packed);
  let builders = [TypeBuilder<(ins "::altgrad::FormatAttr":$format), [{
    return $_get($_ctxt, format, BlockAttr::get($_ctxt, 1, 1), /*packed=*/false);
  }]>];
  let assemblyFormat = [{
    `<` custom<FormatName>($format) (`per` custom<Extents>($block)^)? (`packed` `` custom<Packed>($packed)^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether several elements share a value.
    bool isShared() const { return !getBlock().isElement(); }
    /// Whether it has a value for each column of a matrix.
    bool isPerColumn() const { return getBlock().isColumn(); }
    /// Whether it is of squares, with rows and columns of their own.
    bool isSquare() const { return getBlock().isSquare(); }
    /// Whether its values are no part of what a sweep over elements reads.
    bool hasOwnWalk() const { return getBlock().hasOwnWalk(); }
    /// Of an element: a fraction where several share a value.
    double getBytes() const {
      if (hasOwnWalk())
        return 0; // one row of many, or as many as no element says
      return double(getFormat().getBytes()) /
             (getBlock().getRows() * getBlock().getColumns() * (getPacked() ? 2 : 1));
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

def Altgrad_Access : Altgrad_Enum<"Access", "whether a step reads or writes an argument", [
    I32EnumCase<"In", 0, "in">,
    I32EnumCase<"Out", 1, "out">,
    I32EnumCase<"InOut", 2, "inout">]>;

// An enumeration of Roles.h, whose words are those of runtime/include/altgrad/bundle.h.
def Altgrad_Role : AttrParameter<"::altgrad::Role", "what it is for">;

def Altgrad_ArgumentAttr : AttrDef<Altgrad_Dialect, "Argument"> {
  let mnemonic = "argument";
  let summary = "what a rule or a step says of one of its arguments, besides its type";
  let description = [{
    `set` is -1 for an argument of no set. A hyper-parameter may have a `fallback`, its default, and so may an
    option of a rule. The `fallback` of a state that is a scalar is its first value. Arguments of a rule are all
    `in`, and their keys are their names; the scope of a state of elements is `block`.

    ```mlir
    #altgrad.argument<access = in, role = hyper, name = "lr", key = "lr", scope = group, set = -1,
                      fallback = 1.0e-3 : f64>
    ```
  }];
  let parameters = (ins EnumParameter<Altgrad_Access>:$access, Altgrad_Role:$role,
                        StringRefParameter<"in the text">:$name, StringRefParameter<"for front ends">:$key,
                        EnumParameter<Altgrad_Scope>:$scope, "int64_t":$set,
                        OptionalParameter<"::mlir::TypedAttr">:$fallback);
  let builders = [AttrBuilder<(ins "::altgrad::Role":$role, "::llvm::StringRef":$name, "::altgrad::Scope":$scope,
                                   "::mlir::TypedAttr":$fallback), [{
    return $_get($_ctxt, Access::In, role, name, name, scope, -1, fallback);
  }]>];
  let assemblyFormat = "`<` struct(params) `>`";
}

// A body whose arguments have roles.
class Altgrad_SignatureOp<string mnemonic, list<Trait> traits> : Altgrad_Op<mnemonic, !listconcat(traits,
    [Symbol, IsolatedFromAbove, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>])> {
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<Altgrad_ArgumentAttr, "arguments">:$signature);
  let regions = (region SizedRegion<1>:$body);
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  code ofArguments = [{
    ArgumentAttr of(::mlir::BlockArgument argument) {
      return ::llvm::cast<ArgumentAttr>(getSignature()[argument.getArgNumber()]);
    }
    ::llvm::StringRef getName(::mlir::BlockArgument argument) { return of(argument).getName(); }
    Role getRole(::mlir::BlockArgument argument) { return of(argument).getRole(); }
    /// The default of a hyper-parameter or of an option, or null.
    ::mlir::TypedAttr getDefault(::mlir::BlockArgument argument) { return of(argument).getFallback(); }
  }];
  let extraClassDefinition = [{
    void $cppClass::getAsmBlockArgumentNames(::mlir::Region &region, ::mlir::OpAsmSetValueNameFn set) {
      for (::mlir::BlockArgument argument : region.getArguments())
        if (argument.getArgNumber() < getSignature().size())
          set(argument, getName(argument));
    }
  }];
}

#endif // ALTGRAD_TYPES_TD

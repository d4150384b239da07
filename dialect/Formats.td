//===-- Number formats, rounding and overflow --------------------------------===//

#ifndef ALTGRAD_FORMATS_TD
#define ALTGRAD_FORMATS_TD

include "dialect/Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Altgrad_Enum<string name, string summary, list<I32EnumCase> cases> : I32Enum<name, summary, cases> {
  let cppNamespace = "::altgrad";
}
class Altgrad_BracedAttr<EnumInfo values, string name> : EnumAttr<Altgrad_Dialect, values, name> {
  let assemblyFormat = "`<` $value `>`";
}

// Cases and order of altgrad::NanCode in runtime/include/altgrad/format.h.
def Altgrad_Nan : Altgrad_Enum<"Nan", "which codes are not numbers", [
    I32EnumCase<"None", 0, "none">,
    I32EnumCase<"AllOnes", 1, "all_ones">,
    I32EnumCase<"Ieee", 2, "ieee">]>;

// Cases and order of altgrad::Ties.
def Altgrad_Tie : Altgrad_Enum<"Tie", "where a number half-way between two codes goes", [
    I32EnumCase<"Even", 0, "even">,
    I32EnumCase<"Down", 1, "down">,
    I32EnumCase<"Up", 2, "up">]>;

// Cases and order of altgrad::Rounding in runtime/include/altgrad/format.h.
def Altgrad_Rounding : Altgrad_Enum<"Round", "how a number between two codes is stored", [
    I32EnumCase<"NearestEven", 0, "nearest_even">,
    I32EnumCase<"TowardZero", 1, "toward_zero">,
    I32EnumCase<"Stochastic", 2, "stochastic">]>;

def Altgrad_Overflow : Altgrad_Enum<"OverflowMode", "what a number beyond the format becomes", [
    I32EnumCase<"NonFinite", 0, "nonfinite">,
    I32EnumCase<"Saturate", 1, "saturate">]>;

// Scope of a scalar: it has one value, one for each parameter group, or one for each
// tensor. Reductions may also be over units: equal runs of a tensor's elements, which are
// the rows of its matrices unless the caller says otherwise; and over blocks. From the scope
// with the fewest values to that with the most. A state of a rule may be per column, or a square matrix
// beside the tensor; of such a value the geometry is `#altgrad.block<column>`, `<rows x rows>` or
// `<columns x columns>`.
def Altgrad_Scope : Altgrad_Enum<"Scope", "how many values a scalar has", [
    I32EnumCase<"Step", 0, "step">,
    I32EnumCase<"Group", 1, "group">,
    I32EnumCase<"Tensor", 2, "tensor">,
    I32EnumCase<"Unit", 3, "unit">,
    I32EnumCase<"Block", 4, "block">,
    I32EnumCase<"Column", 5, "column">,
    I32EnumCase<"RowSquare", 6, "row_square">,
    I32EnumCase<"ColumnSquare", 7, "column_square">]>;
def Altgrad_ScopeAttr : EnumAttr<Altgrad_Dialect, Altgrad_Scope, "scope">;

def Altgrad_BlockAttr : AttrDef<Altgrad_Dialect, "Block"> {
  let mnemonic = "block";
  let summary = "the elements that share a value";
  let description = [{
    A tensor counts as one matrix that has the rows of all its matrices. With R x C, element
    (i, j) is in block (i / R, j / C); the last blocks of both directions may be short. A `?`
    is the whole extent of the tensor. Blocks of a row are runs of memory: element i of the
    tensor is in block i / C, and a run may go on in the next row. A name stands for what is
    larger, or is no rectangle; `column` stands for ?x1. `rows x rows` and `columns x columns` are the
    elements of square matrices, which a tensor has beside its own: each is a block by itself.

    ```mlir
    #altgrad.block<1x1>
    #altgrad.block<1x32>
    #altgrad.block<32x1>
    #altgrad.block<128x128>
    #altgrad.block<1x?>
    #altgrad.block<column>
    #altgrad.block<rows x rows>
    #altgrad.block<unit>
    #altgrad.block<tensor>
    #altgrad.block<step>
    ```

    Constraints:

    - (geometry_c1) both extents are at least 1.
  }];
  // Of a name both extents are 0; of an element of a square the rows are -1 (rows x rows) or -2.
  let parameters = (ins EnumParameter<Altgrad_Scope>:$scope, "int64_t":$rows, "int64_t":$columns);
  let builders = [AttrBuilder<(ins "::altgrad::Scope":$scope), [{ return $_get($_ctxt, scope, 0, 0); }]>,
    AttrBuilder<(ins "int64_t":$rows, "int64_t":$columns),
                [{ return $_get($_ctxt, ::altgrad::Scope::Block, rows, columns); }]>];
  let assemblyFormat = "`<` custom<BlockName>($scope, $rows, $columns) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isElement() const { return getRows() == 1 && getColumns() == 1; }
    /// Whether it is a tensor, by its extents.
    bool isWhole() const {
      return ::mlir::ShapedType::isDynamic(getRows()) && ::mlir::ShapedType::isDynamic(getColumns());
    }
    /// Neighbours in memory, of which there are getColumns(); an element is one.
    bool isRun() const { return getRows() == 1 && !::mlir::ShapedType::isDynamic(getColumns()); }
    /// Its elements in the longer direction.
    int64_t getLength() const { return std::max(getRows(), getColumns()); }
    /// Whether it goes over rows of a matrix, so that a tile has to hold it.
    bool isOverRows() const { return getScope() == Scope::Block && getRows() != 1 && !isColumn() && !isSquare(); }
    /// Whether it is a whole column of a matrix.
    bool isColumn() const {
      return getScope() == Scope::Block && ::mlir::ShapedType::isDynamic(getRows()) && getColumns() == 1;
    }
    static BlockAttr getColumn(::mlir::MLIRContext *context) {
      return get(context, Scope::Block, ::mlir::ShapedType::kDynamic, 1);
    }
    /// Whether it is an element of a square matrix, of `rows x rows` or of `columns x columns`.
    bool isSquare() const { return getScope() == Scope::Block && (getRows() == -1 || getRows() == -2); }
    bool isRowSquare() const { return isSquare() && getRows() == -1; }
    static BlockAttr getSquare(::mlir::MLIRContext *context, bool ofRows) {
      return get(context, Scope::Block, ofRows ? -1 : -2, 1);
    }
    /// What a state of a rule has with this scope.
    static BlockAttr getOfState(::mlir::MLIRContext *context, Scope scope) {
      return scope == Scope::Column ? getColumn(context)
             : scope == Scope::RowSquare || scope == Scope::ColumnSquare
                 ? getSquare(context, scope == Scope::RowSquare)
                 : get(context, scope);
    }
    /// Whether it has items of its own to be walked over, and none of a tensor's elements.
    bool hasOwnWalk() const { return isColumn() || isSquare(); }
    /// What differs where this or `other` differs.
    BlockAttr meet(BlockAttr other) const;
    /// Whether what is the same in a block of this kind is so in one of `other`, too.
    bool covers(BlockAttr other) const { return meet(other) == other; }
  }];
}

def Altgrad_Dimension : Altgrad_Enum<"Dimension", "which extent of a tensor", [
    I32EnumCase<"Rows", 0, "rows">,
    I32EnumCase<"Columns", 1, "columns">,
    I32EnumCase<"Batch", 2, "batch">,
    I32EnumCase<"Unit", 3, "unit">]>;
def Altgrad_DimensionAttr : EnumAttr<Altgrad_Dialect, Altgrad_Dimension, "dimension">;

def Altgrad_Reduction : Altgrad_Enum<"Reduction", "how elements are combined", [
    I32EnumCase<"Add", 0, "add">,
    I32EnumCase<"SumSq", 1, "sumsq">,
    I32EnumCase<"Max", 2, "max">,
    I32EnumCase<"And", 3, "and">,
    I32EnumCase<"AbsMax", 4, "absmax">,
    I32EnumCase<"Count", 5, "count">]>;
def Altgrad_ReductionAttr : EnumAttr<Altgrad_Dialect, Altgrad_Reduction, "reduction">;
// Whose definition of a loss scaler: they differ in when a scale grows, and in whether it may overflow.
def Altgrad_Scaler : Altgrad_Enum<"Scaler", "how a loss scale follows what was found", [
    I32EnumCase<"Torch", 0, "torch">,
    I32EnumCase<"Boostr", 1, "boostr">]>;
def Altgrad_ScalerAttr : Altgrad_BracedAttr<Altgrad_Scaler, "scaler">;
def Altgrad_NormKind : Altgrad_Enum<"NormKind", "what a norm is of: magnitudes, squares, the largest", [
    I32EnumCase<"L1", 0, "l1">,
    I32EnumCase<"L2", 1, "l2">,
    I32EnumCase<"LInf", 2, "linf">]>;
def Altgrad_NormKindAttr : EnumAttr<Altgrad_Dialect, Altgrad_NormKind, "norm_kind">;
def Altgrad_Companding : Altgrad_Enum<"Companding", "how a share of a block's largest number is bent before it is a code", [
    I32EnumCase<"Softsign", 0, "softsign">,
    I32EnumCase<"Sqrt", 1, "sqrt">]>;
def Altgrad_CompandingAttr : Altgrad_BracedAttr<Altgrad_Companding, "companding">;
def Altgrad_RoundingAttr : Altgrad_BracedAttr<Altgrad_Rounding, "rounding">;
def Altgrad_OverflowAttr : Altgrad_BracedAttr<Altgrad_Overflow, "overflow">;

def Altgrad_FormatAttr : AttrDef<Altgrad_Dialect, "Format"> {
  let mnemonic = "format";
  let summary = "which number each stored code is";
  let description = [{
    A format is data: the number of `exponent` and `mantissa` bits next to the sign, the
    exponent's `bias`, whether the top exponent holds an infinity (`inf`), and
    which codes are NaN (`nan`). Codes have a sign and a magnitude. Exponent
    field 0 holds the subnormal numbers. In a format without exponent bits, a code of
    magnitude m is m * 2^(-mantissa - bias).

    Four more words are written only where they differ from the default:

    - `signed = false`: no number is negative, and there is no sign bit;
    - `zero = false`: there is no zero, and code 0 is 2^-bias;
    - `ties = down|up`: a number half-way between two powers of two is rounded to the
      smaller or the larger one, and not to the even code;
    - `complement = true`: codes are in two's complement.

    Code books are formats that only have a name: `bnb8`, `bnb8u`, `torchao4` and
    `torchao4u` are the tables of bitsandbytes and torchao, of numbers up to 1; those with
    a u have no negative numbers. A code is a place in the table. A number is rounded to the
    nearest one of the table, and a tie to the higher one. Code books are used for numbers
    that a scale has brought into this range.

    Codes of 2 to 8 bits are stored in one byte, codes of 9 to 16 bits in two.

    A format that has a name is written by its name. `altgrad-opt --list-formats` lists
    the names. They are the rows of one table in runtime/include/altgrad/format.h.

    ```mlir
    #altgrad.format<ocp.e4m3fn>
    #altgrad.format<exponent = 3, mantissa = 4, bias = 2, inf = false, nan = none>
    #altgrad.format<exponent = 5, mantissa = 3, bias = 15, inf = false, nan = none, signed = false>
    ```

    Constraints:

    - (format_c1) it has 2 to 16 bits, or is f32;
    - (format_c2) 0 to 8 bits are the exponent's;
    - (format_c3) with its bias, every number is an f32;
    - (format_c4) a format without exponent or mantissa bits has no IEEE NaN;
    - (format_c5) it has an infinity exactly if its NaN is IEEE's;
    - (format_c6) not every code is a NaN;
    - (format_c7) a format without a zero has no mantissa bits and no sign;
    - (format_c8) a format with mantissa bits or fewer than 2 exponent bits rounds ties to the
      even code;
    - (format_c9) a format in two's complement has a sign, no exponent bits and no NaN.
  }];
  let parameters = (ins "unsigned":$exponent, "unsigned":$mantissa, "int":$bias,
                        "bool":$inf, EnumParameter<Altgrad_Nan>:$nan,
                        "bool":$hasSign, "bool":$hasZero,
                        EnumParameter<Altgrad_Tie>:$ties, "bool":$complement,
                        "unsigned":$book);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bits of a code, the sign included: 2 to 16, or 32.
    unsigned getBits() const;
    unsigned getBytes() const { return (getBits() + 7) / 8; }
    bool isF32() const { return getKnownName() == "f32"; }
    /// Whether a storage line has what is too large become an infinity: f32,
    /// bf16, f16; everything else saturates.
    bool overflowsToInf() const { return getInf() && getBits() > 8; }
    /// "bf16", "ocp.e4m3fn", ...; empty for a format without a name.
    ::llvm::StringRef getKnownName() const;
    /// The format that has this name, or null.
    static FormatAttr getNamed(::mlir::MLIRContext *context, ::llvm::StringRef name);
    /// The sentence about a name that no format has.
    static ::std::string unknown(::llvm::StringRef name);
    /// The type of a code in the program: f32 itself, otherwise i8 or i16.
    ::mlir::Type getCodeType() const;
    /// The same format for the codec of runtime/include/altgrad/format.h.
    Format toFormat() const;
  }];
}

#endif // ALTGRAD_FORMATS_TD

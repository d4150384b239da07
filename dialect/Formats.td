//===-- Number formats, rounding and overflow --------------------------------===//

#ifndef ALTGRAD_FORMATS_TD
#define ALTGRAD_FORMATS_TD

include "dialect/Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

// Cases and order of altgrad::NanCode in runtime/include/altgrad/format.h.
def Altgrad_Nan : I32Enum<"Nan", "which codes are not numbers", [
    I32EnumCase<"None", 0, "none">,
    I32EnumCase<"AllOnes", 1, "all_ones">,
    I32EnumCase<"Ieee", 2, "ieee">]> {
  let cppNamespace = "::altgrad";
}

// Cases and order of altgrad::Ties.
def Altgrad_Tie : I32Enum<"Tie", "where a number half-way between two codes goes", [
    I32EnumCase<"Even", 0, "even">,
    I32EnumCase<"Down", 1, "down">,
    I32EnumCase<"Up", 2, "up">]> {
  let cppNamespace = "::altgrad";
}

// Cases and order of altgrad::Rounding in runtime/include/altgrad/format.h.
def Altgrad_Rounding : I32Enum<"Round", "how a number between two codes is stored", [
    I32EnumCase<"NearestEven", 0, "nearest_even">,
    I32EnumCase<"TowardZero", 1, "toward_zero">,
    I32EnumCase<"Stochastic", 2, "stochastic">]> {
  let cppNamespace = "::altgrad";
}

def Altgrad_Overflow : I32Enum<"OverflowMode", "what a number beyond the format becomes", [
    I32EnumCase<"NonFinite", 0, "nonfinite">,
    I32EnumCase<"Saturate", 1, "saturate">]> {
  let cppNamespace = "::altgrad";
}

// Scope of a scalar: one value, one per parameter group, one per tensor. Reductions
// may be over units as well: equal runs of a tensor's elements, rows of its matrices
// where the caller says nothing else.
def Altgrad_Scope : I32Enum<"Scope", "how many values a scalar has", [
    I32EnumCase<"Step", 0, "step">,
    I32EnumCase<"Group", 1, "group">,
    I32EnumCase<"Tensor", 2, "tensor">,
    I32EnumCase<"Unit", 3, "unit">]> {
  let cppNamespace = "::altgrad";
}
def Altgrad_ScopeAttr : EnumAttr<Altgrad_Dialect, Altgrad_Scope, "scope">;

def Altgrad_Dimension : I32Enum<"Dimension", "which extent of a tensor", [
    I32EnumCase<"Rows", 0, "rows">,
    I32EnumCase<"Columns", 1, "columns">,
    I32EnumCase<"Batch", 2, "batch">]> {
  let cppNamespace = "::altgrad";
}
def Altgrad_DimensionAttr : EnumAttr<Altgrad_Dialect, Altgrad_Dimension, "dimension">;

def Altgrad_Reduction : I32Enum<"Reduction", "how elements are combined", [
    I32EnumCase<"Add", 0, "add">,
    I32EnumCase<"SumSq", 1, "sumsq">,
    I32EnumCase<"Max", 2, "max">,
    I32EnumCase<"And", 3, "and">]> {
  let cppNamespace = "::altgrad";
}
def Altgrad_ReductionAttr : EnumAttr<Altgrad_Dialect, Altgrad_Reduction, "reduction">;
// Whose loss scaler: definitions differ in when a scale grows, and whether it may overflow.
def Altgrad_Scaler : I32Enum<"Scaler", "how a loss scale follows what was found", [
    I32EnumCase<"Torch", 0, "torch">,
    I32EnumCase<"Boostr", 1, "boostr">]> {
  let cppNamespace = "::altgrad";
}
def Altgrad_ScalerAttr : EnumAttr<Altgrad_Dialect, Altgrad_Scaler, "scaler"> {
  let assemblyFormat = "`<` $value `>`";
}
def Altgrad_NormKind : I32Enum<"NormKind", "what a norm is of: magnitudes, squares, the largest", [
    I32EnumCase<"L1", 0, "l1">,
    I32EnumCase<"L2", 1, "l2">,
    I32EnumCase<"LInf", 2, "linf">]> {
  let cppNamespace = "::altgrad";
}
def Altgrad_NormKindAttr : EnumAttr<Altgrad_Dialect, Altgrad_NormKind, "norm_kind">;
def Altgrad_RoundingAttr : EnumAttr<Altgrad_Dialect, Altgrad_Rounding, "rounding"> {
  let assemblyFormat = "`<` $value `>`";
}
def Altgrad_OverflowAttr : EnumAttr<Altgrad_Dialect, Altgrad_Overflow, "overflow"> {
  let assemblyFormat = "`<` $value `>`";
}

def Altgrad_FormatAttr : AttrDef<Altgrad_Dialect, "Format"> {
  let mnemonic = "format";
  let summary = "which number each stored code is";
  let description = [{
    A format is data: `exponent` and `mantissa` bits beside the sign, the
    exponent's `bias`, whether the top exponent holds an infinity (`inf`) and
    which codes are not numbers (`nan`). Codes are sign-magnitude; exponent
    field 0 holds the subnormal numbers. Without exponent bits a code of magnitude m
    is m * 2^(-mantissa - bias).

    Four words are said where they are not as usual: `signed = false`, for
    what is never negative, with a bit more for the number; `zero = false`, where
    code 0 is 2^-bias; `ties = down|up`, where a number half-way between two
    powers of two goes to the smaller or the larger; `complement = true`, two's
    complement in place of sign and magnitude.

    A code book is a format by its name alone: `bnb8`, `bnb8u`, `torchao4` and
    `torchao4u` are the maps of bitsandbytes and torchao, numbers up to 1, without
    the u signed. A code is a place in its table. They round to the nearest number,
    of two to the higher one, and are for what a scale brings into their range.

    Codes of 2 to 8 bits are stored one in a byte, those of 9 to 16 in two.

    Known names stand for the numbers; `altgrad-opt --list-formats` lists them
    with what they hold. They are the rows of one table in
    runtime/include/altgrad/format.h.

    ```mlir
    #altgrad.format<ocp.e4m3fn>
    #altgrad.format<exponent = 3, mantissa = 4, bias = 2, inf = false, nan = none>
    #altgrad.format<exponent = 5, mantissa = 3, bias = 15, inf = false, nan = none, signed = false>
    ```

    Constraints:

    - (format_c1) it has 2 to 16 bits, or is f32;
    - (format_c2) 0 to 8 of them are the exponent's;
    - (format_c3) the bias is one for which every number is an f32;
    - (format_c4) without an exponent or a mantissa there is no IEEE NaN;
    - (format_c5) it has an infinity exactly when its NaN is IEEE's;
    - (format_c6) beside a NaN there is a number;
    - (format_c7) without a zero there is neither a mantissa nor a sign;
    - (format_c8) with a mantissa or less than 2 exponent bits, ties go to the
      even code;
    - (format_c9) two's complement has a sign, no exponent and no NaN.
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
    /// Whether codes are places in a table.
    bool isBook() const { return getBook() > 0; }
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

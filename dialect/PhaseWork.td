//===-- What an operation does in a phase, and what it costs -----------------===//

#ifndef ALTGRAD_PHASEWORK_TD
#define ALTGRAD_PHASEWORK_TD

include "dialect/Formats.td"
include "mlir/IR/OpAsmInterface.td"

def Altgrad_Domain : Altgrad_Enum<"Domain", "what one item of a phase is", [
    I32EnumCase<"Chunks", 0, "chunks">,
    I32EnumCase<"Rows", 1, "rows">,
    I32EnumCase<"Once", 2, "once">]>;
def Altgrad_DomainAttr : EnumAttr<Altgrad_Dialect, Altgrad_Domain, "domain">;

def Altgrad_Space : Altgrad_Enum<"Space", "where a word of the workspace lies", [
    I32EnumCase<"Step", 0, "step">,
    I32EnumCase<"Row", 1, "row">,
    I32EnumCase<"Chunk", 2, "chunk">,
    I32EnumCase<"Tensor", 3, "tensor">]>;
def Altgrad_SpaceAttr : EnumAttr<Altgrad_Dialect, Altgrad_Space, "space">;

// The words of a manifest.
def Altgrad_PhaseKind : Altgrad_Enum<"PhaseKind", "what a phase is for", [
    I32EnumCase<"Scalars", 0, "scalars">,
    I32EnumCase<"Total", 1, "total">,
    I32EnumCase<"Fold", 2, "fold">,
    I32EnumCase<"Sweep", 3, "sweep">,
    I32EnumCase<"Matrix", 4, "matrix">]>;

// Of a GPU; a processor has one thread for each item.
def Altgrad_Workers : Altgrad_Enum<"Workers", "who does one item of a phase", [
    I32EnumCase<"Thread", 0, "thread">,
    I32EnumCase<"Warp", 1, "warp">,
    I32EnumCase<"Block", 2, "block">]>;

def Altgrad_PhaseWork : OpInterface<"PhaseWork"> {
  let cppNamespace = "::altgrad";
  let description = [{
    An operation of a phase says what it is done for, which memory it touches and what it
    costs. Whoever plans, verifies, launches or describes phases asks here and knows no
    operation by its name. An operation of a phase without this interface computes
    scalars from its operands and touches no memory.
  }];
  let methods = [
    InterfaceMethod<"The kind of a phase of which it is the work.",
      "::altgrad::PhaseKind", "getPhaseKind", (ins), "",
      "return ::altgrad::PhaseKind::Scalars;">,
    InterfaceMethod<"What one item of its phase is; none: anything.",
      "std::optional<::altgrad::Domain>", "getItem", (ins), "",
      "return std::nullopt;">,
    InterfaceMethod<"The memory that it reads for an item.",
      "::llvm::SmallVector<::altgrad::MemoryAccess>", "getReads", (ins), "", "return {};">,
    InterfaceMethod<"The memory that it writes for an item.",
      "::llvm::SmallVector<::altgrad::MemoryAccess>", "getWrites", (ins), "", "return {};">,
    InterfaceMethod<"The bytes of lists of tensors that it reads, for each of their elements.",
      "double", "getBytesRead", (ins), "",
      "return ::altgrad::bytesPerElement($_op.getReads());">,
    InterfaceMethod<"The bytes that it writes, for each element.",
      "double", "getBytesWritten", (ins), "",
      "return ::altgrad::bytesPerElement($_op.getWrites());">,
    InterfaceMethod<[{The operations on numbers, for each element: one for a sum, difference,
      product, quotient or root, two for a product and a sum in one.}],
      "double", "getFlops", (ins), "", "return 0;">,
    InterfaceMethod<"How its result joins that of other devices after an exchange; none: it is no share.",
      "std::optional<::altgrad::Reduction>", "getShare", (ins), "",
      "return std::nullopt;">,
    InterfaceMethod<"Whether all items of earlier phases are finished before it begins: it has a launch of its own.",
      "bool", "startsLaunch", (ins), "", "return false;">,
    InterfaceMethod<"Whether no later phase may join its launch.",
      "bool", "endsLaunch", (ins), "", "return false;">,
    InterfaceMethod<"Which threads of a GPU do an item.",
      "::altgrad::Workers", "getWorkers", (ins), "",
      "return ::altgrad::Workers::Thread;">,
    InterfaceMethod<"Items start at multiples of so many elements; 1: anywhere.",
      "unsigned", "getBlock", (ins), "", "return 1;">,
    InterfaceMethod<"The rows of a tile where an item is one; 0: an item is a chunk.",
      "unsigned", "getTileRows", (ins), "", "return 0;">];
}

#endif // ALTGRAD_PHASEWORK_TD

//===-- The altgrad dialect itself ------------------------------------------===//

#ifndef ALTGRAD_DIALECT_TD
#define ALTGRAD_DIALECT_TD

include "mlir/IR/DialectBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"

def Altgrad_Dialect : Dialect {
  let name = "altgrad";
  let cppNamespace = "::altgrad";
  let summary = "optimizer updates, storage formats and passes over memory";
  let description = [{
    Four words have one meaning each:

    - a **rule** is the update of one parameter tensor as mathematics in f32;
    - a **step** says in which format everything is stored, and in which order
      unscale, clip, update and quantize happen;
    - a **sweep** is one pass over memory;
    - a **bundle** is the compiled artefact.

    The dialect has operations for the first three. Arithmetic is written with MLIR's
    dialects `arith` and `math`, without fast-math flags. Only a written `math.fma` combines
    a product and a sum.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Reads an operation under the name that it had one release ago, with a warning.
    std::optional<ParseOpHook> getParseOperationHook(::llvm::StringRef name) const override;
  }];
}

class Altgrad_Op<string mnemonic, list<Trait> traits = []>
    : Op<Altgrad_Dialect, mnemonic, traits>;

// Several results are called as the location says, where it says so; otherwise as ODS has it.
class Altgrad_NamedResultsOp<string mnemonic, list<Trait> traits>
    : Altgrad_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>])> {
  let extraClassDefinition = [{
    void $cppClass::getAsmResultNames(::mlir::OpAsmSetValueNameFn set) {
      ::llvm::StringRef names[] = {}] # !interleave(!foreach(i, !range(!size(results)),
        "\"" # !getdagname(results, i) # "\""), ", ") # [{};
      if (!nameByLocation(*this, set))
        for (auto [index, name] : ::llvm::enumerate(names))
          for (::mlir::Value first : getODSResults(index).take_front(1))
            set(first, name);
    }
  }];
}

#endif // ALTGRAD_DIALECT_TD

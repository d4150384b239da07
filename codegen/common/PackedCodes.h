// Codes of 4 bits, two of which share a byte, and any others by the same words.
#ifndef ALTGRAD_CODEGEN_PACKEDCODES_H
#define ALTGRAD_CODEGEN_PACKEDCODES_H

#include "codegen/common/KernelBuilder.h"

namespace altgrad {

bool isPacked(mlir::Value stream);

/// The codes in some bytes of a packed stream, and back.
mlir::Value unpackCodes(mlir::ImplicitLocOpBuilder &builder, mlir::Value stream,
                        mlir::Value bytes);
mlir::Value packCodes(mlir::ImplicitLocOpBuilder &builder, mlir::Value stream,
                      mlir::Value codes);

/// The same in words of 32 bits, one code after the other: what LLVM makes of few
/// bytes in vectors a GPU would have to take apart. `first`: of eight in a word.
mlir::Value unpackWord(mlir::ImplicitLocOpBuilder &builder, mlir::Value stream,
                       mlir::Value word, mlir::VectorType codes, unsigned first);
mlir::Value packWord(mlir::ImplicitLocOpBuilder &builder, mlir::Value stream,
                     llvm::ArrayRef<mlir::Value> codes);

/// Neighbours from an even element on; `alignment` is that of codes that are not packed.
mlir::Value loadCodes(KernelBuilder &kernel, mlir::Value stream,
                      mlir::VectorType codes, mlir::Value at, unsigned alignment);
void storeCodes(KernelBuilder &kernel, mlir::Value stream, mlir::Value codes,
                mlir::Value at, unsigned alignment);

/// The code of an element; `at` is where it lies, `place` says whether its number is odd.
mlir::Value loadCode(KernelBuilder &kernel, mlir::Value stream, mlir::Type type,
                     mlir::Value at, mlir::Value place, bool invariant = false);
/// An odd one keeps what is before it. An even one leaves 0 behind it, or what is there
/// if `keepsNext`, an i1, says so; null: it never does.
void storeCode(KernelBuilder &kernel, mlir::Value stream, mlir::Value code,
               mlir::Value at, mlir::Value place, mlir::Value keepsNext);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_PACKEDCODES_H

// Codes of 4 bits, two of which share a byte, and any others by the same words.
#ifndef ALTGRAD_CODEGEN_COMMON_PACKEDCODES_H
#define ALTGRAD_CODEGEN_COMMON_PACKEDCODES_H

#include "codegen/common/KernelBuilder.h"

namespace altgrad {

/// The codes of a packed stream in words of 32 bits, one code after the other, and back: what LLVM makes of few
/// bytes in vectors a GPU would have to take apart. `first`: of eight in a word.
Value unpackWord(CodeBuilder &builder, Value stream, Value word, VectorType codes, unsigned first);
Value packWord(CodeBuilder &builder, Value stream, ArrayRef<Value> codes);

/// Neighbours from an even element on; `alignment` is that of codes that are not packed.
Value loadCodes(KernelBuilder &kernel, Value stream, VectorType codes, Value at, unsigned alignment);
void storeCodes(KernelBuilder &kernel, Value stream, Value codes, Value at, unsigned alignment);

/// The code of an element; `at` is where it lies, `index` says whether its number is odd.
Value loadCode(KernelBuilder &kernel, Value stream, Type type, Value at, Value index, bool invariant = false);
/// An odd one keeps what is before it. An even one leaves 0 behind it, or what is there
/// if `preservesNext`, an i1, says so; null: it never does.
void storeCode(KernelBuilder &kernel, Value stream, Value code, Value at, Value index, Value preservesNext);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_PACKEDCODES_H

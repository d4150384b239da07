// Random bits as a function of a counter and a key.
#ifndef ALTGRAD_CODEGEN_NUMERICS_PHILOX_H
#define ALTGRAD_CODEGEN_NUMERICS_PHILOX_H

#include "dialect/builders/CodeBuilder.h"
#include <array>

namespace altgrad {

/// A call's bits, in words of 32; it serves as many elements as have room.
constexpr int64_t bytesPerCall = 16;
/// The draws of so many elements are whole calls, of 16 bits or 32.
constexpr int64_t drawGroup = 8;

using PhiloxWords = std::array<Value, 4>;
/// Philox4x32-10 (Salmon et al., 2011) of a counter. Words are i32, or i64
/// whose upper halves mean nothing, or vectors of either; the key is an i64.
PhiloxWords philox(CodeBuilder &b, PhiloxWords counter, Value key);
/// The counter's last word: a tensor's tag below the number of a store; i64.
Value philoxTag(CodeBuilder &b, Value tag, int64_t store);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_PHILOX_H

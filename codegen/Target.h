// The machines code is generated for, as a table.
#ifndef ALTGRAD_CODEGEN_TARGET_H
#define ALTGRAD_CODEGEN_TARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace altgrad {

struct Target {
  llvm::StringLiteral name;   // as on the command line
  llvm::StringLiteral chip;   // as LLVM knows it
  llvm::StringLiteral suffix; // of a host kernel's symbol; "" for PTX
  llvm::StringLiteral ptx;    // lowest PTX version of the chip; "" for a CPU
  unsigned lanes;             // f32 lanes of a CPU's vector
  bool convertsF8;            // packed f32 to e4m3 and e5m2 in hardware

  bool isPtx() const { return !ptx.empty(); }
};

llvm::ArrayRef<Target> getTargets();

/// Null for an unknown name.
const Target *findTarget(llvm::StringRef name);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_TARGET_H

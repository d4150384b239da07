// What LLD names of LLVM but altgrad never calls: it initialises all targets for
// link-time optimisation, and asks for Polly. With LLVM's archives that would
// link 20 back ends; these empty functions stand in for them.
#include "llvm/Plugins/PassPlugin.h"

#define UNUSED_TARGET(name)                                                                                            \
  extern "C" void LLVMInitialize##name##TargetInfo() {}                                                                \
  extern "C" void LLVMInitialize##name##Target() {}                                                                    \
  extern "C" void LLVMInitialize##name##TargetMC() {}                                                                  \
  extern "C" void LLVMInitialize##name##AsmPrinter() {}                                                                \
  extern "C" void LLVMInitialize##name##AsmParser() {}

UNUSED_TARGET(AArch64)
UNUSED_TARGET(AMDGPU)
UNUSED_TARGET(ARM)
UNUSED_TARGET(AVR)
UNUSED_TARGET(BPF)
UNUSED_TARGET(Hexagon)
UNUSED_TARGET(Lanai)
UNUSED_TARGET(LoongArch)
UNUSED_TARGET(M68k)
UNUSED_TARGET(MSP430)
UNUSED_TARGET(Mips)
UNUSED_TARGET(PowerPC)
UNUSED_TARGET(RISCV)
UNUSED_TARGET(SPIRV)
UNUSED_TARGET(Sparc)
UNUSED_TARGET(SystemZ)
UNUSED_TARGET(VE)
UNUSED_TARGET(WebAssembly)
UNUSED_TARGET(XCore)
UNUSED_TARGET(Xtensa)

llvm::PassPluginLibraryInfo getPollyPluginInfo() { return {}; }

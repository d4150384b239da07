// What the machine finds wrong with a running kernel: a kind with a name, and a
// sentence.
#ifndef ALTGRAD_TESTS_PTX_FAULT_H
#define ALTGRAD_TESTS_PTX_FAULT_H

#include <cstdint>
#include <string>

namespace ptx {

enum class FaultKind : uint8_t {
  None,
  BadLaunch,
  StepLimit,
  OutOfBounds,
  Misaligned,
  WrongStateSpace,
  ReadOnly,
  UninitialisedRegister,
  UninitialisedMemory,
  SharedRace,
  GlobalRace,
  BarrierDivergence,
  WarpDivergence,
  Undefined,
  Trap,
  Overlap,
  Stale
};

inline const char *nameOf(FaultKind kind) {
  static const char *const names[] = {"none",
                                      "bad-launch",
                                      "step-limit",
                                      "out-of-bounds",
                                      "misaligned",
                                      "wrong-state-space",
                                      "read-only",
                                      "uninitialised-register",
                                      "uninitialised-memory",
                                      "shared-race",
                                      "global-race",
                                      "barrier-divergence",
                                      "warp-divergence",
                                      "undefined",
                                      "trap",
                                      "overlap",
                                      "stale"};
  return names[unsigned(kind)];
}

struct Fault {
  FaultKind kind;
  std::string message;
};

} // namespace ptx

#endif

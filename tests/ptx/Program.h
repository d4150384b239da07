// The decoded program: what the parser hands to the machine, registers already
// numbered.
#ifndef ALTGRAD_TESTS_PTX_PROGRAM_H
#define ALTGRAD_TESTS_PTX_PROGRAM_H

#include "Format.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptx {

struct Thread;
struct Instruction;
using Handler = void (*)(Thread &, const Instruction &);

enum class Space : uint8_t { Generic, Global, Shared, Local, Param, Const };
enum class MemoryOrder : uint8_t { Weak, Relaxed, Acquire, Release, AcqRel };
enum class Scope : uint8_t { Cta, Gpu };

/// A refusal of the text, with its line.
struct ParseError : std::runtime_error {
  unsigned line;
  ParseError(unsigned line, const std::string &what)
      : std::runtime_error("line " + std::to_string(line) + ": " + what),
        line(line) {}
};

/// What the modifiers of an opcode say; each family of handlers reads its own
/// members.
struct Traits {
  const Format *format = nullptr; // of the result
  const Format *source = nullptr; // of a conversion's operand
  Rounding rounding = Rounding::NearestEven;
  bool ftz = false, saturate = false, relu = false, nan = false;
  bool xorSignAbs = false;
  bool isSigned = false, sourceSigned = false;
  uint8_t numbers = 1; // packed in a register
  uint8_t bits = 0, sourceBits = 0;
  uint8_t operation = 0, combine = 0; // enumerators private to a family
  Space space = Space::Generic;
  uint8_t vector = 1;
  MemoryOrder order = MemoryOrder::Weak;
  Scope scope = Scope::Gpu;
  bool strong = false; // takes part in synchronisation
};

enum class SlotKind : uint8_t { Value, Predicate, Address, Label, Table, Mask };

/// One operand position of a form.
struct Slot {
  SlotKind kind = SlotKind::Value;
  uint8_t bits = 0;
  uint8_t count = 1; // length of a {vector}
  bool isDestination = false;
  bool isFloat = false;    // takes 0f or 0d immediates
  bool mayBeWider = false; // ld, st and cvt: the register may be wider
  bool mayBeAddress = false;
  bool isOptional = false;
  bool isPair = false;    // p|q
  bool isVector = false;  // in braces, also of one
  bool mayNegate = false; // !p
};

/// An opcode with all its modifiers, exactly as written in PTX.
struct Form {
  std::string name;
  Handler run;
  Traits traits;
  const std::vector<Slot> *slots;
};

struct Operand {
  enum Kind : uint8_t { None, Register, Immediate, Special, Sink };
  Kind kind = None;
  bool negated = false;
  uint8_t bits = 0;
  uint32_t index = 0; // register, special register, or base of an address
  uint64_t value = 0; // immediate, mask of a register, offset of an address
};

struct Instruction {
  const Form *form = nullptr;
  Handler run = nullptr;
  const Operand *operands = nullptr;
  Operand guard;
  uint32_t target = 0; // of a branch, or a branch table's index
  uint32_t index = 0;  // in the kernel
  unsigned line = 0;
};

/// A variable with a place in one of the non-generic address spaces.
struct Variable {
  Space space;
  uint64_t address;
  uint64_t bytes;
};

struct Parameter {
  std::string name;
  uint64_t offset, bytes;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint64_t parameterBytes = 0;
  uint64_t sharedBytes = 0, localBytes = 0;
  std::array<uint32_t, 3> maxThreads{}, exactThreads{}; // 0: not stated
  std::vector<Instruction> code;
  std::deque<std::vector<Operand>> operandStore; // stable addresses
  std::vector<std::vector<uint32_t>> branchTables;
  std::vector<std::string> registerNames;
};

/// A `.global` or `.const` variable with its initial bytes.
struct ModuleVariable {
  std::string name;
  Space space;
  uint64_t address;
  std::vector<uint8_t> bytes;
  std::vector<bool> initialised;
};

struct Module {
  std::string version, target;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::vector<ModuleVariable> variables;
  std::vector<std::string> sourceLines;

  const Kernel *find(const std::string &name) const {
    auto it = kernels.find(name);
    return it == kernels.end() ? nullptr : it->second.get();
  }
};

// Non-generic addresses start away from zero so that a null pointer or a bare
// offset is caught; the generic windows lie where no host pointer can.
constexpr uint64_t SharedBase = 0x01000000, LocalBase = 0x02000000,
                   ParamBase = 0x03000000, ConstBase = 0x04000000;
constexpr uint64_t ModuleGlobalBase = 0x6000000000000000;
constexpr uint64_t SharedWindow = 0x9000000000000000,
                   LocalWindow = 0xa000000000000000,
                   ParamWindow = 0xb000000000000000,
                   ConstWindow = 0xc000000000000000,
                   WindowMask = 0xf000000000000000;

enum class SpecialRegister : uint32_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NWarpId,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  DynamicSharedSize,
  TotalSharedSize
};

} // namespace ptx

#endif

// Moves: registers, packing and unpacking, addresses between generic and state
// spaces.
#include "Machine.h"
#include "Registry.h"

using namespace ptx;

namespace {

void move(Thread &t, const Instruction &i) {
  // Bits only: a NaN keeps its payload.
  write(t, i.operands[0], read(t, i.operands[1]));
}

/// mov.b64 d, {a, b}: a is the lowest part.
void pack(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t result = 0;
  for (unsigned n = 0; n < k.vector; ++n)
    result |= read(t, i.operands[n + 1]) << (n * k.bits);
  write(t, i.operands[0], result);
}

void unpack(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = read(t, i.operands[k.vector]);
  for (unsigned n = 0; n < k.vector; ++n)
    write(t, i.operands[n], a >> (n * k.bits));
}

/// What cvta adds; global addresses are generic already.
uint64_t windowOf(Space space) {
  switch (space) {
  case Space::Shared:
    return SharedWindow;
  case Space::Local:
    return LocalWindow;
  case Space::Param:
    return ParamWindow;
  case Space::Const:
    return ConstWindow;
  default:
    return 0;
  }
}

void toGeneric(Thread &t, const Instruction &i) {
  write(t, i.operands[0],
        read(t, i.operands[1]) | windowOf(i.form->traits.space));
}

void fromGeneric(Thread &t, const Instruction &i) {
  uint64_t address = read(t, i.operands[1]);
  Space wanted = i.form->traits.space;
  // Hardware would hand out a meaningless address; here it is a fault.
  if (resolveGeneric(address) != wanted)
    throw Fault{FaultKind::WrongStateSpace,
                "generic address " + hex(read(t, i.operands[1])) +
                    " does not lie in the space it is converted to"};
  write(t, i.operands[0], address);
}

void isInSpace(Thread &t, const Instruction &i) {
  uint64_t address = read(t, i.operands[1]);
  Space space = resolveGeneric(address), wanted = i.form->traits.space;
  // The ISA: the window of kernel parameters lies within the global one.
  bool within = space == Space::Param && wanted == Space::Global;
  write(t, i.operands[0], space == wanted || within);
}

} // namespace

void ptx::addMoveForms(Registry &r) {
  r.add("mov.pred", move, "=p p");
  for (const char *type : {".b16", ".u16", ".s16"})
    r.add(std::string("mov") + type, move, "=16 16");
  for (const char *type : {".b32", ".u32", ".s32", ".f32"})
    r.add(std::string("mov") + type, move, "=32 32&");
  for (const char *type : {".b64", ".u64", ".s64", ".f64"})
    r.add(std::string("mov") + type, move, "=64 64&");
  // Two halves or four quarters; a b16 has no parts that are registers.
  for (auto [bits, count] :
       {std::pair<unsigned, unsigned>{32, 2}, {64, 2}, {64, 4}}) {
    Traits k;
    k.vector = uint8_t(count);
    k.bits = uint8_t(bits / count);
    std::string whole = std::to_string(bits);
    std::string parts = std::to_string(k.bits) + "*" + std::to_string(count);
    std::string name = "mov.b" + whole, number = std::to_string(count);
    r.add(name + " pack" + number, pack, "=" + whole + " " + parts, k);
    r.add(name + " unpack" + number, unpack, "=" + parts + " " + whole, k);
  }
  const std::pair<const char *, Space> spaces[] = {{".global", Space::Global},
                                                   {".shared", Space::Shared},
                                                   {".local", Space::Local},
                                                   {".param", Space::Param},
                                                   {".const", Space::Const}};
  for (auto [name, space] : spaces) {
    Traits k;
    k.space = space;
    r.add(std::string("cvta") + name + ".u64", toGeneric, "=64 64&", k);
    r.add(std::string("cvta.to") + name + ".u64", fromGeneric, "=64 64&", k);
    r.add(std::string("isspacep") + name, isInSpace, "=p 64", k);
  }
}

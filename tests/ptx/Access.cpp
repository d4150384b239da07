// The checked way to memory, and what a thread reads that is not a plain
// register.
#include "Machine.h"

#include "Parser.h"

using namespace ptx;

// Out of line: the caller is the hottest path there is.
void ptx::throwUnwritten(const Thread &t, const Operand &o) {
  throw Fault{FaultKind::UninitialisedRegister,
              "register '" + t.block->machine->kernel.registerNames[o.index] +
                  "' is read before it is written"};
}

uint64_t ptx::readSpecial(const Thread &t, const Operand &o) {
  // x, y and z follow each other in the enum, so a difference is the axis.
  using S = SpecialRegister;
  const Machine &m = *t.block->machine;
  uint32_t inWarp = t.inWarp();
  auto number = [](S s) { return unsigned(s); };
  auto axis = [&](S first) { return o.index - number(first); };
  switch (S(o.index)) {
  case S::TidX:
  case S::TidY:
  case S::TidZ:
    return t.id[axis(S::TidX)];
  case S::NtidX:
  case S::NtidY:
  case S::NtidZ:
    return m.options.block[axis(S::NtidX)];
  case S::CtaidX:
  case S::CtaidY:
  case S::CtaidZ:
    return t.block->id[axis(S::CtaidX)];
  case S::NctaidX:
  case S::NctaidY:
  case S::NctaidZ:
    return m.options.grid[axis(S::NctaidX)];
  case S::LaneId:
    return inWarp;
  case S::WarpId:
    return t.index / 32;
  case S::NWarpId:
    return (m.threadsPerBlock() + 31) / 32;
  case S::LaneMaskEq:
    return uint32_t(1) << inWarp;
  case S::LaneMaskLt:
    return (uint32_t(1) << inWarp) - 1;
  case S::LaneMaskLe:
    return (uint64_t(2) << inWarp) - 1;
  case S::LaneMaskGt:
    return uint32_t(~((uint64_t(2) << inWarp) - 1));
  case S::LaneMaskGe:
    return ~((uint32_t(1) << inWarp) - 1);
  case S::DynamicSharedSize:
    return m.options.dynamicSharedBytes;
  case S::TotalSharedSize:
    return m.options.dynamicSharedBytes + m.kernel.sharedBytes;
  }
  return 0;
}

uint64_t ptx::addressOf(const Thread &t, const Operand &o) {
  if (o.kind == Operand::Immediate)
    return o.value;
  if (!t.written[o.index])
    throwUnwritten(t, o);
  return t.registers[o.index] + o.value;
}

Strength ptx::strengthOf(const Traits &k) {
  if (!k.strong)
    return Strength::Weak;
  return k.scope == Scope::Cta ? Strength::StrongCta : Strength::StrongGpu;
}

uint64_t ptx::messageKey(const Thread &t, Space space, uint64_t address) {
  if (space == Space::Global)
    return address;
  return SharedWindow | uint64_t(t.block->index) << 28 | address;
}

static const char *spaceName(Space space) {
  static const char *const names[] = {"generic", "global", "shared",
                                      "local",   "param",  "const"};
  return names[unsigned(space)];
}

Space ptx::resolveGeneric(uint64_t &address) {
  // Global addresses are generic addresses; the other spaces have a window
  // whose top four bits no host pointer has.
  uint64_t window = address & WindowMask;
  Space space = window == SharedWindow  ? Space::Shared
                : window == LocalWindow ? Space::Local
                : window == ParamWindow ? Space::Param
                : window == ConstWindow ? Space::Const
                                        : Space::Global;
  if (space != Space::Global)
    address &= ~WindowMask;
  return space;
}

namespace {

/// The region of `space` that holds the address, or null.
Region *lookUp(Thread &t, Space space, uint64_t address) {
  Machine &m = *t.block->machine;
  switch (space) {
  case Space::Global:
    return m.memory.find(address);
  case Space::Shared:
    // Two regions, so that running off the static variables is seen.
    return address < DynamicSharedBase ? t.block->shared.get()
                                       : t.block->dynamicShared.get();
  case Space::Local:
    return t.local.get();
  case Space::Param:
    return m.parameters.get();
  case Space::Const: {
    auto next = m.constants.upper_bound(address);
    return next == m.constants.begin() ? nullptr
                                       : std::prev(next)->second.get();
  }
  case Space::Generic:
    break;
  }
  return nullptr;
}

[[noreturn]] void throwNotThere(Thread &t, const MemoryAccess &a, Space space,
                                uint64_t address, const Region *near) {
  // Where would the address be right? If anywhere, the space is wrong.
  uint64_t plain = a.address;
  Space window = resolveGeneric(plain);
  for (Space other : {Space::Global, Space::Shared, Space::Local, Space::Param,
                      Space::Const}) {
    // A generic address is wrong even where it means this very space.
    bool isGeneric = other == window && plain != a.address;
    if (other == space && !isGeneric)
      continue;
    Region *r = lookUp(t, other, other == window ? plain : a.address);
    if (r && r->contains(other == window ? plain : a.address, a.bytes))
      throw Fault{FaultKind::WrongStateSpace,
                  (isGeneric ? "generic address " : "address ") +
                      hex(a.address) + " lies in " + spaceName(other) +
                      " memory, the access is to " + spaceName(a.space)};
  }
  std::string where;
  if (space == Space::Global)
    where = t.block->machine->memory.describe(address);
  else if (near)
    where = "'" + near->name + "' is [" + hex(near->base) + ", " +
            hex(near->base + near->size) + ")";
  else
    where = "the kernel has none";
  throw Fault{FaultKind::OutOfBounds,
              std::string(a.isWrite ? "write" : "read") + " of " +
                  std::to_string(a.bytes) + " bytes at " + hex(address) +
                  " in " + spaceName(space) + " memory: " + where};
}

} // namespace

Region &ptx::checkAccess(Thread &t, const MemoryAccess &a) {
  Machine &m = *t.block->machine;
  uint64_t address = a.address;
  Space space = a.space;
  if (space == Space::Generic)
    space = resolveGeneric(address);
  // A vector must be aligned as a whole, before anything else is asked: the
  // paged shadows rely on it.
  if (address & (a.bytes - 1))
    throw Fault{FaultKind::Misaligned,
                std::string(a.isWrite ? "write" : "read") + " of " +
                    std::to_string(a.bytes) + " bytes at " + hex(address) +
                    ", which is not a multiple of " + std::to_string(a.bytes)};
  Region *region;
  if (space == Space::Global) {
    // An instruction mostly stays in one buffer: ask that one first.
    Region *&last = m.lastRegion[t.current->index];
    if (!last || !last->contains(address, a.bytes))
      last = m.memory.find(address);
    region = last;
  } else {
    region = lookUp(t, space, address);
  }
  if (!region || !region->contains(address, a.bytes))
    throwNotThere(t, a, space, address, region);
  if (a.isWrite && (region->flags & RegionReadOnly))
    throw Fault{FaultKind::ReadOnly,
                "write to " + hex(address) + " in '" + region->name + "'"};
  // A variable that is read before its time is a constant from then on.
  bool tooEarly = !t.clock.waited && !t.clock.before && space == Space::Global;
  if (a.isWrite)
    region->flags &= ~RegionVariable;
  else if (tooEarly && (region->flags & RegionVariable))
    region->flags |= RegionReadOnly;
  if (tooEarly && !(region->flags & RegionReadOnly))
    throw Fault{FaultKind::Overlap,
                std::string(a.isWrite ? "write to " : "read of ") +
                    hex(address) + " in '" + region->name +
                    "' before the thread has waited for the launch before"};
  if (m.options.checkRaces && !(region->flags & RegionNoRaces)) {
    // Only now, when the access is known to be in range, does it leave a stamp.
    t.clock.now.line = t.current->line;
    region->checkRace(address, a.bytes,
                      {&t.clock, a.isWrite, a.strength, a.isPending});
  }
  // What is read past the cache is not in it then: the safe reading.
  if (Caches *caches = m.options.caches;
      caches && space == Space::Global && !(region->flags & RegionNoRaces)) {
    t.clock.now.line = t.current->line;
    if (a.isWrite || a.strength == Strength::StrongGpu)
      caches->drop(t.block->processor, address);
    else
      caches->load(t.block->processor, *region, address, a.bytes, t.clock.now);
  }
  return *region;
}

void ptx::emptyCache(const Thread &t) {
  if (Caches *caches = t.block->machine->options.caches)
    caches->empty(t.block->processor);
}

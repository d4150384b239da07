// Loads and stores: scalar and vector, weak, relaxed, acquire and release.
#include "Machine.h"
#include "Registry.h"

#include <cstring>

using namespace ptx;

namespace {

enum Operation : uint8_t { Plain, WithPolicy };

void load(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  if (k.operation == WithPolicy)
    read(t, i.operands[k.vector + 1]);
  unsigned element = k.bits / 8, bytes = element * k.vector;
  uint64_t address = addressOf(t, i.operands[k.vector]);
  Region &region =
      checkAccess(t, {k.space, address, bytes, false, strengthOf(k)});
  Space space = k.space;
  if (space == Space::Generic)
    space = resolveGeneric(address);
  region.checkInitialised(address, bytes);
  uint8_t data[32];
  region.read(address, bytes, data);
  for (unsigned n = 0; n < k.vector; ++n) {
    uint64_t value = 0;
    // Little-endian on both sides; the upper bytes stay zero.
    std::memcpy(&value, data + n * element, element);
    // A wider register takes the sign, or zeros.
    if (k.isSigned)
      value = uint64_t(int64_t(value << (64 - k.bits)) >> (64 - k.bits));
    write(t, i.operands[n], value);
  }
  // A weak load never synchronises, even if it happens to see the flag.
  if (k.strong)
    t.block->machine->messages.read(messageKey(t, space, address), t.clock);
  if (k.order == MemoryOrder::Acquire) {
    Messages::acquire(t.clock, k.scope == Scope::Cta);
    if (k.scope != Scope::Cta)
      emptyCache(t);
  }
}

void store(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  if (k.operation == WithPolicy)
    read(t, i.operands[k.vector + 1]);
  unsigned element = k.bits / 8, bytes = element * k.vector;
  uint64_t address = addressOf(t, i.operands[0]);
  uint8_t data[32];
  // All registers are read before anything is written.
  for (unsigned n = 0; n < k.vector; ++n) {
    uint64_t value = read(t, i.operands[n + 1]);
    std::memcpy(data + n * element, &value, element);
  }
  // Before the store: its own stamp must not be covered by its release.
  if (k.order == MemoryOrder::Release)
    Messages::release(t.clock, k.scope == Scope::Cta);
  Region &region =
      checkAccess(t, {k.space, address, bytes, true, strengthOf(k)});
  Space space = k.space;
  if (space == Space::Generic)
    space = resolveGeneric(address);
  if (k.strong)
    t.block->machine->messages.written(messageKey(t, space, address), t.clock,
                                       false);
  region.write(address, bytes, data);
}

/// createpolicy: an opaque value that only cache hints take.
void createPolicy(Thread &t, const Instruction &i) {
  write(t, i.operands[0], 0);
}

/// A prefetch may name any address: it cannot fault.
void prefetch(Thread &t, const Instruction &i) { addressOf(t, i.operands[0]); }

struct Type {
  const char *name;
  unsigned bits;
  bool isSigned;
};
const Type Types[] = {
    {".b8", 8, false},   {".u8", 8, false},   {".s8", 8, true},
    {".b16", 16, false}, {".u16", 16, false}, {".s16", 16, true},
    {".b32", 32, false}, {".u32", 32, false}, {".s32", 32, true},
    {".b64", 64, false}, {".u64", 64, false}, {".s64", 64, true},
    {".f32", 32, false}, {".f64", 64, false}};

const std::pair<const char *, Space> Spaces[] = {
    {"", Space::Generic},       {".global", Space::Global},
    {".shared", Space::Shared}, {".shared::cta", Space::Shared},
    {".local", Space::Local},   {".param", Space::Param},
    {".const", Space::Const}};

class Adder {
public:
  Adder(Registry &registry, bool isLoad) : r(registry), isLoad(isLoad) {}

  /// All types and vector lengths of at most 16 bytes.
  void types(const std::string &head, const Traits &traits,
             const std::string &tail = "") {
    for (unsigned vector : {1u, 2u, 4u})
      for (const Type &type : Types) {
        // 32-byte accesses come with sm_100.
        if (vector * type.bits > 128)
          continue;
        Traits k = traits;
        k.vector = uint8_t(vector);
        k.bits = uint8_t(type.bits);
        k.isSigned = type.isSigned && isLoad;
        std::string count = vector > 1 ? "*" + std::to_string(vector) : "";
        // A store of .f32 from a wider register would convert it: the driver's
        // compiler takes its bits for an integer.
        bool mayBeWider = isLoad || type.name[1] != 'f';
        std::string element =
            std::to_string(type.bits) + count + (mayBeWider ? "+" : "");
        std::string length = vector > 1 ? ".v" + std::to_string(vector) : "";
        std::string policy = k.operation == WithPolicy ? " 64" : "";
        r.add(head + tail + length + type.name, isLoad ? load : store,
              (isLoad ? "=" + element + " @" : "@ " + element) + policy, k);
      }
  }

private:
  Registry &r;
  bool isLoad;
};

Traits inSpace(Space space) {
  Traits k;
  k.space = space;
  return k;
}

/// Cache hints carry no meaning; they are listed so that others are refused.
void addHints(Adder &add, bool isLoad) {
  Traits k = inSpace(Space::Global);
  std::string head = isLoad ? "ld.global" : "st.global";
  const std::vector<const char *> loads{".ca", ".cg", ".cs", ".lu", ".cv"};
  const std::vector<const char *> stores{".wb", ".cg", ".cs", ".wt"};
  for (const char *hint : isLoad ? loads : stores)
    add.types(head, k, hint);
  for (const char *level1 :
       {".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first",
        ".L1::evict_last", ".L1::no_allocate"})
    add.types(head, k, level1);
  Traits policy = k;
  policy.operation = WithPolicy;
  for (const char *level1 :
       {"", ".L1::evict_first", ".L1::evict_last", ".L1::no_allocate"}) {
    add.types(head, policy, std::string(level1) + ".L2::cache_hint");
    if (isLoad)
      add.types(head + ".nc", policy, std::string(level1) + ".L2::cache_hint");
  }
  if (!isLoad)
    return;
  for (const char *level2 : {".L2::64B", ".L2::128B", ".L2::256B"}) {
    add.types(head, k, level2);
    add.types(head + ".nc", k, level2);
    add.types(head, k, std::string(".L1::no_allocate") + level2);
    add.types(head + ".nc", k, std::string(".L1::no_allocate") + level2);
  }
  for (const char *level1 :
       {".L1::evict_first", ".L1::evict_last", ".L1::no_allocate"})
    add.types(head + ".nc", k, level1);
}

} // namespace

void ptx::addMemoryForms(Registry &r) {
  const std::pair<const char *, Scope> scopes[] = {
      {".cta", Scope::Cta}, {".gpu", Scope::Gpu}, {".sys", Scope::Gpu}};
  for (bool isLoad : {true, false}) {
    Adder add(r, isLoad);
    std::string op = isLoad ? "ld" : "st";
    for (auto [name, space] : Spaces) {
      if (!isLoad && (space == Space::Param || space == Space::Const))
        continue;
      add.types(op + name, inSpace(space));
      if (space != Space::Generic && space != Space::Global &&
          space != Space::Shared)
        continue;
      Traits k = inSpace(space);
      add.types(op + ".weak" + name, k);
      k.strong = true;
      k.order = MemoryOrder::Relaxed;
      // Volatile: relaxed with system scope, which is .gpu on one device.
      add.types(op + ".volatile" + name, k);
      for (auto [scopeName, scope] : scopes) {
        k.scope = scope;
        k.order = MemoryOrder::Relaxed;
        add.types(op + ".relaxed" + scopeName + name, k);
        k.order = isLoad ? MemoryOrder::Acquire : MemoryOrder::Release;
        add.types(op + (isLoad ? ".acquire" : ".release") + scopeName + name,
                  k);
      }
    }
    if (isLoad)
      add.types("ld.global.nc", inSpace(Space::Global));
    addHints(add, isLoad);
  }
  for (const char *priority :
       {"evict_last", "evict_normal", "evict_first", "evict_unchanged"})
    r.add(std::string("createpolicy.fractional.L2::") + priority + ".b64",
          createPolicy, "=64 ?f32");
  for (const char *level : {".L1", ".L2"})
    for (auto [name, space] :
         {std::pair<const char *, Space>{"", Space::Generic},
          {".global", Space::Global}})
      r.add(std::string("prefetch") + name + level, prefetch, "@",
            inSpace(space));
}

// Integer atomics: atom returns the old value, red does not. Float atomics are
// refused.
#include "Machine.h"
#include "Registry.h"

#include <algorithm>
#include <cstring>

using namespace ptx;

namespace {

enum Operation : uint8_t { Add, Min, Max, Inc, Dec, And, Or, Xor, Exch, Cas };

int64_t asSigned(uint64_t v, unsigned bits) {
  return int64_t(v << (64 - bits)) >> (64 - bits);
}

uint64_t combine(const Traits &k, uint64_t old, uint64_t b, uint64_t c) {
  switch (k.operation) {
  case Add:
    return old + b;
  case Min:
  case Max: {
    bool isLess =
        k.isSigned ? asSigned(b, k.bits) < asSigned(old, k.bits) : b < old;
    return isLess == (k.operation == Min) ? b : old;
  }
  case Inc:
    return old >= b ? 0 : old + 1;
  case Dec:
    return old == 0 || old > b ? b : old - 1;
  case And:
    return old & b;
  case Or:
    return old | b;
  case Xor:
    return old ^ b;
  case Exch:
    return b;
  case Cas:
    return old == b ? c : old;
  }
  return old;
}

/// Operands: [d,] address, b [, c].
template <bool Returns> void atomic(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  const Operand *from = i.operands + Returns;
  unsigned bytes = k.bits / 8;
  uint64_t address = addressOf(t, from[0]), b = read(t, from[1]);
  uint64_t c = k.operation == Cas ? read(t, from[2]) : 0;
  bool isCtaOnly = k.scope == Scope::Cta;
  // Release before the access, acquire after it: the message must carry what
  // came before, and the thread learns only from what it read.
  if (k.order == MemoryOrder::Release || k.order == MemoryOrder::AcqRel)
    Messages::release(t.clock, isCtaOnly);
  Region &region =
      checkAccess(t, {k.space, address, bytes, true, strengthOf(k)});
  Space space = k.space;
  if (space == Space::Generic)
    space = resolveGeneric(address);
  // Even exch and cas read: what they return must have been written.
  region.checkInitialised(address, bytes);
  uint64_t old = 0;
  region.read(address, bytes, reinterpret_cast<uint8_t *>(&old));
  uint64_t result = combine(k, old, b, c);
  region.write(address, bytes, reinterpret_cast<const uint8_t *>(&result));
  Messages &messages = t.block->machine->messages;
  uint64_t key = messageKey(t, space, address);
  // Read first: an atomic is ordered after the one it follows.
  messages.read(key, t.clock);
  messages.written(key, t.clock, true);
  if (k.order == MemoryOrder::Acquire || k.order == MemoryOrder::AcqRel) {
    Messages::acquire(t.clock, isCtaOnly);
    if (!isCtaOnly)
      emptyCache(t);
  }
  if (Returns)
    write(t, i.operands[0], old);
}

struct Row {
  Operation operation;
  const char *name;
  const char *types;
};
// clang-format off
const Row Rows[] = {
    {Add,  ".add",  "u32 s32 u64"},
    {Min,  ".min",  "u32 s32 u64 s64"},
    {Max,  ".max",  "u32 s32 u64 s64"},
    {Inc,  ".inc",  "u32"},
    {Dec,  ".dec",  "u32"},
    {And,  ".and",  "b32 b64"},
    {Or,   ".or",   "b32 b64"},
    {Xor,  ".xor",  "b32 b64"},
    {Exch, ".exch", "b32 b64"},
    {Cas,  ".cas",  "b16 b32 b64"},
};
// clang-format on

void addRow(Registry &r, const Row &row, const std::string &type,
            const std::string &head, Traits k) {
  k.operation = row.operation;
  k.bits = uint8_t(std::stoi(type.substr(1)));
  k.isSigned = type[0] == 's';
  k.strong = true;
  std::string n = std::to_string(k.bits), name = head + row.name + "." + type;
  std::string sources = "@ " + n + (row.operation == Cas ? " " + n : "");
  r.add("atom" + name, atomic<true>, "=" + n + " " + sources, k);
  // red cannot acquire, and has no form that only returns something.
  if (row.operation < Exch && k.order != MemoryOrder::Acquire &&
      k.order != MemoryOrder::AcqRel)
    r.add("red" + name, atomic<false>, sources, k);
}

} // namespace

void ptx::addAtomicForms(Registry &r) {
  // PTX: without an order an atomic is relaxed, without a scope it is .gpu.
  const std::pair<const char *, MemoryOrder> orders[] = {
      {"", MemoryOrder::Relaxed},
      {".relaxed", MemoryOrder::Relaxed},
      {".acquire", MemoryOrder::Acquire},
      {".release", MemoryOrder::Release},
      {".acq_rel", MemoryOrder::AcqRel}};
  const std::pair<const char *, Scope> scopes[] = {{"", Scope::Gpu},
                                                   {".cta", Scope::Cta},
                                                   {".gpu", Scope::Gpu},
                                                   {".sys", Scope::Gpu}};
  const std::pair<const char *, Space> spaces[] = {
      {"", Space::Generic},
      {".global", Space::Global},
      {".shared", Space::Shared},
      {".shared::cta", Space::Shared}};
  for (auto [orderName, order] : orders)
    for (auto [scopeName, scope] : scopes)
      for (auto [spaceName, space] : spaces)
        for (const Row &row : Rows) {
          Traits k;
          k.order = order;
          k.scope = scope;
          k.space = space;
          std::string types = row.types;
          for (size_t at = 0; at < types.size(); at += 4)
            addRow(r, row, types.substr(at, 3),
                   std::string(orderName) + scopeName + spaceName, k);
        }
}

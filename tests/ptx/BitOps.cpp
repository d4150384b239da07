// Bits: logic, shifts, funnel shifts, fields, counts, byte permutation.
#include "Machine.h"
#include "Registry.h"

#include <algorithm>

using namespace ptx;

namespace {

/// Registers hold zero-extended values, so all of this is unsigned.
uint64_t in(Thread &t, const Instruction &i, unsigned n) {
  return read(t, i.operands[n]);
}

enum Logic : uint8_t { And, Or, Xor, Not, CNot };

// write() cuts the result to the register: ~a needs no mask.
void logic(Thread &t, const Instruction &i) {
  uint64_t a = in(t, i, 1);
  uint64_t result = 0;
  switch (i.form->traits.operation) {
  case And:
    result = a & in(t, i, 2);
    break;
  case Or:
    result = a | in(t, i, 2);
    break;
  case Xor:
    result = a ^ in(t, i, 2);
    break;
  case Not:
    result = ~a;
    break;
  case CNot:
    result = a == 0;
    break;
  }
  write(t, i.operands[0], result);
}

/// Counts at or above the width clamp: zero, or the sign for shr.s.
template <bool IsLeft> void shift(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = in(t, i, 1), count = in(t, i, 2);
  if (!IsLeft && k.isSigned) {
    // Into the top bits and back brings the sign down.
    int64_t value = int64_t(a << (64 - k.bits)) >> (64 - k.bits);
    write(t, i.operands[0], uint64_t(value >> std::min<uint64_t>(count, 63)));
    return;
  }
  uint64_t result = count >= k.bits ? 0 : IsLeft ? a << count : a >> count;
  write(t, i.operands[0], result);
}

template <bool IsLeft, bool Wraps>
void funnelShift(Thread &t, const Instruction &i) {
  // 64 bits {b, a} shifted once; the clamp at 32 gives the other word whole.
  uint64_t joined = in(t, i, 2) << 32 | in(t, i, 1);
  uint64_t c = in(t, i, 3);
  uint64_t n = Wraps ? c & 31 : std::min<uint64_t>(c, 32);
  write(t, i.operands[0], IsLeft ? (joined << n) >> 32 : joined >> n);
}

void lop3(Thread &t, const Instruction &i) {
  uint64_t a = in(t, i, 1), b = in(t, i, 2), c = in(t, i, 3),
           table = in(t, i, 4);
  uint64_t result = 0;
  // Bit abc of the table says what a, b, c give: one minterm each.
  for (unsigned n = 0; n < 8; ++n)
    if (table >> n & 1)
      result |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
  write(t, i.operands[0], result);
}

enum PermuteMode : uint8_t { Index, F4e, B4e, Rc8, Ecl, Ecr, Rc16 };

void prmt(Thread &t, const Instruction &i) {
  // Byte n of the result is byte `from` of the eight in {b, a}.
  uint64_t bytes = in(t, i, 2) << 32 | in(t, i, 1);
  unsigned c = unsigned(in(t, i, 3)), s = c & 3;
  uint32_t result = 0;
  for (unsigned n = 0; n < 4; ++n) {
    unsigned from = 0;
    bool replicatesSign = false;
    switch (i.form->traits.operation) {
    case Index:
      from = c >> (4 * n) & 7;
      replicatesSign = c >> (4 * n) & 8;
      break;
    case F4e:
      from = s + n;
      break;
    case B4e:
      from = (s - n) & 7;
      break;
    case Rc8:
      from = s;
      break;
    case Ecl:
      from = std::max(s, n);
      break;
    case Ecr:
      from = std::min(s, n);
      break;
    case Rc16:
      from = (s & 1) * 2 + (n & 1);
      break;
    }
    uint32_t byte = bytes >> (8 * from) & 0xff;
    if (replicatesSign)
      byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * n);
  }
  write(t, i.operands[0], result);
}

/// Of a field's position or length: PTX defines 0 to 255.
unsigned place(Thread &t, const Instruction &i, unsigned n) {
  uint64_t value = in(t, i, n);
  if (value > 255)
    throw Fault{FaultKind::Undefined, "position or length " +
                                          std::to_string(value) +
                                          " of a field, which goes up to 255"};
  return unsigned(value);
}

void bfe(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = in(t, i, 1);
  unsigned position = place(t, i, 2), length = place(t, i, 3);
  bool sign = false;
  if (k.isSigned && length)
    // A field that reaches past the top has the top bit for its sign.
    sign = a >> std::min(position + length - 1, unsigned(k.bits - 1)) & 1;
  uint64_t result = 0;
  for (unsigned n = 0; n < k.bits; ++n) {
    bool inside = n < length && position + n < k.bits;
    result |= uint64_t(inside ? a >> (position + n) & 1 : sign) << n;
  }
  write(t, i.operands[0], result);
}

void bfi(Thread &t, const Instruction &i) {
  uint64_t field = in(t, i, 1), result = in(t, i, 2);
  unsigned position = place(t, i, 3), length = place(t, i, 4);
  // What would fall out at the top is dropped.
  for (unsigned n = 0; n < length && position + n < i.form->traits.bits; ++n) {
    result &= ~(uint64_t(1) << (position + n));
    result |= (field >> n & 1) << (position + n);
  }
  write(t, i.operands[0], result);
}

enum Count : uint8_t { Population, LeadingZeros, Reverse, Find, FindShift };

void count(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = in(t, i, 1), result = 0;
  uint64_t top = uint64_t(1) << (k.bits - 1);
  switch (k.operation) {
  case Population:
    result = unsigned(__builtin_popcountll(a));
    break;
  case LeadingZeros:
    result = a ? unsigned(__builtin_clzll(a)) - (64u - k.bits) : k.bits;
    break;
  case Reverse:
    for (unsigned n = 0; n < k.bits; ++n)
      result |= (a >> n & 1) << (k.bits - 1 - n);
    break;
  // Of a negative number the first bit that is not the sign; of 0 and -1 there
  // is none.
  case Find:
  case FindShift:
    if (k.isSigned && (a & top))
      a = ~a & (top | (top - 1));
    if (!a)
      result = 0xffffffff;
    else if (k.operation == Find)
      result = 63u - unsigned(__builtin_clzll(a));
    else
      result = k.bits - 1u - (63u - unsigned(__builtin_clzll(a)));
    break;
  }
  write(t, i.operands[0], result);
}

/// szext: keeps the low c bits of a and extends them.
template <bool Wraps> void szext(Thread &t, const Instruction &i) {
  uint64_t a = in(t, i, 1), n = in(t, i, 2);
  n = Wraps ? n & 31 : std::min<uint64_t>(n, 32);
  uint64_t kept = a & ((uint64_t(1) << n) - 1);
  if (i.form->traits.isSigned && n && kept >> (n - 1) & 1)
    kept |= ~((uint64_t(1) << n) - 1);
  write(t, i.operands[0], kept);
}

/// bmsk: b ones from bit a on.
template <bool Wraps> void bmsk(Thread &t, const Instruction &i) {
  uint64_t a = in(t, i, 1), b = in(t, i, 2);
  a = Wraps ? a & 31 : std::min<uint64_t>(a, 32);
  b = Wraps ? b & 31 : std::min<uint64_t>(b, 32);
  write(t, i.operands[0], ((uint64_t(1) << b) - 1) << a);
}

Traits bitsOf(unsigned bits, bool isSigned, uint8_t operation) {
  Traits k;
  k.bits = uint8_t(bits);
  k.isSigned = isSigned;
  k.operation = operation;
  return k;
}

void addLogic(Registry &r, const std::string &type, const std::string &slot) {
  std::string one = "=" + slot + " " + slot, two = one + " " + slot;
  r.add("and" + type, logic, two, bitsOf(0, false, And));
  r.add("or" + type, logic, two, bitsOf(0, false, Or));
  r.add("xor" + type, logic, two, bitsOf(0, false, Xor));
  r.add("not" + type, logic, one, bitsOf(0, false, Not));
  if (slot != "p")
    r.add("cnot" + type, logic, one, bitsOf(0, false, CNot));
}

} // namespace

void ptx::addBitForms(Registry &r) {
  addLogic(r, ".pred", "p");
  for (unsigned bits : {16, 32, 64}) {
    std::string n = std::to_string(bits);
    addLogic(r, ".b" + n, n);
    r.add("shl.b" + n, shift<true>, "=" + n + " " + n + " 32",
          bitsOf(bits, false, 0));
    for (const char *kind : {".b", ".u", ".s"})
      r.add("shr" + (kind + n), shift<false>, "=" + n + " " + n + " 32",
            bitsOf(bits, kind[1] == 's', 0));
  }
  for (unsigned bits : {32, 64}) {
    std::string n = std::to_string(bits);
    r.add("popc.b" + n, count, "=32 " + n, bitsOf(bits, false, Population));
    r.add("clz.b" + n, count, "=32 " + n, bitsOf(bits, false, LeadingZeros));
    r.add("brev.b" + n, count, "=" + n + " " + n, bitsOf(bits, false, Reverse));
    r.add("bfi.b" + n, bfi, "=" + n + " " + n + " " + n + " 32 32",
          bitsOf(bits, false, 0));
    for (const char *kind : {".u", ".s"}) {
      bool isSigned = kind[1] == 's';
      r.add("bfe" + (kind + n), bfe, "=" + n + " " + n + " 32 32",
            bitsOf(bits, isSigned, 0));
      r.add("bfind" + (kind + n), count, "=32 " + n,
            bitsOf(bits, isSigned, Find));
      r.add("bfind.shiftamt" + (kind + n), count, "=32 " + n,
            bitsOf(bits, isSigned, FindShift));
    }
  }
  r.add("shf.l.clamp.b32", funnelShift<true, false>, "=32 32 32 32");
  r.add("shf.l.wrap.b32", funnelShift<true, true>, "=32 32 32 32");
  r.add("shf.r.clamp.b32", funnelShift<false, false>, "=32 32 32 32");
  r.add("shf.r.wrap.b32", funnelShift<false, true>, "=32 32 32 32");
  r.add("lop3.b32", lop3, "=32 32 32 32 32");
  // The table of mode names is in the order of PermuteMode.
  const char *modes[] = {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
  for (uint8_t mode = 0; mode < 7; ++mode)
    r.add(std::string("prmt.b32") + modes[mode], prmt, "=32 32 32 32",
          bitsOf(32, false, mode));
  for (const char *kind : {".u32", ".s32"}) {
    Traits k = bitsOf(32, kind[1] == 's', 0);
    r.add(std::string("szext.clamp") + kind, szext<false>, "=32 32 32", k);
    r.add(std::string("szext.wrap") + kind, szext<true>, "=32 32 32", k);
  }
  r.add("bmsk.clamp.b32", bmsk<false>, "=32 32 32");
  r.add("bmsk.wrap.b32", bmsk<true>, "=32 32 32");
}

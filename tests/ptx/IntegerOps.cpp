// Integer arithmetic in two's complement, all widths.
#include "Machine.h"
#include "Registry.h"

#include <type_traits>

using namespace ptx;

namespace {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

template <class T> struct Twice;
template <> struct Twice<uint16_t> {
  using Type = uint32_t;
};
template <> struct Twice<int16_t> {
  using Type = int32_t;
};
template <> struct Twice<uint32_t> {
  using Type = uint64_t;
};
template <> struct Twice<int32_t> {
  using Type = int64_t;
};
template <> struct Twice<uint64_t> {
  using Type = UnsignedWide;
};
template <> struct Twice<int64_t> {
  using Type = Wide;
};
template <class T> using TwiceOf = typename Twice<T>::Type;

/// The low bits of a register as a T: this is where signedness comes from.
template <class T> T in(Thread &t, const Instruction &i, unsigned n) {
  return T(read(t, i.operands[n]));
}

// Sums and products go through uint64_t, where overflow is defined.
struct AddOp {
  template <class T> T operator()(T a, T b) const {
    return T(uint64_t(a) + uint64_t(b));
  }
};
struct SubOp {
  template <class T> T operator()(T a, T b) const {
    return T(uint64_t(a) - uint64_t(b));
  }
};
struct MulLo {
  template <class T> T operator()(T a, T b) const {
    return T(uint64_t(a) * uint64_t(b));
  }
};
struct MulHi {
  template <class T> T operator()(T a, T b) const {
    return T((TwiceOf<T>(a) * TwiceOf<T>(b)) >> (sizeof(T) * 8));
  }
};
// By zero: all ones, the quotient and the remainder alike.
struct DivOp {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return T(~T(0));
    if (std::is_signed<T>::value && b == T(-1))
      return SubOp()(T(0), a);
    return T(a / b);
  }
};
struct RemOp {
  template <class T> T operator()(T a, T b) const {
    if (b == 0)
      return T(~T(0));
    if (std::is_signed<T>::value && b == T(-1))
      return 0;
    return T(a % b);
  }
};
struct MinOp {
  template <class T> T operator()(T a, T b) const { return a < b ? a : b; }
};
struct MaxOp {
  template <class T> T operator()(T a, T b) const { return a > b ? a : b; }
};
struct AddSat {
  // In 64 bits no sum of two can overflow.
  int32_t operator()(int32_t a, int32_t b) const {
    return clamp(int64_t(a) + b);
  }
  static int32_t clamp(int64_t v) {
    return int32_t(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
  }
};
struct SubSat {
  int32_t operator()(int32_t a, int32_t b) const {
    return AddSat::clamp(int64_t(a) - b);
  }
};
struct NegOp {
  template <class T> T operator()(T a) const { return SubOp()(T(0), a); }
};
struct AbsOp {
  template <class T> T operator()(T a) const { return a < 0 ? NegOp()(a) : a; }
};

template <class T, class Op> void unary(Thread &t, const Instruction &i) {
  write(t, i.operands[0], uint64_t(Op()(in<T>(t, i, 1))));
}
template <class T, class Op> void binary(Thread &t, const Instruction &i) {
  write(t, i.operands[0], uint64_t(Op()(in<T>(t, i, 1), in<T>(t, i, 2))));
}
template <class T, class Op> void multiplyAdd(Thread &t, const Instruction &i) {
  T product = Op()(in<T>(t, i, 1), in<T>(t, i, 2));
  write(t, i.operands[0], uint64_t(AddOp()(product, in<T>(t, i, 3))));
}
// The high half first, then one saturating addition, as the ISA says.
void multiplyHighAddSat(Thread &t, const Instruction &i) {
  int32_t product = MulHi()(in<int32_t>(t, i, 1), in<int32_t>(t, i, 2));
  write(t, i.operands[0], uint64_t(AddSat()(product, in<int32_t>(t, i, 3))));
}
// The product of two n-bit numbers always fits 2n bits.
template <class T> void mulWide(Thread &t, const Instruction &i) {
  using W = TwiceOf<T>;
  write(t, i.operands[0], uint64_t(W(in<T>(t, i, 1)) * W(in<T>(t, i, 2))));
}
template <class T> void madWide(Thread &t, const Instruction &i) {
  using W = TwiceOf<T>;
  uint64_t product = uint64_t(W(in<T>(t, i, 1)) * W(in<T>(t, i, 2)));
  write(t, i.operands[0], product + read(t, i.operands[3]));
}
/// |a - b| + c.
template <class T> void sad(Thread &t, const Instruction &i) {
  T a = in<T>(t, i, 1), b = in<T>(t, i, 2);
  T distance = a < b ? SubOp()(b, a) : SubOp()(a, b);
  write(t, i.operands[0], uint64_t(AddOp()(distance, in<T>(t, i, 3))));
}

/// add.cc, addc, sub.cc, subc: the carry flag lives in the thread. Subtraction
/// stores the borrow.
template <class T, bool Subtracts, bool Takes, bool Gives>
void carried(Thread &t, const Instruction &i) {
  // Signed and unsigned carry alike.
  using U = std::make_unsigned_t<T>;
  UnsignedWide a = in<U>(t, i, 1), b = in<U>(t, i, 2);
  UnsignedWide c = Takes && t.carry;
  // A borrow shows as ones above the width, a carry as a one.
  UnsignedWide r = Subtracts ? a - b - c : a + b + c;
  write(t, i.operands[0], uint64_t(U(r)));
  if (Gives)
    t.carry = (r >> (sizeof(T) * 8)) & 1;
}

/// Four 8-bit products summed into 32 bits.
template <bool SignedA, bool SignedB>
void dp4a(Thread &t, const Instruction &i) {
  uint32_t a = in<uint32_t>(t, i, 1), b = in<uint32_t>(t, i, 2);
  uint32_t sum = in<uint32_t>(t, i, 3);
  for (unsigned n = 0; n < 4; ++n, a >>= 8, b >>= 8) {
    int32_t x = SignedA ? int8_t(a) : uint8_t(a);
    int32_t y = SignedB ? int8_t(b) : uint8_t(b);
    sum += uint32_t(x * y);
  }
  write(t, i.operands[0], sum);
}

std::string same(unsigned bits, unsigned sources) {
  std::string slots = "=" + std::to_string(bits);
  for (unsigned n = 0; n < sources; ++n)
    slots += " " + std::to_string(bits);
  return slots;
}

template <class T> void addType(Registry &r, const std::string &type) {
  unsigned bits = sizeof(T) * 8;
  std::string two = same(bits, 2), three = same(bits, 3);
  r.add("add" + type, binary<T, AddOp>, two);
  r.add("sub" + type, binary<T, SubOp>, two);
  r.add("mul.lo" + type, binary<T, MulLo>, two);
  r.add("mul.hi" + type, binary<T, MulHi>, two);
  r.add("mad.lo" + type, multiplyAdd<T, MulLo>, three);
  r.add("mad.hi" + type, multiplyAdd<T, MulHi>, three);
  r.add("div" + type, binary<T, DivOp>, two);
  r.add("rem" + type, binary<T, RemOp>, two);
  r.add("min" + type, binary<T, MinOp>, two);
  r.add("max" + type, binary<T, MaxOp>, two);
  r.add("sad" + type, sad<T>, three);
}

template <class T> void addWide(Registry &r, const std::string &type) {
  std::string narrow = std::to_string(sizeof(T) * 8);
  std::string wide = std::to_string(sizeof(T) * 16);
  std::string slots = "=" + wide + " " + narrow + " " + narrow;
  r.add("mul.wide" + type, mulWide<T>, slots);
  r.add("mad.wide" + type, madWide<T>, slots + " " + wide);
}

template <class T> void addSigned(Registry &r, const std::string &type) {
  std::string one = same(sizeof(T) * 8, 1);
  r.add("neg" + type, unary<T, NegOp>, one);
  r.add("abs" + type, unary<T, AbsOp>, one);
}

template <class T> void addCarry(Registry &r, const std::string &type) {
  std::string two = same(sizeof(T) * 8, 2);
  r.add("add.cc" + type, carried<T, false, false, true>, two);
  r.add("addc" + type, carried<T, false, true, false>, two);
  r.add("addc.cc" + type, carried<T, false, true, true>, two);
  r.add("sub.cc" + type, carried<T, true, false, true>, two);
  r.add("subc" + type, carried<T, true, true, false>, two);
  r.add("subc.cc" + type, carried<T, true, true, true>, two);
}

} // namespace

void ptx::addIntegerForms(Registry &r) {
  addType<uint16_t>(r, ".u16");
  addType<int16_t>(r, ".s16");
  addType<uint32_t>(r, ".u32");
  addType<int32_t>(r, ".s32");
  addType<uint64_t>(r, ".u64");
  addType<int64_t>(r, ".s64");
  addWide<uint16_t>(r, ".u16");
  addWide<int16_t>(r, ".s16");
  addWide<uint32_t>(r, ".u32");
  addWide<int32_t>(r, ".s32");
  addSigned<int16_t>(r, ".s16");
  addSigned<int32_t>(r, ".s32");
  addSigned<int64_t>(r, ".s64");
  addCarry<uint32_t>(r, ".u32");
  addCarry<int32_t>(r, ".s32");
  addCarry<uint64_t>(r, ".u64");
  addCarry<int64_t>(r, ".s64");
  r.add("add.sat.s32", binary<int32_t, AddSat>, same(32, 2));
  r.add("sub.sat.s32", binary<int32_t, SubSat>, same(32, 2));
  r.add("mad.hi.sat.s32", multiplyHighAddSat, same(32, 3));
  r.add("dp4a.u32.u32", dp4a<false, false>, same(32, 3));
  r.add("dp4a.u32.s32", dp4a<false, true>, same(32, 3));
  r.add("dp4a.s32.u32", dp4a<true, false>, same(32, 3));
  r.add("dp4a.s32.s32", dp4a<true, true>, same(32, 3));
}

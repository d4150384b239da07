// Comparison and selection: setp, set, selp, slct, testp.
#include "Machine.h"
#include "Registry.h"
#include "SoftFloat.h"

using namespace ptx;

namespace {

enum Comparison : uint8_t {
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge, // false on NaN
  EquU,
  NeU,
  LtU,
  LeU,
  GtU,
  GeU,
  Num,
  Nan // float only: true on NaN
};
enum Combine : uint8_t { CombineNone, CombineAnd, CombineOr, CombineXor };

bool holds(uint8_t comparison, soft::Order order) {
  using soft::Order;
  bool isUnordered = order == Order::Unordered;
  switch (comparison) {
  case Eq:
    return order == Order::Equal;
  case Ne: // ordered: false on NaN
    return order == Order::Less || order == Order::Greater;
  case Lt:
    return order == Order::Less;
  case Le:
    return order == Order::Less || order == Order::Equal;
  case Gt:
    return order == Order::Greater;
  case Ge:
    return order == Order::Greater || order == Order::Equal;
  case Num:
    return !isUnordered;
  case Nan:
    return isUnordered;
  default:
    return isUnordered || holds(uint8_t(comparison - EquU), order);
  }
}

soft::Order orderOf(const Traits &k, uint64_t a, uint64_t b) {
  using soft::Order;
  if (k.format) {
    if (k.ftz) {
      a = soft::flush(*k.format, a);
      b = soft::flush(*k.format, b);
    }
    return soft::compare(*k.format, a, b);
  }
  // Registers are zero-extended: shift the sign up and back.
  if (k.isSigned) {
    unsigned unused = 64u - k.bits;
    int64_t x = int64_t(a << unused) >> unused;
    int64_t y = int64_t(b << unused) >> unused;
    return x < y ? Order::Less : x > y ? Order::Greater : Order::Equal;
  }
  // Bit types compare as unsigned; only eq and ne are registered for them.
  return a < b ? Order::Less : a > b ? Order::Greater : Order::Equal;
}

bool combined(const Traits &k, bool result, bool with) {
  switch (k.combine) {
  case CombineAnd:
    return result && with;
  case CombineOr:
    return result || with;
  case CombineXor:
    return result != with;
  default:
    return result;
  }
}

/// setp p|q, a, b, {!}c: p is t and c, q is (not t) and c. Single halves have
/// no q.
template <unsigned Results> void setp(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  const Operand *from = i.operands + Results;
  bool r = holds(k.operation, orderOf(k, read(t, from[0]), read(t, from[1])));
  bool with = k.combine && readPredicate(t, from[2]);
  write(t, i.operands[0], combined(k, r, with));
  if (Results == 2)
    write(t, i.operands[1], combined(k, !r, with));
}

/// On packed halves each has its own predicate.
void setpPacked(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = read(t, i.operands[2]), b = read(t, i.operands[3]);
  bool with = k.combine && readPredicate(t, i.operands[4]);
  bool low = holds(k.operation, orderOf(k, a & 0xffff, b & 0xffff));
  bool high = holds(k.operation, orderOf(k, a >> 16, b >> 16));
  write(t, i.operands[0], combined(k, low, with));
  write(t, i.operands[1], combined(k, high, with));
}

/// set: all ones or 1.0 for true.
void setValue(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  bool r = holds(k.operation,
                 orderOf(k, read(t, i.operands[1]), read(t, i.operands[2])));
  if (k.combine)
    r = combined(k, r, readPredicate(t, i.operands[3]));
  uint64_t isTrue = k.saturate ? F32.one() : 0xffffffff;
  write(t, i.operands[0], r ? isTrue : 0);
}

void selp(Thread &t, const Instruction &i) {
  // Both are read: PTX does not excuse the one not taken from being written.
  uint64_t a = read(t, i.operands[1]), b = read(t, i.operands[2]);
  write(t, i.operands[0], readPredicate(t, i.operands[3]) ? a : b);
}

/// slct: c >= 0 ? a : b.
void slct(Thread &t, const Instruction &i) {
  uint64_t a = read(t, i.operands[1]), b = read(t, i.operands[2]);
  write(t, i.operands[0], int32_t(read(t, i.operands[3])) >= 0 ? a : b);
}

enum Property : uint8_t {
  Finite,
  Infinite,
  Number,
  NotANumber,
  Normal,
  Subnormal
};

void testp(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  const Format &f = *k.format;
  uint64_t a = read(t, i.operands[1]);
  // PTX counts zero among the normal numbers.
  bool special = f.isNaN(a) || f.isInfinity(a), r = false;
  switch (k.operation) {
  case Finite:
    r = !special;
    break;
  case Infinite:
    r = f.isInfinity(a);
    break;
  case Number:
    r = !f.isNaN(a);
    break;
  case NotANumber:
    r = f.isNaN(a);
    break;
  case Normal:
    r = !special && !f.isSubnormal(a);
    break;
  case Subnormal:
    r = f.isSubnormal(a);
    break;
  }
  write(t, i.operands[0], r);
}

struct Type {
  const char *name, *slot;
  unsigned bits;
  bool isSigned, isBits;
  const Format *format;
};
const Type Types[] = {
    {".b16", "16", 16, false, true, nullptr},
    {".b32", "32", 32, false, true, nullptr},
    {".b64", "64", 64, false, true, nullptr},
    {".u16", "16", 16, false, false, nullptr},
    {".u32", "32", 32, false, false, nullptr},
    {".u64", "64", 64, false, false, nullptr},
    {".s16", "16", 16, true, false, nullptr},
    {".s32", "32", 32, true, false, nullptr},
    {".s64", "64", 64, true, false, nullptr},
    {".f16", "16", 16, false, false, &F16},
    {".bf16", "16", 16, false, false, &BF16},
    {".f32", "f32", 32, false, false, &F32},
    {".f64", "f64", 64, false, false, &F64},
    {".f16x2", "32", 32, false, false, &F16},
    {".bf16x2", "32", 32, false, false, &BF16},
};

struct Named {
  const char *name;
  uint8_t value;
};
const Named Signed[] = {{".eq", Eq}, {".ne", Ne}, {".lt", Lt},
                        {".le", Le}, {".gt", Gt}, {".ge", Ge}};
// On unsigned types lo, ls, hi, hs are other names for lt, le, gt, ge.
const Named Unsigned[] = {{".lo", Lt}, {".ls", Le}, {".hi", Gt}, {".hs", Ge}};
const Named FloatOnly[] = {{".equ", EquU}, {".neu", NeU}, {".ltu", LtU},
                           {".leu", LeU},  {".gtu", GtU}, {".geu", GeU},
                           {".num", Num},  {".nan", Nan}};
const Named Combines[] = {{"", CombineNone},
                          {".and", CombineAnd},
                          {".or", CombineOr},
                          {".xor", CombineXor}};

void addComparison(Registry &r, const Type &type, const Named &comparison) {
  // Two halves of 16 bits in 32.
  bool isPacked = type.format && type.format->width() * 2 == type.bits;
  bool hasFtz = type.format == &F32 || type.format == &F16;
  for (const Named &combine : Combines)
    for (bool ftz : {false, true}) {
      if (ftz && !hasFtz)
        continue;
      Traits k;
      k.format = type.format;
      k.bits = uint8_t(type.bits);
      k.isSigned = type.isSigned;
      k.operation = comparison.value;
      k.combine = combine.value;
      k.ftz = ftz;
      std::string head =
          std::string(comparison.name) + combine.name + (ftz ? ".ftz" : "");
      std::string sources = std::string(" ") + type.slot + " " + type.slot +
                            (combine.value ? " !p" : "");
      bool isHalf = type.format && type.format->width() == 16;
      r.add("setp" + head + type.name,
            isPacked ? setpPacked
            : isHalf ? setp<1>
                     : setp<2>,
            (isHalf && !isPacked ? "=p" : "=p|") + sources, k);
      if (isHalf)
        continue;
      r.add("set" + head + ".u32" + type.name, setValue, "=32" + sources, k);
      r.add("set" + head + ".s32" + type.name, setValue, "=32" + sources, k);
      // Reused to say that true is 1.0f and not all ones.
      k.saturate = true; // here: the result is a float
      r.add("set" + head + ".f32" + type.name, setValue, "=32" + sources, k);
    }
}

} // namespace

void ptx::addCompareForms(Registry &r) {
  for (const Type &type : Types) {
    bool isUnsigned = !type.format && !type.isSigned && !type.isBits;
    for (const Named &c : Signed)
      if (!type.isBits || c.value <= Ne)
        addComparison(r, type, c);
    if (isUnsigned)
      for (const Named &c : Unsigned)
        addComparison(r, type, c);
    if (type.format)
      for (const Named &c : FloatOnly)
        addComparison(r, type, c);
  }
  for (const Type &type : Types) {
    if (type.format && type.format->width() == 16)
      continue; // selp knows .b, .u, .s, .f32 and .f64
    std::string slots =
        std::string("=") + type.slot + " " + type.slot + " " + type.slot;
    r.add(std::string("selp") + type.name, selp, slots + " !p");
    r.add(std::string("slct") + type.name + ".s32", slct, slots + " 32");
  }
  const char *properties[] = {".finite",     ".infinite", ".number",
                              ".notanumber", ".normal",   ".subnormal"};
  for (uint8_t p = 0; p < 6; ++p)
    for (const Type &type : Types)
      if (type.format == &F32 || type.format == &F64) {
        Traits k;
        k.format = type.format;
        k.operation = p;
        r.add(std::string("testp") + properties[p] + type.name, testp,
              std::string("=p ") + type.slot, k);
      }
}

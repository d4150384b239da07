// Float arithmetic: add, sub, mul, fma, div, rcp, sqrt, min, max, abs, neg,
// copysign.
#include "Machine.h"
#include "Registry.h"
#include "SoftFloat.h"

using namespace ptx;

namespace {

enum Operation : uint8_t {
  Add,
  Sub,
  Mul,
  Fma,
  Div,
  Rcp,
  Sqrt,
  Min,
  Max,
  Abs,
  Neg,
  CopySign
};

/// What the modifiers do to a rounded result, in the order PTX applies them.
uint64_t finish(const Traits &k, uint64_t result) {
  const Format &f = *k.format;
  if (k.saturate)
    result = soft::clampToUnit(f, result);
  if (k.relu)
    result = soft::relu(f, result);
  return result;
}

uint64_t minMax(const Traits &k, uint64_t a, uint64_t b) {
  const Format &f = *k.format;
  // .xorsign.abs compares magnitudes and gives the winner the product's sign.
  uint64_t sign = (a ^ b) & f.sign();
  if (k.xorSignAbs) {
    a = f.magnitude(a);
    b = f.magnitude(b);
  }
  uint64_t r = k.operation == Min ? soft::minimum(f, a, b, k.nan)
                                  : soft::maximum(f, a, b, k.nan);
  return k.xorSignAbs && !f.isNaN(r) ? r | sign : r;
}

uint64_t compute(const Traits &k, uint64_t a, uint64_t b, uint64_t c) {
  const Format &f = *k.format;
  // .ftz reaches inputs here; the format flushes what is rounded into it.
  if (k.ftz) {
    a = soft::flush(f, a);
    b = soft::flush(f, b);
    c = soft::flush(f, c);
  }
  switch (k.operation) {
  case Add:
    return finish(k, soft::add(f, a, b, k.rounding));
  case Sub:
    return finish(k, soft::add(f, a, soft::negate(f, b), k.rounding));
  case Mul:
    return finish(k, soft::mul(f, a, b, k.rounding));
  case Fma:
    return finish(k, soft::fma(f, a, b, c, k.rounding));
  case Div:
    return finish(k, soft::div(f, a, b, k.rounding));
  case Rcp:
    // rcp is a division: correctly rounded like one.
    return finish(k, soft::div(f, f.one(), a, k.rounding));
  case Sqrt:
    return finish(k, soft::sqrt(f, a, k.rounding));
  case Min:
  case Max:
    return finish(k, minMax(k, a, b));
  // These three touch the sign alone; a NaN keeps its payload.
  case Abs:
    return f.magnitude(a);
  case Neg:
    return soft::negate(f, a);
  case CopySign: // PTX: the sign of a, the rest of b
    return f.magnitude(b) | (a & f.sign());
  }
  return 0;
}

template <unsigned Count> void run(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t in[3] = {};
  for (unsigned n = 0; n < Count; ++n)
    in[n] = read(t, i.operands[n + 1]);
  if (k.numbers == 1) {
    write(t, i.operands[0], compute(k, in[0], in[1], in[2]));
    return;
  }
  // Halves are independent: a NaN in one leaves the other alone.
  uint64_t low = compute(k, in[0] & 0xffff, in[1] & 0xffff, in[2] & 0xffff);
  uint64_t high = compute(k, in[0] >> 16, in[1] >> 16, in[2] >> 16);
  write(t, i.operands[0], high << 16 | low);
}

struct Type {
  const char *name;
  const Format *format;
  uint8_t numbers;
  const char *slot;
};
const Type F32Type = {".f32", &F32, 1, "f32"},
           F64Type = {".f64", &F64, 1, "f64"};
const Type HalfTypes[] = {{".f16", &F16, 1, "16"},
                          {".f16x2", &F16, 2, "32"},
                          {".bf16", &BF16, 1, "16"},
                          {".bf16x2", &BF16, 2, "32"}};

struct Mode {
  const char *name;
  Rounding rounding;
};
const Mode Modes[] = {{".rn", Rounding::NearestEven},
                      {".rz", Rounding::TowardZero},
                      {".rm", Rounding::Down},
                      {".rp", Rounding::Up}};

class Adder {
public:
  explicit Adder(Registry &registry) : registry(registry) {}

  void form(const std::string &opcode, Operation operation, unsigned sources,
            const std::string &modifiers, const Type &type, Traits k) {
    k.format = !k.ftz                ? type.format
               : type.format == &F16 ? &F16Ftz
                                     : &F32Ftz;
    k.numbers = type.numbers;
    k.operation = operation;
    std::string slots = std::string("=") + type.slot;
    for (unsigned n = 0; n < sources; ++n)
      slots += std::string(" ") + type.slot;
    // Three instances of run(), by the number of operands to read.
    Handler handler = sources == 1 ? run<1> : sources == 2 ? run<2> : run<3>;
    registry.add(opcode + modifiers + type.name, handler, slots, k);
  }

  /// The rounded operations: all modes for f32 and f64, `.rn` for the halves.
  void rounded(const std::string &opcode, Operation operation, unsigned sources,
               bool hasSat, bool hasHalves, bool hasRelu) {
    for (const Mode &mode : Modes) {
      for (bool ftz : {false, true})
        for (bool sat : {false, true})
          if (hasSat || !sat)
            form(opcode, operation, sources, suffix(mode.name, ftz, sat),
                 F32Type, traits(mode.rounding, ftz, sat));
      form(opcode, operation, sources, mode.name, F64Type,
           traits(mode.rounding, false, false));
    }
    if (!hasHalves)
      return;
    for (const Type &type : HalfTypes) {
      bool isF16 = type.format == &F16;
      for (bool ftz : {false, true})
        for (bool sat : {false, true})
          // bf16 has neither .ftz nor .sat.
          if (isF16 || (!ftz && !sat))
            form(opcode, operation, sources, suffix(".rn", ftz, sat), type,
                 traits(Rounding::NearestEven, ftz, sat));
      for (bool ftz : {false, true}) {
        if (!hasRelu || (ftz && !isF16))
          continue;
        Traits k = traits(Rounding::NearestEven, ftz, false);
        k.relu = true;
        form(opcode, operation, sources, suffix(".rn", ftz, false) + ".relu",
             type, k);
      }
    }
  }

  void minMax(const std::string &opcode, Operation operation) {
    form(opcode, operation, 2, "", F64Type, {});
    auto all = [&](const Type &type, bool hasFtz) {
      for (bool ftz : {false, true})
        for (bool nan : {false, true})
          for (bool xorSign : {false, true}) {
            if (ftz && !hasFtz)
              continue;
            Traits k = traits(Rounding::NearestEven, ftz, false);
            k.nan = nan;
            k.xorSignAbs = xorSign;
            form(opcode, operation, 2,
                 std::string(ftz ? ".ftz" : "") + (nan ? ".NaN" : "") +
                     (xorSign ? ".xorsign.abs" : ""),
                 type, k);
          }
    };
    all(F32Type, true);
    for (const Type &type : HalfTypes)
      all(type, type.format == &F16);
  }

  void signOnly(const std::string &opcode, Operation operation) {
    form(opcode, operation, 1, "", F32Type, {});
    form(opcode, operation, 1, ".ftz", F32Type,
         traits(Rounding::NearestEven, true, false));
    form(opcode, operation, 1, "", F64Type, {});
    for (const Type &type : HalfTypes) {
      form(opcode, operation, 1, "", type, {});
      if (type.format == &F16)
        form(opcode, operation, 1, ".ftz", type,
             traits(Rounding::NearestEven, true, false));
    }
  }

private:
  static std::string suffix(const char *mode, bool ftz, bool sat) {
    return std::string(mode) + (ftz ? ".ftz" : "") + (sat ? ".sat" : "");
  }
  static Traits traits(Rounding rounding, bool ftz, bool sat) {
    Traits k;
    k.rounding = rounding;
    k.ftz = ftz;
    k.saturate = sat;
    return k;
  }

  Registry &registry;
};

} // namespace

void ptx::addFloatForms(Registry &registry) {
  Adder add(registry);
  // Last three: has .sat, has f16 and bf16, has .relu.
  add.rounded("add", Add, 2, true, true, false);
  add.rounded("sub", Sub, 2, true, true, false);
  add.rounded("mul", Mul, 2, true, true, false);
  add.rounded("fma", Fma, 3, true, true, true);
  add.rounded("mad", Fma, 3, true, false, false); // mad.rn is fma.rn
  add.rounded("div", Div, 2, false, false, false);
  add.rounded("rcp", Rcp, 1, false, false, false);
  add.rounded("sqrt", Sqrt, 1, false, false, false);
  add.minMax("min", Min);
  add.minMax("max", Max);
  add.signOnly("abs", Abs);
  add.signOnly("neg", Neg);
  add.form("copysign", CopySign, 2, "", F32Type, {});
  add.form("copysign", CopySign, 2, "", F64Type, {});
}

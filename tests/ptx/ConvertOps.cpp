// cvt: between integers, between floats, across, and packed pairs.
#include "Machine.h"
#include "Registry.h"
#include "SoftFloat.h"

using namespace ptx;

namespace {

uint64_t low(uint64_t value, unsigned bits) {
  return bits == 64 ? value : value & ((uint64_t(1) << bits) - 1);
}

/// Chops to `bits` and extends to 64.
uint64_t extend(uint64_t value, unsigned bits, bool isSigned) {
  unsigned unused = 64 - bits;
  return isSigned ? uint64_t(int64_t(value << unused) >> unused)
                  : low(value, bits);
}

uint64_t clampInteger(uint64_t value, bool fromSigned, unsigned bits,
                      bool isSigned) {
  // `value` is extended to 64 bits by its own signedness.
  bool negative = fromSigned && int64_t(value) < 0;
  uint64_t largest = low(~uint64_t(0), bits) >> isSigned;
  if (!negative)
    return value > largest ? largest : value;
  if (!isSigned)
    return 0;
  int64_t smallest = -int64_t(largest) - 1;
  return int64_t(value) < smallest ? uint64_t(smallest) : value;
}

void integerToInteger(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = extend(read(t, i.operands[1]), k.sourceBits, k.sourceSigned);
  if (k.saturate)
    a = clampInteger(a, k.sourceSigned, k.bits, k.isSigned);
  write(t, i.operands[0], extend(a, k.bits, k.isSigned));
}

// Clamping is not optional here: PTX does it with and without .sat.
void floatToInteger(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = read(t, i.operands[1]);
  if (k.ftz)
    a = soft::flush(*k.source, a);
  uint64_t r = soft::toInteger(*k.source, a, {k.bits, k.isSigned}, k.rounding);
  write(t, i.operands[0], extend(r, k.bits, k.isSigned));
}

void integerToFloat(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = extend(read(t, i.operands[1]), k.sourceBits, k.sourceSigned);
  // 64 bits to f32 rounds once, straight from the integer.
  uint64_t r = soft::fromInteger(*k.format, a, k.sourceSigned, k.rounding);
  write(t, i.operands[0], k.saturate ? soft::clampToUnit(*k.format, r) : r);
}

enum Operation : uint8_t { Plain, ToIntegral, Finite };

/// One element.
uint64_t convertOne(const Traits &k, uint64_t a) {
  const Format &from = *k.source, &to = *k.format;
  if (k.ftz)
    a = soft::flush(from, a);
  uint64_t r =
      k.operation == ToIntegral
          ? soft::roundToIntegral(from, a, k.rounding)
          : soft::convert(from, to, a, k.rounding, k.operation == Finite);
  if (k.saturate)
    r = soft::clampToUnit(to, r);
  return k.relu ? soft::relu(to, r) : r;
}

void floatToFloat(Thread &t, const Instruction &i) {
  write(t, i.operands[0], convertOne(i.form->traits, read(t, i.operands[1])));
}

/// d = {a, b}: the first operand becomes the upper half.
void packTwo(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = convertOne(k, read(t, i.operands[1]));
  uint64_t b = convertOne(k, read(t, i.operands[2]));
  write(t, i.operands[0], a << k.format->width() | b);
}

/// A packed pair to a packed pair, halves in place.
void pairToPair(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  uint64_t a = read(t, i.operands[1]);
  // The same half in and out: nothing crosses over.
  unsigned from = k.source->width();
  uint64_t upper = convertOne(k, low(a >> from, from));
  uint64_t lower = convertOne(k, low(a, from));
  write(t, i.operands[0], upper << k.format->width() | lower);
}

/// cvt.pack.sat: two s32 clamped and packed; bytes push c up by 16 bits.
void packIntegers(Thread &t, const Instruction &i) {
  const Traits &k = i.form->traits;
  auto clamped = [&](unsigned n) {
    uint64_t a = extend(read(t, i.operands[n]), 32, true);
    return low(clampInteger(a, true, k.bits, k.isSigned), k.bits);
  };
  uint64_t r = clamped(1) << k.bits | clamped(2);
  if (k.bits == 8)
    r |= read(t, i.operands[3]) << 16;
  write(t, i.operands[0], r);
}

struct Mode {
  const char *name;
  Rounding rounding;
};
const Mode Modes[] = {{"n", Rounding::NearestEven},
                      {"z", Rounding::TowardZero},
                      {"m", Rounding::Down},
                      {"p", Rounding::Up}};
struct FloatType {
  const char *name, *slot;
  const Format *format;
};
const FloatType Floats[] = {{".f16", "16", &F16},
                            {".bf16", "16", &BF16},
                            {".f32", "f32", &F32},
                            {".f64", "f64", &F64}};

void addIntegers(Registry &r) {
  for (unsigned to : {8, 16, 32, 64})
    for (unsigned from : {8, 16, 32, 64})
      for (unsigned flags = 0; flags < 8; ++flags) {
        Traits k;
        k.bits = uint8_t(to);
        k.sourceBits = uint8_t(from);
        k.isSigned = flags & 1;
        k.sourceSigned = flags & 2;
        k.saturate = flags & 4;
        bool holdsAll =
            k.isSigned == k.sourceSigned ? to >= from : k.isSigned && to > from;
        if (k.saturate && holdsAll)
          continue; // nothing to clamp: not in PTX
        r.add(std::string(k.saturate ? "cvt.sat" : "cvt") +
                  (k.isSigned ? ".s" : ".u") + std::to_string(to) +
                  (k.sourceSigned ? ".s" : ".u") + std::to_string(from),
              integerToInteger,
              "=" + std::to_string(to) + "+ " + std::to_string(from) + "+", k);
      }
}

void addAcross(Registry &r) {
  for (const FloatType &f : Floats)
    for (unsigned bits : {8, 16, 32, 64})
      for (bool isSigned : {false, true})
        for (const Mode &mode : Modes) {
          if (f.format == &BF16 && bits == 8)
            continue;
          std::string type = (isSigned ? ".s" : ".u") + std::to_string(bits);
          std::string slot = std::to_string(bits) + "+";
          for (bool ftz : {false, true})
            for (bool sat : {false, true}) {
              if ((ftz && f.format != &F32) || (sat && f.format == &BF16))
                continue;
              Traits k;
              k.source = f.format;
              k.bits = uint8_t(bits);
              k.isSigned = isSigned;
              k.rounding = mode.rounding;
              k.ftz = ftz; // .sat is the default, hence no member
              r.add(std::string("cvt.r") + mode.name + "i" +
                        (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + type +
                        f.name,
                    floatToInteger, "=" + slot + " " + f.slot, k);
            }
          for (bool sat : {false, true}) {
            if (f.format == &BF16 && sat)
              continue;
            Traits k;
            k.format = f.format;
            k.sourceBits = uint8_t(bits);
            k.sourceSigned = isSigned;
            k.rounding = mode.rounding;
            k.saturate = sat;
            r.add(std::string("cvt.r") + mode.name + (sat ? ".sat" : "") +
                      f.name + type,
                  integerToFloat, std::string("=") + f.slot + " " + slot, k);
          }
        }
}

/// True when every value of `from` is one of `to`: then no rounding is written.
bool isWidening(const Format &from, const Format &to) {
  return from.exponentBits <= to.exponentBits &&
         from.mantissaBits <= to.mantissaBits;
}

void addFloatPair(Registry &r, const FloatType &to, const FloatType &from) {
  bool hasFtz = to.format == &F32 || from.format == &F32;
  std::string types = std::string(to.name) + from.name;
  std::string slots = std::string("=") + to.slot + " " + from.slot;
  bool hasSat = to.format != &BF16 && from.format != &BF16;
  bool isSame = to.format == from.format;
  bool widens = isWidening(*from.format, *to.format);
  for (bool ftz : {false, true})
    for (bool sat : {false, true}) {
      if ((ftz && !hasFtz) || (sat && !hasSat))
        continue;
      Traits k;
      // `.ftz` concerns the f32 side only, and an H100 does not flush what
      // becomes an f16, though the ISA says so: toward 0 and to the nearest it
      // is 0 anyhow.
      k.format = ftz && to.format == &F32 ? &F32Ftz : to.format;
      k.source = from.format;
      k.ftz = ftz && from.format == &F32 && to.format != &F16;
      k.saturate = sat;
      std::string tail =
          std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + types;
      // cvt.f16.f16 without .sat would be a move and is not PTX; cvt.f32.f32
      // is.
      if (widens && !(isSame && !ftz && !sat && to.format->width() < 32))
        r.add("cvt" + tail, floatToFloat, slots, k);
      for (const Mode &mode : Modes) {
        k.rounding = mode.rounding;
        k.operation = isSame ? ToIntegral : Plain;
        if (isSame || !widens)
          r.add(std::string("cvt.r") + mode.name + (isSame ? "i" : "") + tail,
                floatToFloat, slots, k);
      }
    }
}

/// f32 to one half or a pair, with `.relu` and `.satfinite`.
void addHalves(Registry &r) {
  // Only f16 and bf16, only to nearest and toward zero.
  for (const FloatType &to : {Floats[0], Floats[1]})
    for (const Mode &mode : {Modes[0], Modes[1]})
      for (bool relu : {false, true})
        for (bool finite : {false, true}) {
          Traits k;
          k.format = to.format;
          k.source = &F32;
          k.rounding = mode.rounding;
          k.relu = relu;
          k.operation = finite ? Finite : Plain;
          std::string head = std::string("cvt.r") + mode.name +
                             (relu ? ".relu" : "") +
                             (finite ? ".satfinite" : "") + to.name;
          if (relu || finite)
            r.add(head + ".f32", floatToFloat, "=16 f32", k);
          r.add(head + "x2.f32", packTwo, "=32 f32 f32", k);
        }
}

void addBytes(Registry &r) {
  // Hopper's bytes always saturate on the way down and never need to on the way
  // up: every code is an f16.
  const std::pair<const char *, const Format *> bytes[] = {{".e4m3x2", &E4M3},
                                                           {".e5m2x2", &E5M2}};
  for (auto [name, format] : bytes)
    for (bool relu : {false, true}) {
      Traits k;
      k.format = format;
      k.relu = relu;
      k.operation = Finite;
      std::string head =
          std::string("cvt.rn.satfinite") + (relu ? ".relu" : "") + name;
      k.source = &F32;
      r.add(head + ".f32", packTwo, "=16 f32 f32", k);
      k.source = &F16;
      r.add(head + ".f16x2", pairToPair, "=16 32", k);
      Traits back;
      back.format = &F16;
      back.source = format;
      back.relu = relu;
      r.add(std::string("cvt.rn") + (relu ? ".relu" : "") + ".f16x2" + name,
            pairToPair, "=32 16", back);
    }
  for (unsigned bits : {8, 16})
    for (bool isSigned : {false, true}) {
      Traits k;
      k.bits = uint8_t(bits);
      k.isSigned = isSigned;
      r.add(std::string("cvt.pack.sat.") + (isSigned ? "s" : "u") +
                std::to_string(bits) + ".s32" + (bits == 8 ? ".b32" : ""),
            packIntegers, bits == 8 ? "=32 32 32 32" : "=32 32 32", k);
    }
}

} // namespace

void ptx::addConvertForms(Registry &r) {
  addIntegers(r);
  addAcross(r);
  for (const FloatType &to : Floats)
    for (const FloatType &from : Floats)
      addFloatPair(r, to, from);
  addHalves(r);
  addBytes(r);
}

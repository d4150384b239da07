// The codec against LLVM's APFloat, where LLVM has the format: a second
// opinion.
//
//   format-apfloat [stride]     stride 1: every float; 0: strata
//
// NaN is compared as NaN. Formats without NaN and infinity are compared as far
// as they reach; of scales, what is no less than their smallest: below it LLVM
// knows a zero.
#include "FormatOracle.h"

#include "llvm/ADT/APFloat.h"

#include <cstdio>
#include <cstdlib>

using namespace altgrad;
using llvm::APFloat;

namespace {
struct Peer {
  const char *name;
  Format format;
  const llvm::fltSemantics &semantics;
};
} // namespace

static bool check(const Peer &peer, const oracle::Magnitudes &magnitudes) {
  const Format &f = peer.format;
  float largest = decode(f, f.maxCode());
  uint64_t wrong = 0, checked = 0;
  for (uint64_t i = 0; i < magnitudes.count(); ++i)
    for (uint32_t sign : {0u, 0x80000000u}) {
      uint32_t bits = magnitudes.at(i) | sign;
      float value = oracle::floatOf(bits);
      if (f.nan == NanCode::None && !(std::fabs(value) <= largest))
        continue;
      if (!f.hasZero && !(value >= 0x1.8p-127f))
        continue;
      APFloat theirs(value);
      bool lost;
      theirs.convert(peer.semantics, APFloat::rmNearestTiesToEven, &lost);
      uint32_t ours =
          encodeBits(f, bits, Rounding::NearestEven, Overflow::NonFinite);
      uint32_t code = uint32_t(theirs.bitcastToAPInt().getZExtValue());
      bool same = theirs.isNaN() ? ours == f.nanCode() : ours == code;
      // LLVM has no other ties: half of those between powers of two differ.
      same |= f.ties == Ties::Up && ours == code + 1 &&
              (bits & 0x7fffff) == 0x400000;
      ++checked;
      if (!same && ++wrong <= 5)
        printf("%s: %08x gives %x, LLVM %x\n", peer.name, bits, ours, code);
    }
  printf("%-11s %llu floats, %llu differ from APFloat\n", peer.name,
         (unsigned long long)checked, (unsigned long long)wrong);
  return wrong == 0;
}

int main(int count, char **arguments) {
  constexpr NanCode ieee = NanCode::Ieee, none = NanCode::None;
  const Peer peers[] = {
      {"bf16", bf16Format, APFloat::BFloat()},
      {"f16", f16Format, APFloat::IEEEhalf()},
      {"ocp.e4m3fn", ocpE4M3Format, APFloat::Float8E4M3FN()},
      {"ocp.e5m2", ocpE5M2Format, APFloat::Float8E5M2()},
      {"e4m3 ieee", {4, 3, 7, true, ieee}, APFloat::Float8E4M3()},
      {"e3m4 ieee", {3, 4, 3, true, ieee}, APFloat::Float8E3M4()},
      {"ocp.e2m3", {2, 3, 1, false, none}, APFloat::Float6E2M3FN()},
      {"ocp.e3m2", {3, 2, 3, false, none}, APFloat::Float6E3M2FN()},
      {"ocp.e2m1", {2, 1, 1, false, none}, APFloat::Float4E2M1FN()},
      {"ocp.e8m0",
       {8, 0, 127, false, NanCode::AllOnes, false, false, Ties::Up},
       APFloat::Float8E8M0FNU()}};
  oracle::Magnitudes magnitudes{count > 1 ? uint32_t(atoi(arguments[1])) : 0};
  bool right = true;
  for (const Peer &peer : peers)
    right = check(peer, magnitudes) && right;
  return right ? 0 : 1;
}

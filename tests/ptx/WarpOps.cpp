// Operations of a warp together: shfl, vote, match, redux, bar.warp.
#include "Registry.h"
#include "Warp.h"

#include <algorithm>

using namespace ptx;

namespace {

enum Shuffle : uint8_t { Up, Down, Bfly, Idx };

void shfl(Thread &t, const Instruction &i) {
  const Operand *o = i.operands; // d|p, a, b, c, mask
  together(t, i, read(t, o[5]), [&](const Named &named) {
    uint64_t values[32] = {}, sources[32] = {};
    bool valid[32] = {};
    named.each([&](Thread &thread, unsigned number) {
      // The ISA's pseudo-code, name by name: bval, cval, segmask.
      uint32_t b = read(thread, o[3]) & 31, c = uint32_t(read(thread, o[4]));
      uint32_t clamp = c & 31, segment = c >> 8 & 31;
      uint32_t most = (number & segment) | (clamp & ~segment);
      uint32_t least = number & segment;
      int source = 0;
      switch (i.form->traits.operation) {
      case Up:
        source = int(number) - int(b);
        valid[number] = source >= int(most);
        break;
      case Down:
        source = int(number + b);
        valid[number] = source <= int(most);
        break;
      case Bfly:
        source = int(number ^ b);
        valid[number] = source <= int(most);
        break;
      case Idx:
        source = int(least | (b & ~segment));
        valid[number] = source <= int(most);
        break;
      }
      sources[number] = valid[number] ? unsigned(source) : number;
      if (named.has(unsigned(sources[number])))
        values[number] = read(*named[unsigned(sources[number])], o[2]);
    });
    named.each([&](Thread &thread, unsigned number) {
      write(thread, o[0], values[number]);
      write(thread, o[1], valid[number]);
      // A thread outside the mask gives nothing defined: reading it will fail.
      if (!named.has(unsigned(sources[number])) &&
          o[0].kind == Operand::Register)
        thread.written[o[0].index] = 0;
    });
  });
}

enum Vote : uint8_t { All, Any, Uniform, Ballot };

void vote(Thread &t, const Instruction &i) {
  const Operand *o = i.operands; // d, predicate, mask
  together(t, i, read(t, o[2]), [&](const Named &named) {
    // Threads outside the mask do not vote.
    uint32_t ballot = 0, mask = 0;
    named.each([&](Thread &thread, unsigned number) {
      mask |= uint32_t(1) << number;
      ballot |= uint32_t(readPredicate(thread, o[1])) << number;
    });
    uint64_t result = 0;
    switch (i.form->traits.operation) {
    case All:
      result = ballot == mask;
      break;
    case Any:
      result = ballot != 0;
      break;
    case Uniform:
      result = ballot == mask || ballot == 0;
      break;
    case Ballot:
      result = ballot;
      break;
    }
    named.each([&](Thread &thread, unsigned) { write(thread, o[0], result); });
  });
}

/// match.any: who has my value; match.all: the mask if all agree, else 0.
template <bool All> void match(Thread &t, const Instruction &i) {
  const Operand *o = i.operands; // d|p, a, mask
  together(t, i, read(t, o[All ? 3 : 2]), [&](const Named &named) {
    uint64_t values[32] = {};
    uint32_t mask = 0;
    named.each([&](Thread &thread, unsigned number) {
      values[number] = read(thread, o[All ? 2 : 1]);
      mask |= uint32_t(1) << number;
    });
    named.each([&](Thread &thread, unsigned number) {
      uint32_t same = 0;
      for (unsigned other = 0; other < 32; ++other)
        if (named.has(other) && values[other] == values[number])
          same |= uint32_t(1) << other;
      if (!All) {
        write(thread, o[0], same);
        return;
      }
      write(thread, o[0], same == mask ? mask : 0);
      write(thread, o[1], same == mask);
    });
  });
}

enum Reduction : uint8_t { Add, Min, Max, And, Or, Xor };

uint32_t reduce(const Traits &k, uint32_t a, uint32_t b) {
  switch (k.operation) {
  case Add:
    return a + b;
  case Min:
    return k.isSigned ? uint32_t(std::min(int32_t(a), int32_t(b)))
                      : std::min(a, b);
  case Max:
    return k.isSigned ? uint32_t(std::max(int32_t(a), int32_t(b)))
                      : std::max(a, b);
  case And:
    return a & b;
  case Or:
    return a | b;
  default:
    return a ^ b;
  }
}

void redux(Thread &t, const Instruction &i) {
  const Operand *o = i.operands; // d, a, mask
  together(t, i, read(t, o[2]), [&](const Named &named) {
    // Integer reductions do not depend on order.
    bool isFirst = true;
    uint32_t result = 0;
    named.each([&](Thread &thread, unsigned) {
      uint32_t a = uint32_t(read(thread, o[1]));
      result = isFirst ? a : reduce(i.form->traits, result, a);
      isFirst = false;
    });
    named.each([&](Thread &thread, unsigned) { write(thread, o[0], result); });
  });
}

/// The one warp operation that orders memory; shfl and vote do not.
void barWarp(Thread &t, const Instruction &i) {
  together(t, i, read(t, i.operands[0]), [&](const Named &named) {
    uint32_t barrierClock = 0, warpClock = 0;
    KnowledgeRef known;
    named.each([&](Thread &thread, unsigned) {
      barrierClock = std::max(barrierClock, thread.clock.now.barrierClock);
      warpClock = std::max(warpClock, thread.clock.now.warpClock);
      known = merge(known, thread.clock.known);
    });
    named.each([&](Thread &thread, unsigned) {
      thread.clock.now.barrierClock = barrierClock;
      thread.clock.now.warpClock = warpClock + 1;
      thread.clock.known = known;
    });
  });
}

Traits operation(uint8_t o, bool isSigned = false) {
  Traits k;
  k.operation = o;
  k.isSigned = isSigned;
  return k;
}

} // namespace

void ptx::addWarpForms(Registry &r) {
  const char *shuffles[] = {".up", ".down", ".bfly", ".idx"};
  for (uint8_t s = 0; s < 4; ++s)
    r.add(std::string("shfl.sync") + shuffles[s] + ".b32", shfl,
          "=32| 32 32 32 32", operation(s));
  const char *votes[] = {".all.pred", ".any.pred", ".uni.pred"};
  for (uint8_t v = 0; v < 3; ++v)
    r.add(std::string("vote.sync") + votes[v], vote, "=p !p 32", operation(v));
  r.add("vote.sync.ballot.b32", vote, "=32 !p 32", operation(Ballot));
  for (const char *n : {"32", "64"}) {
    r.add(std::string("match.any.sync.b") + n, match<false>,
          std::string("=32 ") + n + " 32");
    r.add(std::string("match.all.sync.b") + n, match<true>,
          std::string("=32| ") + n + " 32");
  }
  const char *reductions[] = {".add", ".min", ".max"};
  for (uint8_t o = 0; o < 3; ++o)
    for (const char *type : {".u32", ".s32"})
      r.add(std::string("redux.sync") + reductions[o] + type, redux,
            "=32 32 32", operation(o, type[1] == 's'));
  const char *bits[] = {".and", ".or", ".xor"};
  for (uint8_t o = 0; o < 3; ++o)
    r.add(std::string("redux.sync") + bits[o] + ".b32", redux, "=32 32 32",
          operation(uint8_t(And + o)));
  r.add("bar.warp.sync", barWarp, "32");
}

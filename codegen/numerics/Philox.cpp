// Philox4x32-10.
#include "codegen/numerics/Philox.h"

#include "dialect/builders/Integers.h"

using namespace mlir;
using namespace altgrad;

static constexpr uint32_t multipliers[] = {0xD2511F53, 0xCD9E8D57};
static constexpr uint32_t increments[] = {0x9E3779B9, 0xBB67AE85};
static constexpr unsigned rounds = 10;

namespace {
// The halves of a product of 32 bits by 32.
struct Product {
  Value high, low;
};
} // namespace

// In lanes of 64 bits the product is one instruction of a CPU, and its halves
// need not change places between lanes; a GPU has registers of 32.
static Product multiply(const Integers &words, Value word, uint32_t by) {
  bool wide = getElementTypeOrSelf(words.type).isInteger(64);
  Integers products{words.b, words.of(words.b.getI64Type())};
  Value operand =
      wide ? products.bitAnd(word, products.constant(0xffffffff)) : words.b.extendUnsigned(products.type, word);
  Value product = words.b.mul(operand, products.constant(by));
  Value high = products.shiftRight(product, 32);
  if (wide)
    return {high, product};
  return {words.b.truncate(words.type, high), words.b.truncate(words.type, product)};
}

PhiloxWords altgrad::philox(CodeBuilder &b, PhiloxWords counter, Value key) {
  Integers words{b, counter[0].getType()};
  Integers one{b, getElementTypeOrSelf(words.type)}, whole{b, b.getI64Type()};
  auto part = [&](unsigned shift) -> Value {
    Value half = whole.shiftRight(key, shift);
    if (half.getType() == one.type)
      return half;
    return b.truncate(one.type, half);
  };
  auto spread = [&](Value value) -> Value {
    if (value.getType() == words.type)
      return value;
    return b.broadcast(words.type, value);
  };
  Value low = part(0), high = part(32);
  for (unsigned round = 0; round < rounds; ++round) {
    Product first = multiply(words, counter[0], multipliers[0]);
    Product second = multiply(words, counter[2], multipliers[1]);
    auto mix = [&](Value product, Value word, Value of, unsigned which) {
      Value own = one.add(of, one.constant(uint32_t(round * increments[which])));
      return words.bitXor(words.bitXor(product, word), spread(own));
    };
    counter = {mix(second.high, counter[1], low, 0), second.low, mix(first.high, counter[3], high, 1), first.low};
  }
  return counter;
}

Value altgrad::philoxTag(CodeBuilder &b, Value tag, int64_t store) {
  Integers words{b, tag.getType()};
  return words.bitOr(words.bitAnd(tag, words.constant(0xffffff)), words.constant(uint64_t(store) << 24));
}

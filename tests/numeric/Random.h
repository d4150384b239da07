// Bits that are the same in every run: xorshift64 (Marsaglia, 2003).
#ifndef ALTGRAD_TESTS_NUMERIC_RANDOM_H
#define ALTGRAD_TESTS_NUMERIC_RANDOM_H

#include <cstdint>

struct Random {
  uint64_t state = 88172645463325252ull;
  uint32_t operator()() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return uint32_t(state >> 24);
  }
};

#endif // ALTGRAD_TESTS_NUMERIC_RANDOM_H

// What the operations of a warp together are built of.
#ifndef ALTGRAD_TESTS_PTX_WARP_H
#define ALTGRAD_TESTS_PTX_WARP_H

#include "Machine.h"

namespace ptx {

/// The threads a mask names, at the moment all of them have arrived.
// Results are computed from all threads before any thread is written: a
// destination may be a source.
class Named {
public:
  Named(Thread &t, uint32_t mask) : mask(mask) {
    for (unsigned number = 0; number < 32; ++number)
      threads[number] = has(number) ? t.block->ofWarp(t, number) : nullptr;
  }
  bool has(unsigned number) const { return mask >> number & 1; }
  Thread *operator[](unsigned number) const { return threads[number]; }

  template <class Visit> void each(Visit visit) const {
    for (unsigned number = 0; number < 32; ++number)
      if (has(number))
        visit(*threads[number], number);
  }

private:
  uint32_t mask;
  Thread *threads[32];
};

/// Runs `collect` for the last thread to arrive; the operands of the waiting
/// threads are still what they were.
template <class Collect>
void together(Thread &t, const Instruction &i, uint64_t mask, Collect collect) {
  if (t.block->arriveAtWarp(t, i, uint32_t(mask)))
    collect(Named(t, uint32_t(mask)));
}

} // namespace ptx

#endif

// Which stretches of memory share a byte.
#ifndef ALTGRAD_CORE_OVERLAP_H
#define ALTGRAD_CORE_OVERLAP_H

#include "Tensor.h"

#include <vector>

namespace altgrad::core {

// A run of neighbours in the memory of the tensor `of`.
struct Span {
  uint64_t begin, end;
  int64_t of;
};

// Whether runs of two tensors overlap; those from `written` on are only read, which they may be in one memory.
// `shared`, where it is given, gets a 1 for each tensor of which one does.
bool spansOverlap(std::vector<Span> runs, int64_t written, uint8_t *shared = nullptr);
// The same of their elements.
bool tensorsOverlap(const std::vector<Handle> &tensors, int64_t written, uint8_t *shared = nullptr);
// From the first element of a tensor to its last. Memory that is shared until it is `written` becomes its own.
Span spanOf(Handle tensor, int64_t of = 0, bool written = true);

} // namespace altgrad::core

#endif // ALTGRAD_CORE_OVERLAP_H

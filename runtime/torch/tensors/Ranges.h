// Memory that a step writes: ranges that must be apart from each other and from
// every gradient.
#ifndef ALTGRAD_TORCH_RANGES_H
#define ALTGRAD_TORCH_RANGES_H

#include "tensors/Checks.h"

namespace altgrad::optim {

class Ranges {
public:
  // `what` is the name of a state, "" for the parameter itself.
  void add(const at::Tensor &tensor, const Place &place, std::string what);
  // Sorts the ranges; throws if two of them overlap.
  void close();

  struct Span {
    uintptr_t begin, end;
  };
  // The free stretch around `begin`, empty if it lies in a range.
  Span gapAt(uintptr_t begin) const;
  // Throws if `tensor` overlaps a range.
  void checkApart(const at::Tensor &grad, const Place &place) const;

private:
  struct Range {
    uintptr_t begin, end;
    Place place;
    std::string what;
    std::string name() const;
  };
  size_t firstBehind(uintptr_t begin) const;

  std::vector<Range> ranges;
  std::vector<Span> spans; // the ranges, close together for the search
};

// Whether stretches of memory lie in gaps between ranges; neighbours are often
// in one gap.
class GapSearch {
public:
  explicit GapSearch(const Ranges &ranges) : ranges(ranges) {}
  bool isApart(const void *data, size_t bytes) {
    auto begin = reinterpret_cast<uintptr_t>(data);
    if (begin < gap.begin || begin + bytes > gap.end)
      gap = ranges.gapAt(begin);
    return begin >= gap.begin && begin + bytes <= gap.end;
  }

private:
  const Ranges &ranges;
  Ranges::Span gap{1, 0};
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_RANGES_H

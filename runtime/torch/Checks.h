// What a step demands of tensors before it changes any.
#ifndef ALTGRAD_TORCH_CHECKS_H
#define ALTGRAD_TORCH_CHECKS_H

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace altgrad::optim {

// A parameter's place, for messages.
struct Place {
  size_t group, index;
};
std::string toString(const Place &place);

void checkParameter(const at::Tensor &param, const Place &place);
void checkGradient(const at::Tensor &param, const at::Tensor &grad,
                   const Place &place);

// Whether the elements of `other` lie in memory in the order of `param`'s.
bool hasLayoutOf(const at::Tensor &param, const at::Tensor &other);

// Memory that a step writes, as a set of ranges that must be apart.
class Written {
public:
  void clear() { ranges.clear(); }
  void add(const at::Tensor &tensor, const Place &place, std::string what);
  // Sorts the ranges; throws if two of them overlap.
  void close();
  // Throws if `bytes` at `data` overlap a range.
  void checkApart(const void *data, size_t bytes, const Place &place) const;

private:
  struct Range {
    uintptr_t begin, end;
    Place place;
    std::string what;
    std::string name() const;
  };
  struct Span {
    uintptr_t begin, end;
  };
  std::vector<Range> ranges;
  std::vector<Span> spans; // the ranges, close together for the search
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_CHECKS_H

// Finds memory that two tensors of a step share.
#include "tensors/Ranges.h"

#include <c10/util/Exception.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

std::string Ranges::Range::name() const {
  return what.empty() ? toString(place) : "'" + what + "' of " + toString(place);
}

void Ranges::add(const Tensor &tensor, const Place &place, std::string what) {
  if (tensor.numel() == 0)
    return;
  // A tensor that shares its memory until it is written copies it here.
  auto begin = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  ranges.push_back({begin, begin + extentOf(tensor), place, std::move(what)});
}

void Ranges::close() {
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i)
    TORCH_CHECK(ranges[i - 1].end <= ranges[i].begin, "altgrad: ", ranges[i].name(), " overlaps ", ranges[i - 1].name(),
                " in memory");
  spans.clear();
  for (const Range &range : ranges)
    spans.push_back({range.begin, range.end});
}

// The first range that ends behind `begin`.
size_t Ranges::firstBehind(uintptr_t begin) const {
  const Span *next = spans.data();
  for (size_t left = spans.size(); left > 0;) {
    size_t half = (left + 1) / 2;
    next += next[half - 1].end <= begin ? half : 0;
    left -= half;
  }
  return size_t(next - spans.data());
}

Ranges::Span Ranges::gapAt(uintptr_t begin) const {
  size_t next = firstBehind(begin);
  return {next == 0 ? 0 : spans[next - 1].end, next == spans.size() ? UINTPTR_MAX : spans[next].begin};
}

void Ranges::checkApart(const Tensor &grad, const Place &place) const {
  if (grad.numel() == 0)
    return;
  auto begin = reinterpret_cast<uintptr_t>(grad.const_data_ptr());
  size_t found = firstBehind(begin);
  TORCH_CHECK(found == ranges.size() || begin + extentOf(grad) <= ranges[found].begin, "altgrad: the gradient of ",
              toString(place), " overlaps ", ranges[found].name(), " in memory");
}

// Whether stretches of memory share a byte.
#ifndef ALTGRAD_CORE_APART_H
#define ALTGRAD_CORE_APART_H

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace altgrad::core {

// Each has a begin and an end behind it. In most lists each begins behind the
// one before it.
inline bool areApart(std::vector<std::pair<uint64_t, uint64_t>> spans) {
  if (!std::is_sorted(spans.begin(), spans.end()))
    std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i)
    if (spans[i].first < spans[i - 1].second)
      return false;
  return true;
}

} // namespace altgrad::core

#endif // ALTGRAD_CORE_APART_H

#include "ScaleLayout.h"

#include "altgrad/bundle.h"

#include <c10/util/SmallVector.h>

using namespace altgrad::native;
using at::Tensor;

namespace {

// A dimension of the tensor, and how far its next scale is: 0 for the same one.
struct Extent {
  int64_t size, step;
};
using Extents = c10::SmallVector<Extent, 8>;

constexpr int64_t most = 1 << 18; // stretches

// Whether the compiler has blocks of so many elements.
bool isBlock(int64_t size) {
  return size >= ALTGRAD_BLOCK_LEAST && size <= ALTGRAD_BLOCK_MOST &&
         (size & (size - 1)) == 0;
}

// Dimensions with more than one element, the last one in two where its blocks
// are all whole; nothing where scales do not broadcast to just `x`. `cut`
// becomes the elements of the last one where they are not.
std::optional<Extents> extentsOf(const Tensor &x, const Tensor &scale,
                                 int64_t block, int64_t &cut) {
  Extents extents;
  int64_t ahead = x.dim() - scale.dim();
  if (ahead < 0 ||
      (block && scale.size(-1) != (x.size(-1) + block - 1) / block))
    return std::nullopt;
  for (int64_t i = 0; i < x.dim(); ++i) {
    int64_t size = x.size(i), step = 0, of = 1;
    if (i >= ahead && scale.size(i - ahead) > 1) {
      step = scale.stride(i - ahead);
      of = scale.size(i - ahead);
    }
    bool blocks = block > 1 && i + 1 == x.dim() && of > 1;
    if (of > 1 && of != (blocks ? (size + block - 1) / block : size))
      return std::nullopt;
    if (blocks && size % block == 0) {
      extents.push_back({size / block, step});
      extents.push_back({block, 0});
    } else if (blocks) {
      cut = size;
      extents.push_back({of, step});
    } else if (size > 1) {
      extents.push_back({size, step});
    }
  }
  return extents;
}

// The elements of the last dimensions whose scales lie `step` apart each, which
// are taken away.
int64_t takeRun(Extents &extents, bool same) {
  int64_t run = 1;
  while (!extents.empty() && extents.back().step == (same ? 0 : run)) {
    run *= extents.back().size;
    extents.pop_back();
  }
  return run;
}

// Of each element of these dimensions its scale; empty where they are too many.
std::vector<int64_t> placesOf(const Extents &extents) {
  std::vector<int64_t> places{0};
  for (const Extent &extent : extents) {
    if (int64_t(places.size()) > most / extent.size)
      return {};
    std::vector<int64_t> next;
    next.reserve(places.size() * size_t(extent.size));
    for (int64_t place : places)
      for (int64_t i = 0; i < extent.size; ++i)
        next.push_back(place + i * extent.step);
    places = std::move(next);
  }
  return places;
}

} // namespace

bool altgrad::native::isReadable(const Tensor &scale) {
  if (scale.layout() != at::kStrided || scale.is_nested() ||
      !scale.has_storage() || scale.is_neg() || scale._is_zerotensor() ||
      scale.scalar_type() != at::kFloat || scale.numel() == 0)
    return false;
  int64_t last = scale.storage_offset();
  for (int64_t i = 0; i < scale.dim(); ++i)
    last += (scale.size(i) - 1) * scale.stride(i);
  return size_t(last + 1) * sizeof(float) <= scale.storage().nbytes();
}

std::optional<ScaleLayout>
altgrad::native::layoutOf(const Tensor &x, const Tensor &scale, int64_t block) {
  int64_t cut = 0;
  if (!x.is_contiguous() || x.numel() == 0)
    return std::nullopt;
  std::optional<Extents> extents = extentsOf(x, scale, block, cut);
  if (!extents)
    return std::nullopt;
  ScaleLayout layout;
  if (cut) {
    // Blocks do not reach over the end of a row.
    if (!isBlock(block) || extents->back().step != 1)
      return std::nullopt;
    extents->pop_back();
    layout.extent = std::to_string(block);
    layout.columns = cut;
  } else if (int64_t same = takeRun(*extents, true); same > 1) {
    Extents rest = *extents;
    bool isOne = isBlock(same) && same < x.numel() &&
                 takeRun(rest, false) * same == x.numel();
    layout.extent = isOne ? std::to_string(same) : "tensor";
    layout.columns = isOne ? x.numel() : same;
    if (isOne)
      extents->clear();
  } else {
    layout.extent = "element";
    layout.columns = takeRun(*extents, false);
  }
  layout.first = placesOf(*extents);
  if (layout.first.empty())
    return std::nullopt;
  return layout;
}

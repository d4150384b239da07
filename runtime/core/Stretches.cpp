// How the scales of a contiguous tensor lie over it.
#include "Errors.h"
#include "StorageLine.h"
#include "altgrad_quant.h"

#include <algorithm>
#include <cstring>

using namespace altgrad::core;

namespace {

constexpr int64_t most = 1 << 18; // stretches

// Dimensions with more than one element, and how far the next scale is along each.
using Extents = std::vector<std::pair<int64_t, int64_t>>;

// Takes away the last dimensions that share a scale, or whose scales lie in a row; how many elements they have.
int64_t take(Extents &extents, bool inRow) {
  int64_t run = 1;
  for (; !extents.empty() && extents.back().second == (inRow ? run : 0); extents.pop_back())
    run *= extents.back().first;
  return run;
}

// Of each element of these dimensions its scale; none where they are too many.
std::vector<int64_t> placesOf(const Extents &extents) {
  std::vector<int64_t> places{0};
  for (auto [size, step] : extents) {
    if (int64_t(places.size()) > most / size)
      return {};
    std::vector<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = 0; i < size; ++i)
        next.push_back(place + i * step);
    places = std::move(next);
  }
  return places;
}

struct Layout {
  Extents extents; // the last dimension in two where its blocks are all whole
  int64_t cut = 0; // else the elements of it
};

Layout layOut(int64_t dims, const int64_t *sizes, int64_t own, const int64_t *scales, const int64_t *strides,
              int64_t block) {
  Layout of;
  for (int64_t i = 0; i < dims; ++i) {
    const int64_t at = i - (dims - own), count = at < 0 ? 1 : scales[at], step = count > 1 ? strides[at] : 0;
    if (block > 1 && i + 1 == dims && count > 1) {
      if (sizes[i] % block) {
        of.extents.emplace_back(count, step);
        of.cut = sizes[i];
      } else {
        of.extents.insert(of.extents.end(), {{sizes[i] / block, step}, {block, 0}});
      }
    } else if (sizes[i] > 1) {
      of.extents.emplace_back(sizes[i], step);
    }
  }
  return of;
}

// The stretches of a layout; `extents` keeps the dimensions that count them.
bool cutUp(Layout &of, int64_t block, std::string &extent, int64_t &columns) {
  Extents &extents = of.extents;
  if (of.cut) { // blocks do not reach over the end of a row
    const bool inRow = isBlock(block) && extents.back().second == 1;
    extents.pop_back();
    extent = std::to_string(block), columns = of.cut;
    return inRow;
  }
  const int64_t same = take(extents, false);
  if (same == 1) {
    extent = "element", columns = take(extents, true);
    return true;
  }
  extent = "tensor", columns = same;
  Extents rest = extents;
  const int64_t blocks = take(rest, true);
  if (isBlock(same) && blocks > 1 && rest.empty()) {
    extent = std::to_string(same), columns = same * blocks;
    extents.clear();
  }
  return true;
}

bool broadcasts(int64_t dims, const int64_t *sizes, int64_t own, const int64_t *scales, int64_t block) {
  for (int64_t i = 1; i <= own; ++i) {
    const int64_t size = i > dims ? 1 : i == 1 && block ? (sizes[dims - 1] + block - 1) / block : sizes[dims - i];
    if (i > dims || (scales[own - i] != 1 && scales[own - i] != size))
      return false;
  }
  return true;
}

} // namespace

altgrad_status altgrad_core_find_stretches(int64_t dims, const int64_t *sizes, int64_t own, const int64_t *scales,
                                           const int64_t *strides, int64_t block, altgrad_core_stretches *out) {
  return guarded([&] {
    static thread_local std::vector<int64_t> first;
    *out = {};
    std::string extent;
    if (!broadcasts(dims, sizes, own, scales, block))
      return;
    Layout of = layOut(dims, sizes, own, scales, strides, block);
    if (!cutUp(of, block, extent, out->columns))
      return;
    first = placesOf(of.extents);
    extent.copy(out->extent, sizeof out->extent - 1);
    out->first = first.data();
    out->count = int64_t(first.size());
  });
}

const char *altgrad_core_blocks_word(const char *word) {
  return guarded<const char *>(nullptr, [&] {
    const char *full = altgrad_core_in_full(word);
    if (!full)
      throw Refusal(ALTGRAD_SYSTEM, lastError());
    const altgrad_core_word of = parse(full);
    const std::string prefix = std::string("'") + word + "'";
    const Text scales = of.scales;
    const std::vector<Text> parts = split(full, ',');
    if (strchr(full, ' ') || (of.block < 2 && !of.columns) ||
        (scales != "f32" && scales != "f16" && scales != "ocp.e8m0"))
      throw Refusal(ALTGRAD_INVALID, prefix + " names no blocks with scales, as 'mxfp8' and 'ocp.e4m3fn:128' do");
    if (of.both)
      throw Refusal(ALTGRAD_INVALID, prefix + " asks for blocks of columns, too, which only an optimizer's step makes: "
                                            "quantize x.t().contiguous()");
    if (std::any_of(parts.begin() + 1, parts.end(), [](Text part) { return part.substr(0, 10) == "stochastic"; }))
      throw Refusal(ALTGRAD_INVALID,
                    prefix + " rounds stochastically, which needs the seed and the steps of an optimizer");
    return full;
  });
}

// How a tensor lies: sizes and strides, and what is said of them.
#ifndef ALTGRAD_CORE_LAYOUT_H
#define ALTGRAD_CORE_LAYOUT_H

#include "Errors.h"
#include "altgrad_core.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace altgrad::core {

using Numbers = std::vector<int64_t>;

inline int64_t product(const Numbers &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

// "(2, 3)", and "(2,)" of one.
inline std::string inWords(const Numbers &numbers) {
  std::string words;
  for (int64_t number : numbers)
    words += (words.empty() ? "(" : ", ") + std::to_string(number);
  return (words.empty() ? "(" : words) + (numbers.size() == 1 ? ",)" : ")");
}

struct Layout {
  Numbers sizes, strides;

  Layout(Numbers sizes, Numbers strides) : sizes(std::move(sizes)), strides(std::move(strides)) {}
  Layout(int64_t dims, const int64_t *sizes, const int64_t *strides)
      : sizes(sizes, sizes + dims), strides(strides, strides + dims) {}
  // Contiguous.
  explicit Layout(Numbers given) : sizes(std::move(given)), strides(sizes.size()) {
    int64_t count = 1;
    for (size_t i = sizes.size(); i-- > 0; count *= std::max<int64_t>(sizes[i], 1))
      strides[i] = count;
  }

  size_t dims() const { return sizes.size(); }
  // The stride of a dimension of one element says nothing.
  bool isContiguous() const {
    int64_t expected = 1;
    for (size_t i = dims(); i-- > 0; expected *= sizes[i])
      if (sizes[i] != 1 && strides[i] != expected)
        return false;
    return true;
  }
  // Its dimensions in another order.
  Layout inOrder(const Numbers &places) const {
    Layout made = *this;
    for (size_t i = 0; i < places.size(); ++i)
      made.sizes[i] = sizes[size_t(places[i])], made.strides[i] = strides[size_t(places[i])];
    return made;
  }
  // Its dimensions in the order of memory.
  Layout inMemory() const {
    Numbers places(dims());
    std::iota(places.begin(), places.end(), 0);
    std::sort(places.begin(), places.end(), [&](int64_t one, int64_t other) {
      return std::make_pair(strides[size_t(one)], sizes[size_t(one)]) >
             std::make_pair(strides[size_t(other)], sizes[size_t(other)]);
    });
    return inOrder(places);
  }
  // Whether its elements fill one stretch of memory, in any order.
  bool isDense() const { return inMemory().isContiguous(); }
  // Whether two elements may have one address: conservative, exact for slices of dense tensors.
  bool repeats() const {
    const Layout of = inMemory();
    int64_t reach = 0;
    for (size_t i = dims(); i-- > 0; reach += of.sizes[i] > 1 ? of.strides[i] * (of.sizes[i] - 1) : 0)
      if (of.sizes[i] > 1 && of.strides[i] <= reach)
        return true;
    return false;
  }
  [[noreturn]] void refuse(const std::string &why) const {
    throw Refusal(ALTGRAD_INVALID, "of shape " + inWords(sizes) + " and strides " + inWords(strides) + " " + why);
  }
};

// How what is kept beside a parameter lies, as altgrad_core_state_layout has it.
Layout stateLayout(const Layout &param, bool copy, int64_t block, int64_t columns, bool pairs);

// The dimensions of a parameter of these matrices in the order of memory.
Numbers placesOf(const altgrad_core_matrices &of, int64_t dims);

// One of the matrices that are apart: the index of its first element, and its tag.
struct Piece {
  int64_t first, rows, tag;
};
Piece pieceOf(const altgrad_core_matrices &of, int64_t index, int64_t place, int64_t more);

} // namespace altgrad::core

#endif // ALTGRAD_CORE_LAYOUT_H

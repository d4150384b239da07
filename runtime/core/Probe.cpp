// Whether the words of torch's objects that are compared say how a tensor lies. torch promises nothing about them, so
// objects are made that differ in one thing, and some bit has to differ, too.
#include "Tensor.h"

#include <algorithm>
#include <array>
#include <vector>

using namespace altgrad::core;

namespace {

using Numbers = std::vector<int64_t>;
using Words = std::array<uint64_t, ownWords + sharedWords>;

constexpr int64_t mostDims = 5; // whose sizes lie in the object, as far as anyone has seen
constexpr unsigned objects = 32;

struct Lie {
  Numbers sizes, strides;
  int64_t offset = 0;
};

// Tensors that are never read have any sizes and strides.
Held make(int32_t type) {
  static float memory[1];
  const int64_t one = 1;
  Held made;
  require(
      aoti_torch_create_tensor_from_blob(memory, 1, &one, &one, 0, type, aoti_torch_device_type_cpu(), 0, made.out()));
  return made;
}

Held lying(Handle base, const Lie &as) {
  Held made;
  require(aoti_torch__reinterpret_tensor(base, int64_t(as.sizes.size()), as.sizes.data(), as.strides.data(), as.offset,
                                         made.out()));
  return made;
}

class Probe {
public:
  // Bits of what lies between the fields, and of addresses, may tell objects apart by chance: they do so again.
  explicit Probe(size_t words) : words(words) {
    for (int i = 0; i < 4; ++i) {
      const Words found = between(plain, unit, plain, unit);
      for (size_t word = 0; word < words; ++word)
        chance[word] |= found[word];
    }
  }

  // The bits that are the same in all objects of a kind and other ones in those of another. The kinds take turns as the
  // parity of a number's bits does, so that no bit of evenly spaced addresses follows them.
  Words between(Handle base, const Lie &one, Handle otherBase, const Lie &other) const {
    std::vector<Held> made;
    Words all[2], any[2] = {};
    std::for_each(all, all + 2, [](Words &of) { of.fill(~uint64_t(0)); });
    for (unsigned i = 0; i < objects; ++i) {
      const bool kind = __builtin_parity(i);
      made.push_back(kind ? lying(otherBase, other) : lying(base, one));
      for (size_t word = 0; word < words; ++word) {
        all[kind][word] &= wordsOf(made.back())[word];
        any[kind][word] |= wordsOf(made.back())[word];
      }
    }
    Words found{};
    for (size_t i = 0; i < words; ++i)
      found[i] = ((all[0][i] & ~any[1][i]) | (all[1][i] & ~any[0][i])) & ~chance[i];
    return found;
  }
  bool tells(const Lie &one, const Lie &other) const { return between(plain, one, plain, other) != Words{}; }

  // Storage, dtype and offset.
  bool tellsWhat() const {
    const Held other = make(aoti_torch_dtype_float32()), narrow = make(aoti_torch_dtype_bfloat16());
    const Words storages = between(plain, unit, other, unit);
    Words types = between(plain, unit, narrow, unit);
    for (size_t i = 0; i < words; ++i)
      types[i] = storages[i] ? 0 : types[i];
    return storages != Words{} && types != Words{} && tells(unit, {{1}, {1}, 1});
  }
  // Sizes of as many elements, and strides that leave gaps: neither a count nor a flag tells them apart.
  bool tellsShapes(size_t dims) const {
    Lie of{Numbers(dims, 1), Numbers(dims)};
    for (size_t i = 0; i < dims; ++i)
      of.strides[i] = int64_t(1000 + 7 * i);
    Lie shorter = of;
    shorter.sizes.pop_back(), shorter.strides.pop_back();
    bool all = tells(of, shorter);
    for (size_t i = 0; all && i < dims; ++i) {
      Lie one = of, other = of, moved = of;
      one.sizes[i] = 2;
      other.sizes[(i + 1) % dims] = dims == 1 ? 3 : 2;
      moved.strides[i] += 1;
      all = tells(one, other) && tells(of, moved);
    }
    return all;
  }

private:
  const size_t words;
  const Lie unit{{1}, {1}};
  const Held plain = make(aoti_torch_dtype_float32());
  Words chance{};
};

} // namespace

int64_t altgrad::core::dimsInWords(size_t words) {
  const Probe probe(words);
  if (!probe.tellsWhat())
    return -1;
  int64_t dims = 0;
  while (dims < mostDims && probe.tellsShapes(size_t(dims) + 1))
    ++dims;
  return dims;
}

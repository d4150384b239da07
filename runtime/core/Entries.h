// What dicts of Python held.
#ifndef ALTGRAD_CORE_ENTRIES_H
#define ALTGRAD_CORE_ENTRIES_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace altgrad::core {

// A dict of dicts, as optimizer.state is. Whoever makes one keeps all keys and
// values: another object at the address of one that is gone would pass for it.
class Entries {
public:
  // `inner` has the values of `state` in order, null for what is not looked at.
  Entries(void *state, void *const *inner, int64_t count);
  // Whether every entry is the object that it was, at the same place.
  bool areSame(void *state) const;

private:
  struct Outer {
    void *key;
    void *held;   // its dict; null for what the user keeps there
    size_t first; // in `words`
  };
  bool isSame(const Outer &of, size_t end) const;
  void prefetchDict(size_t place, size_t end) const;

  std::vector<Outer> outer;
  std::vector<void *> words; // name, value, name, value
};

} // namespace altgrad::core

#endif // ALTGRAD_CORE_ENTRIES_H
